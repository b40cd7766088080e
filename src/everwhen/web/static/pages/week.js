// Week: what fires when. Rare schedules by name, all others as bars of slots per hour; a month as days.
import { html, useMemo, useState } from "../lib.js";
import { get, may } from "../api.js";
import { useKeys } from "../keys.js";
import { DAY, day, dayKey, hm, HOUR, ms, now, number, offsetOf, MINUTE, startOfDay, ZONE, zoneName } from "../time.js";
import { Glyph, Icon, KIND } from "../glyphs.js";
import { Dialog, Failed, Loading, moveInGrid, plural, Seg, useData, visible } from "../parts.js";
import { href, route, setQuery } from "../router.js";
import { labelOf } from "../names.js";
import { Page } from "../shell.js";

const RARE = 2; // bars in a day of a schedule that is shown by name
const TONE = { ok: "past", run: "past", queued: "past", fail: "bad", timeout: "bad", lost: "bad", miss: "bad", skip: "gone", cancel: "gone", hold: "to", next: "to" };
const weekday = (at) => (new Date(at + offsetOf(at) * MINUTE).getUTCDay() + 6) % 7;
const hourOf = (at) => Math.floor((((at + offsetOf(at) * MINUTE) % DAY) + DAY) % DAY / HOUR);
const total = (counts) => Object.values(counts).reduce((sum, count) => sum + count, 0);

export function Week() {
  const { query } = route.value, isMonth = query.get("as") === "month", anchor = Date.parse(query.get("week") || "") || now.value;
  const [chosenDay, setChosenDay] = useState(null), [cell, setCell] = useState(null);
  const first = useMemo(() => (isMonth ? monthStart(anchor) : startOfDay(anchor, -weekday(anchor))), [isMonth, dayKey(anchor)]);
  const days = useMemo(() => Array.from({ length: isMonth ? monthLength(first) : 7 }, (_, i) => startOfDay(first + 12 * HOUR, i)), [first, isMonth]), end = startOfDay(days.at(-1) + 12 * HOUR, 1);
  const { data, problem, again } = useData((abort) => get("timeline/", { from: iso(first), to: iso(end), stretch: 3600, rare: RARE * days.length, rows: 200 }, { signal: abort }), [first, end], { every: 60000 });
  const policies = useData((abort) => get("quiet-hours/", null, { signal: abort }), []).data?.items || [], shaded = query.get("quiet"), quiet = policies.filter((one) => !shaded || one.id === shaded);
  const step = (by) => setQuery({ week: new Date(isMonth ? startOfDay(by > 0 ? end + DAY : first - DAY) : startOfDay(first + 12 * HOUR, 7 * by) + 12 * HOUR).toISOString().slice(0, 10) });
  const toNow = () => setQuery({ week: null });
  useKeys({ t: toNow, "[": () => step(-1), "]": () => step(1) }, [first]);
  const model = useMemo(() => (data ? arrange(data, days) : null), [data, days]);
  const title = isMonth ? new Intl.DateTimeFormat("en-GB", { month: "long", year: "numeric", timeZone: ZONE }).format(first + 12 * HOUR) : `${day(days[0])} to ${day(days.at(-1))}`;
  const today = days.findIndex((at) => dayKey(at) === dayKey(now.value)), shown = chosenDay ?? Math.max(0, today);
  return html`<${Page} title=${isMonth ? "Month" : "Week"}>
    <div class="tools"><button class="btn square" aria-label=${isMonth ? "Month before" : "Week before"} onClick=${() => step(-1)}><${Icon} name="prev" /></button><button class="btn" onClick=${toNow}>${isMonth ? "This month" : "This week"} <kbd class="hide-phone">T</kbd></button><button class="btn square" aria-label=${isMonth ? "Month after" : "Week after"} onClick=${() => step(1)}><${Icon} name="next" /></button>
      <strong class="nowrap">${title}</strong><span class="grow"></span>
      ${isMonth || !policies.length ? null : html`<select class="select" aria-label="Quiet hours that are shaded" value=${shaded || ""} onChange=${(event) => setQuery({ quiet: event.target.value || null })}><option value="">Quiet hours: all</option>${policies.map((one) => html`<option key=${one.id} value=${one.id}>Quiet hours: ${visible(one.name || one.id)}</option>`)}<option value="-">Quiet hours: none</option></select>`}
      <div class="legend hide-phone"><span><i class="bar-key"></i>slots per ${isMonth ? "day" : "hour"}</span><span><${Glyph} kind="next" />will fire</span><span><${Glyph} kind="ok" />fired</span><span><${Glyph} kind="skip" />skipped or will be</span></div>
      <${Seg} label="View" options=${[["week", "Week"], ["month", "Month"]]} value=${isMonth ? "month" : "week"} onChange=${(value) => setQuery({ as: value === "month" ? "month" : null })} /></div>
    ${problem && !data ? html`<section class="card"><${Failed} what="The calendar could not be loaded" problem=${problem} again=${again} /></section>` : !model ? html`<section class="card"><${Loading} rows=${12} /></section>` : html`
    ${!data.schedule_count ? html`<p class="second">No slot lies in this ${isMonth ? "month" : "week"}. ${may("operator") ? html`<a class="btn small" href=${href("new")}>New schedule</a>` : null}</p>` : null}
    ${data.unlisted_slots ? html`<p class="second">${plural(data.unlisted_schedules, "schedule")} not named here: the figures have ${plural(data.unlisted_slots, "slot")} more${data.uncounted ? `; not counted: ${plural(data.uncounted, "record")}` : ""}.</p>` : null}
    ${isMonth ? html`<${MonthGrid} days=${days} model=${model} />` : html`
    <div class="days">${days.map((at, i) => html`<button key=${at} aria-pressed=${String(i === shown)} onClick=${() => setChosenDay(i)}>${day(at).slice(0, 3)}<b>${day(at).split(" ")[1]}</b></button>`)}</div>
    <section class="card" aria-label=${title}><div class="week" role="grid" aria-label="What fires when, by hour">
      <div class="wrow" role="row"><div class="dh" role="columnheader"><span class="sr">Hour</span></div>${days.map((at, i) => html`<div key=${at} class="dh ${i === today ? "today" : ""} ${i === shown ? "" : "off"}" role="columnheader">${day(at).slice(0, 3)}<small>${day(at).slice(4)}</small></div>`)}</div>
      ${Array.from({ length: 24 }, (_, hour) => html`<div class="wrow" role="row" key=${hour}><div class="hh" role="rowheader">${hour ? html`<span>${`${String(hour).padStart(2, "0")}:00`}</span>` : html`<span class="sr">00:00</span>`}</div>
        ${days.map((at, i) => html`<${Cell} key=${i} at=${at} index=${i} hour=${hour} model=${model} isOff=${i !== shown} isStop=${i === shown && hour === (i === today ? hourOf(now.value) : 0)} quiet=${quiet} open=${setCell} />`)}</div>`)}</div></section>`}`}
    ${cell ? html`<${CellDialog} cell=${cell} model=${model} onClose=${() => setCell(null)} />` : null}<//>`;
}
const iso = (at) => new Date(at).toISOString().replace(".000", "");
const monthStart = (at) => startOfDay(at, 1 - Number(dayKey(at).slice(8)));
const monthLength = (first) => { const [year, month] = dayKey(first + 12 * HOUR).split("-").map(Number); return new Date(Date.UTC(year, month, 0)).getUTCDate(); };

// Counts by day and hour, and the named bars of rare schedules.
function arrange(data, days) {
  const keys = new Map(days.map((at, i) => [dayKey(at), i])), counts = days.map(() => Array.from({ length: 24 }, () => ({}))), events = days.map(() => Array.from({ length: 24 }, () => []));
  for (const one of data.stretches) { const at = ms(one.from), i = keys.get(dayKey(at)); if (i === undefined) continue; const into = counts[i][hourOf(at)]; for (const [word, count] of Object.entries(one.counts)) into[word] = (into[word] || 0) + count; }
  const rows = new Map(data.rows.map((row) => [row.schedule_id, row])), inDay = new Map(), often = new Set();
  for (const bar of data.items) { // those of a week may be few, and lie in one day
    const key = `${bar.schedule_id} ${dayKey(ms(bar.due_at))}`, count = (inDay.get(key) || 0) + bar.count;
    inDay.set(key, count);
    if (count > RARE) often.add(bar.schedule_id);
  }
  for (const bar of data.items) {
    if (often.has(bar.schedule_id)) continue;
     const at = ms(bar.due_at), i = keys.get(dayKey(at)); if (i === undefined) continue; const kind = bar.kind === "job" ? KIND[bar.status] : bar.is_skipped ? "skip" : KIND[bar.kind]; events[i][hourOf(at)].push({ ...bar, at, mark: kind, label: rows.has(bar.schedule_id) ? labelOf(rows.get(bar.schedule_id)) : bar.schedule_id }); }
  const peaks = counts.map((hours) => Math.max(0, ...hours.map(total))), most = Math.max(1, ...peaks), peakHours = counts.map((hours, i) => hours.findIndex((one) => total(one) === peaks[i]));
  return { counts, events, peakHours, most, rows };
}
// Whether an hour lies in quiet hours; the policy's zone is its own.
function closedBy(policies, at) {
  return policies.filter((policy) => (policy.windows || []).some((window) => isInside(window, at, policy.timezone || ZONE))).map((policy) => policy.id);
}
const DAYS = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
function isInside(window, at, zone) {
  const wall = at + offsetOf(at, zone) * MINUTE, minute = (((wall % DAY) + DAY) % DAY) / MINUTE, weekdayOf = (new Date(wall).getUTCDay() + 6) % 7;
  const [from, to] = (window.between || "00:00-24:00").split("-").map((text) => { const [hours, minutes] = text.split(":").map(Number); return hours * 60 + minutes; });
  const on = (index) => !window.days?.length || window.days.some((name) => String(name).slice(0, 3) === DAYS[(index + 7) % 7]);
  return from < to ? minute >= from && minute < to && on(weekdayOf) : (minute >= from && on(weekdayOf)) || (minute < to && on(weekdayOf - 1));
}

// The instant at which an hour of a day begins, also on a day with a change of the clock.
const hourStart = (at, hour) => { const guess = at + hour * HOUR; return guess - (offsetOf(guess) - offsetOf(at)) * MINUTE; };
function Cell({ at, index, hour, model, isOff, isStop, quiet, open }) {
  const count = total(model.counts[index][hour]), list = model.events[index][hour].sort((a, b) => a.at - b.at), isPeak = count > 3 && hour === model.peakHours[index], start = hourStart(at, hour), closed = closedBy(quiet, start + 30 * MINUTE), isNow = now.value >= start && now.value < start + HOUR && dayKey(now.value) === dayKey(at);
  const words = `${day(at)} ${String(hour).padStart(2, "0")}:00, ${plural(count, "slot")}${list.length ? `: ${list.slice(0, 3).map((one) => `${hm(one.at)} ${one.label}`).join(", ")}` : ""}${closed.length ? `, quiet hours ${closed.join(", ")}` : ""}`;
  return html`<button class="cell ${closed.length ? "closed" : ""} ${isPeak ? "has-peak" : ""} ${isOff ? "off" : ""} ${isNow ? "has-now" : ""}" role="gridcell" tabindex=${isStop ? 0 : -1} data-cell=${`${hour}-${index}`} onKeyDown=${(event) => moveInGrid(event, hour, index)} onClick=${() => open({ index, hour, at: start })}><span class="sr">${words}</span>
    ${list.slice(0, 1).map((one) => html`<span class="ev ${TONE[one.mark]}" aria-hidden="true" key=${one.slot_at}><${Glyph} kind=${one.mark} /><span>${hm(one.at)} ${visible(one.label)}</span></span>`)}${list.length > 1 ? html`<span class="ev gone" aria-hidden="true">+${list.length - 1}</span>` : null}
    ${count ? html`<span class="d ${isPeak ? "peak" : ""}" aria-hidden="true" data-n=${number(count)} style=${{ width: `${(count / model.most) * 42}%` }}></span>` : null}${isNow ? html`<i class="week-now" style=${{ top: `${((now.value - start) / HOUR) * 100}%` }}></i>` : null}</button>`;
}
function CellDialog({ cell: { index, hour, at }, model, onClose }) {
  const list = model.events[index][hour], counts = model.counts[index][hour];
  return html`<${Dialog} title=${`${day(at)}, ${hm(at)} to ${hm(at + HOUR)} ${zoneName(at)}`} isWide onClose=${onClose} actions=${html`<a class="btn" href=${href("", null, { from: iso(at), span: 3600 })}>Show on the time line</a><button class="btn primary" onClick=${onClose}>Close</button>`}>
    <p class="second">${total(counts) ? Object.entries(counts).map(([word, count]) => `${number(count)} ${word.replace("_", " ")}`).join(", ") : "No slot lies here"}.</p>
    ${list.length ? html`<table class="table slots"><caption class="sr">Rare schedules in this hour</caption><tbody>${list.slice(0, 100).map((one) => html`<tr key=${one.schedule_id + one.slot_at + (one.job_id || "")}><td class="nowrap">${hm(one.at)}</td><td><span class="outcome"><${Glyph} kind=${one.mark} /><a href=${href("schedules", one.schedule_id, { at: one.slot_at })}>${visible(one.label)}</a></span></td></tr>`)}</tbody></table>${collisions(list)}` : null}<//>`;
}
// Two schedules that fire in the same minute are named.
function collisions(list) {
  const byMinute = new Map();
  for (const one of list) { const key = Math.floor(one.at / MINUTE); byMinute.set(key, new Set([...(byMinute.get(key) || []), one.label])); }
  const found = [...byMinute].filter(([, names]) => names.size > 1);
  return found.length ? html`<p class="second">At the same minute: ${found.map(([key, names]) => `${hm(key * MINUTE)} ${[...names].slice(0, 4).map(visible).join(" and ")}${names.size > 4 ? ` and ${names.size - 4} more` : ""}`).join("; ")}.</p>` : null;
}

function MonthGrid({ days, model }) {
  const lead = weekday(days[0]), sums = model.counts.map((hours) => hours.reduce((sum, counts) => { for (const [word, count] of Object.entries(counts)) sum[word] = (sum[word] || 0) + count; return sum; }, {})), most = Math.max(1, ...sums.map(total));
  return html`<section class="card" aria-label="The month"><div class="month">${["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"].map((name) => html`<div class="dh" key=${name}>${name}</div>`)}${Array.from({ length: lead }, (_, i) => html`<div class="mday" key=${`lead ${i}`}></div>`)}
    ${days.map((at, i) => { const counts = sums[i], bad = (counts.failed || 0) + (counts.timed_out || 0) + (counts.lost || 0), list = model.events[i].flat(); return html`<a class="mday ${dayKey(at) === dayKey(now.value) ? "today" : ""}" key=${at} href=${href("week", null, { week: dayKey(at) })} ><span class="sr">${day(at)}: ${Object.entries(counts).map(([word, count]) => `${count} ${word.replace("_", " ")}`).join(", ") || "nothing"}</span><span class="mbody" aria-hidden="true"><b>${Number(dayKey(at).slice(8))}</b><span class="muted">${total(counts) ? number(total(counts)) : ""}</span>${bad ? html`<span class="outcome bad-text"><${Glyph} kind="fail" />${number(bad)}</span>` : null}${counts.missed ? html`<span class="outcome"><${Glyph} kind="miss" />${number(counts.missed)}</span>` : null}<small class="clip">${list.slice(0, 2).map((one) => visible(one.label)).join(", ")}</small></span><i style=${{ width: `${(total(counts) / most) * 100}%` }}></i></a>`; })}${Array.from({ length: (14 - lead - (days.length % 7)) % 7 }, (_, i) => html`<div class="mday" key=${`rest ${i}`}></div>`)}</div></section>`;
}
