// A schedule: everything about it, and Why? of each of its slots.
import { html, useMemo, useState } from "../lib.js";
import { get, may, me } from "../api.js";
import { useKeys } from "../keys.js";
import { breakerOf, budgetOf } from "../live.js";
import { absolute, ago, date, duration, inOwnZone, ms, now, number, ofSchedule, percent, relative, ZONE } from "../time.js";
import { capital, Glyph, Icon, KIND, Pill, WORD } from "../glyphs.js";
import { Copy, Empty, Failed, Loading, Menu, noNextRun, pauseText, plural, ScheduleState, scheduleName, useData, visible } from "../parts.js";
import { approve, BackfillDialog, CancelAllDialog, DeclineDialog, DeleteDialog, PauseDialog, resumeAll, revive, TriggerDialog } from "../actions.js";
import { useStill } from "../feed.js";
import { jobName } from "../names.js";
import { errorText, reasonAhead, reasonText } from "../terms.js";
import { go, href, route, setQuery } from "../router.js";
import { Page } from "../shell.js";
import { Chart, Year } from "../charts.js";
import { Why } from "./why.js";

const TABS = [["", "Overview"], ["slots", "Slots"], ["revisions", "Revisions"], ["definition", "Definition"]];
const ours = (id) => (event) => event.schedule_id === id;

export function ScheduleAndWhy({ id }) {
  const { query } = route.value, tab = query.get("tab") || "", at = query.get("at");
  const path = `schedules/${encodeURIComponent(id)}/`;
  const { data: schedule, problem, again } = useData((abort) => get(path, null, { signal: abort }), [id], { events: ours(id), every: 30000 });
  const [dialog, setDialog] = useState(null), [limit, setLimit] = useState(50);
  const slots = useData((abort) => get(`${path}slots/`, { limit }, { signal: abort }), [id, limit], { events: ours(id) });
  const name = schedule ? visible(scheduleName(schedule)) : id;
  const openBreaker = schedule && breakerOf(schedule), budget = schedule && budgetOf(schedule);
  const why = (slot) => setQuery({ at: slot });
  useKeys({ w: () => (slots.data?.items.length ? why(slots.data.items[0].slot_at) : false) }, [slots.data]);
  const done = () => { again(); slots.again(); };
  // A deletion is sent later: whoever is elsewhere by then stays there.
  const leave = () => { if (route.value.page === "schedules" && route.value.id === id) go(href("schedules")); };
  const dialogs = { trigger: [TriggerDialog, (job) => { done(); if (job) go(href("jobs", job.id)); }], pause: [PauseDialog, done], backfill: [BackfillDialog, done], cancel: [CancelAllDialog, done], decline: [DeclineDialog, leave], delete: [DeleteDialog, leave] };
  const [Kind, after] = dialogs[dialog] || [];
  const body = problem && !schedule ? html`<section class="card"><${Failed} what=${problem.status === 404 ? "There is no such schedule" : "The schedule could not be loaded"} problem=${problem} again=${again} /></section>`
    : !schedule ? html`<section class="card"><${Loading} rows=${8} /></section>`
    : html`<${Title} schedule=${schedule} breaker=${openBreaker} budget=${budget} setDialog=${setDialog} done=${done} />
      <nav class="tabs" aria-label="Parts of this schedule">${TABS.map(([key, text]) => html`<a key=${key} href=${href("schedules", id, { tab: key || null })} aria-current=${tab === key ? "page" : undefined}>${text}</a>`)}</nav>
      ${tab === "slots" ? html`<${Slots} slots=${slots} schedule=${schedule} at=${at} why=${why} limit=${limit} more=${() => setLimit(Math.min(200, limit + 50))} isAll />`
        : tab === "revisions" ? html`<${Revisions} path=${path} schedule=${schedule} />`
        : tab === "definition" ? html`<${Definition} schedule=${schedule} />`
        : html`<${Overview} path=${path} schedule=${schedule} slots=${slots} at=${at} why=${why} id=${id} />`}`;
  return html`<${Page} title=${name} crumb=${["schedules", "Schedules"]} cls=${`with-why ${at && schedule ? "" : "alone"}`}>
    <div class="page">${body}</div>${at && schedule ? html`<${Why} key=${id} schedule=${schedule} at=${at} slots=${slots.data?.items} onStep=${why} onClose=${() => setQuery({ at: null })} breaker=${openBreaker} setDialog=${setDialog} done=${done} />` : null}
    ${Kind ? html`<${Kind} schedule=${schedule} schedules=${[schedule]} onClose=${() => setDialog(null)} done=${after} />` : null}<//>`;
}

function Title({ schedule, breaker, budget, setDialog, done }) {
  const { status: state } = schedule, act = may("operator"), mayAnswer = act && me.value.approval === "none";
  const acts = [
    state === "dead" || state === "done" ? { text: "Revive", icon: "rerun", act: () => revive(schedule, done) } : null,
    schedule.outstanding ? { text: schedule.outstanding === 1 ? "Cancel its job…" : "Cancel its jobs…", icon: "stop", isDanger: true, act: () => setDialog("cancel") } : null,
    { text: "Backfill…", icon: "prev", act: () => setDialog("backfill") },
    schedule.source === "config" ? null : { text: "Edit", icon: "edit", act: () => go(href("new", null, { edit: schedule.id })) },
    { text: "Duplicate", icon: "copy", act: () => go(href("new", null, { like: schedule.id })) },
    schedule.source === "config" ? null : { text: "Delete…", icon: "bin", isDanger: true, act: () => setDialog("delete") },
  ];
  const waits = state === "paused" && schedule.paused_by === "approval";
  return html`<div class="title-row"><div class="stack">
      <div class="row wrap"><h2>${visible(scheduleName(schedule))}</h2><${StatePill} schedule=${schedule} />${breaker && breaker.state !== "closed" ? html`<${Pill} kind="fail">Breaker ${breaker.state === "open" ? "open" : "probes"}<//>` : null}${budget ? html`<${Pill} kind="skip">Budget spent until ${absolute(ms(budget.spent_until), now.value)}<//>` : null}</div>
      <p class="second">${capital(visible(schedule.description_text))}${schedule.jitter ? `, jitter up to ${schedule.jitter}` : ""}${schedule.only_between ? `, ${schedule.only_between}` : ""}${schedule.timezone ? `, ${schedule.timezone}` : ""}</p>
      <p class="row start muted"><${Icon} name="file" /><span><${Source} schedule=${schedule} />, revision ${schedule.revision}; runs ${targetText(schedule)}</span></p>
      ${schedule.pause ? html`<p class="second">${pauseText(schedule)}</p>` : schedule.status_reason && schedule.status_reason !== state && state !== "active" ? html`<p class="second">${capital(state)}: ${visible(schedule.status_reason)}</p>` : null}
      ${state === "active" && schedule.last_error && schedule.failed_slots ? html`<p class="problem-line"><${Glyph} kind="fail" /><span class="clip-2">${visible(errorText(schedule.last_error, schedule.last_error_type))}</span></p>` : null}</div>
    ${act ? html`<div class="acts">${waits && mayAnswer ? html`<button class="btn danger" onClick=${() => setDialog("decline")}>Decline…</button><button class="btn primary" onClick=${() => approve(schedule, done)}>Approve revision ${schedule.revision}</button>` : null}
      <button class="btn" onClick=${() => setDialog("trigger")}><${Icon} name="play" />Trigger…</button>
      ${state === "paused" && !waits ? html`<button class="btn" onClick=${() => resumeAll([schedule], done)}><${Icon} name="play" />Resume</button>` : state === "active" ? html`<button class="btn" onClick=${() => setDialog("pause")}><${Icon} name="pause" />Pause…</button>` : null}
      <${Menu} label="More: cancel, backfill, edit, duplicate, delete" items=${acts} /></div>` : null}</div>`;
}
const StatePill = ({ schedule }) => (schedule.status === "active" && !schedule.failed_slots && !schedule.held_slot_at ? html`<span class="pill plain">Active</span>` : html`<${ScheduleState} schedule=${schedule} />`);
function Source({ schedule }) {
  if (schedule.source === "config") return html`Declared in <span class="mono" title=${visible(schedule.source_file)}>${schedule.source_file ? `${visible(schedule.source_file.split("/").pop())}:${schedule.source_line}` : "the configuration file"}</span> (edit it there)`;
  if (schedule.source === "python") return html`Declared in Python`;
  return html`Created over the API${schedule.owner ? html` for ${visible(schedule.owner)}` : null} on ${date(ms(schedule.created_at))}`;
}
export function targetText(schedule) {
  const run = schedule.run?.[schedule.target];
  const word = { plugin: () => html`plugin <span class="mono">${visible(run.name)}</span>, command <span class="mono">${visible(run.command)}</span>`, agent: () => html`agent <span class="mono">${visible(run.name)}</span>`, command: () => html`<span class="mono">${visible((run.argv || run.command || run || []).join?.(" ") || "a command").slice(0, 80)}</span>`, http: () => html`<span class="mono">${visible(run.method || "POST")} ${visible(run.url || run)}</span>`, python: () => html`<span class="mono">${visible(run.function || run)}</span>`, message: () => "a message", workflow: () => html`workflow <span class="mono">${visible(run.id)}</span>` }[schedule.target];
  try { return word ? word() : schedule.target; } catch { return schedule.target; }
}

// -- overview --

function Overview({ path, schedule, slots, at, why, id }) {
  const stats = useData((abort) => get(`${path}stats/`, { days: 371, points: 200 }, { signal: abort }), [id], { every: 60000, events: (event) => event.schedule_id === id && /^job\.(succeeded|failed|timed_out)/.test(event.type) });
  const coming = useData((abort) => get(`${path}upcoming/`, { limit: 10 }, { signal: abort }), [id, schedule.revision, schedule.status], { events: ours(id) });
  const figures = stats.data, currency = figures?.points.findLast((one) => one.cost)?.cost.currency, month = useMemo(() => lastMonth(figures?.days || []), [figures]);
  return html`
    <dl class="facts card">
      <div><dt>Next run</dt><dd>${schedule.next_run_at ? relative(ms(schedule.next_run_at), now.value) : noNextRun(schedule)[0]}<small>${schedule.next_run_at ? ofSchedule(ms(schedule.next_run_at), now.value, schedule.timezone) : noNextRun(schedule)[1]}</small></dd></div>
      <div><dt>Last success</dt><dd>${schedule.last_success_at ? ago(ms(schedule.last_success_at), now.value) : "never"}<small>${schedule.last_success_at ? ofSchedule(ms(schedule.last_success_at), now.value, schedule.timezone) : "no job has succeeded yet"}</small></dd></div>
      <div><dt>Last 30 days</dt><dd>${month.ended ? `${percent(month.good / month.ended)} succeeded` : "no job ended"}<small>${plural(month.ended, "job")}, ${number(month.ended - month.good)} failed${month.missed ? `, ${number(month.missed)} missed` : ""}</small></dd></div>
      <div><dt>Usual duration</dt><dd>${figures?.duration_median === null || !figures ? "not known" : duration(figures.duration_median * 1000)}<small>${durationNote(figures)}</small></dd></div></dl>
    <div class="grid-2">
      <section class="card"><header><h2>Next slots</h2><span class="end muted">exact, jitter included</span></header><${Coming} coming=${coming} schedule=${schedule} /></section>
      <${Slots} slots=${slots} schedule=${schedule} at=${at} why=${why} /></div>
    <section class="card"><header><h2>The year</h2><span class="end legend"><span><${Glyph} kind="ok" />all succeeded</span><span><${Glyph} kind="fail" />some failed</span><span><${Glyph} kind="miss" />some missed</span></span></header><div class="body heat-wrap" tabindex="0" role="group" aria-label="The year, scrolls sideways">${figures ? html`<${Year} days=${figures.days} zone=${schedule.timezone} />` : html`<${Loading} rows=${4} />`}</div>
      ${figures?.days.length ? html`<details class="as-table"><summary>As a table</summary><table class="table"><thead><tr><th scope="col">Day</th><th scope="col">Outcomes</th></tr></thead><tbody>${[...figures.days].reverse().slice(0, 60).map((one) => html`<tr key=${one.day}><td class="nowrap">${one.day}</td><td>${Object.entries(one.counts).map(([word, count]) => `${number(count)} ${word.replace("_", " ")}`).join(", ")}</td></tr>`)}</tbody></table></details>` : null}</section>
    ${figures?.points.length ? html`<div class="grid-2">
      <section class="card chart"><header><h2>Duration</h2><span class="end muted">last ${plural(figures.points.length, "job")}, s</span></header><div class="body"><${Chart} points=${figures.points} value=${seconds} unit="seconds" limit=${figures.duration_p95} label="Duration" /></div></section>
      <section class="card chart"><header><h2>Lag from due to start</h2><span class="end muted">last ${plural(figures.points.length, "job")}, ms</span></header><div class="body"><${Chart} points=${figures.points} value=${lag} unit="milliseconds" label="Lag" /></div></section>${currency ? html`<section class="card chart"><header><h2>Cost</h2><span class="end muted">last ${plural(figures.points.length, "job")}, ${visible(currency)}, as reported${estimatesOf(figures.points)}</span></header><div class="body"><${Chart} points=${figures.points} value=${costOf} unit=${currency} label="Cost" /></div></section>` : null}</div>` : null}`;
}
// How many jobs the figure is about; a percentile is only spoken of where there are enough of them.
const durationNote = (figures) => (!figures?.duration_jobs ? "no job has ended yet" : `median of ${plural(figures.duration_jobs, "job")}${figures.duration_p95 === null ? "" : `, p95 ${duration(figures.duration_p95 * 1000)}`}`);
const seconds = (point) => point.duration;
// What runs reported: an estimate is no measurement.
const costOf = (point) => { const reported = (point.cost?.amount || 0) - (point.estimated_cost?.amount || 0); return point.cost && (reported || !point.estimated_cost) ? reported : null; };
const estimatesOf = (points) => { const count = points.filter((one) => one.estimated_cost).length; return count ? `; ${plural(count, "estimate")} left out` : ""; };
const lag = (point) => (point.lag === null ? null : Math.max(0, point.lag * 1000));
function lastMonth(days) {
  const since = new Date(now.value - 30 * 86400000).toISOString().slice(0, 10), sum = { good: 0, ended: 0, missed: 0 };
  for (const { day, counts } of days) if (day >= since) { const bad = (counts.failed || 0) + (counts.timed_out || 0) + (counts.lost || 0); sum.good += counts.succeeded || 0; sum.ended += (counts.succeeded || 0) + bad; sum.missed += counts.missed || 0; }
  return sum;
}

function Coming({ coming: { data, problem, again }, schedule }) {
  if (problem && !data) return html`<${Failed} what="The next slots could not be loaded" problem=${problem} again=${again} />`;
  if (!data) return html`<${Loading} rows=${6} />`;
  if (!data.items.length) return html`<${Empty} icon="now" title="No slot to come"><p>${data.sentence ? visible(data.sentence) : `${capital(noNextRun(schedule)[1])}.`}</p><//>`;
  return html`${data.sentence ? html`<p class="body second">${visible(data.sentence)}</p>` : null}<table class="table slots"><caption class="sr">The next slots with predicted skips</caption><tbody>${data.items.map((one) => {
    const due = ms(one.due_at), own = inOwnZone(due, schedule.timezone), note = one.skip_reason ? `will be skipped: ${reasonAhead(one.skip_reason)}` : one.hold_reason ? `will be held: ${reasonAhead(one.hold_reason)}` : one.is_estimate ? "an estimate: it depends on a run before it" : own;
    return html`<tr key=${one.slot_at}><td class="nowrap"><span class="outcome"><${Glyph} kind=${one.skip_reason ? "skip" : one.hold_reason ? "hold" : "next"} title=${one.skip_reason ? "will be skipped" : undefined} /><span class="two"><span>${absolute(due, now.value)}</span>${note ? html`<small>${note}</small>` : null}</span></span></td><td class="num nowrap second">${relative(due, now.value)}</td></tr>`;
  })}</tbody></table>`;
}

// -- slots --

const slotKey = (one) => one.slot_at + one.fate + (one.job?.id || "");
function Slots({ slots: { data, problem, again }, schedule, at, why, more, limit, isAll }) {
  const { shown: items, held, news } = useStill(data?.items.slice(0, isAll ? 200 : 8), slotKey, `${schedule.id} ${limit}`);
  const kindOf = (one) => (one.job ? KIND[one.job.status] : KIND[one.fate]);
  const noteOf = (one) => (one.job ? errorText(one.job.error_message, one.job.error_type) || (one.job.reason ? reasonText(one.job.reason) : one.job.started_at && one.job.ended_at ? `ran ${duration(ms(one.job.ended_at) - ms(one.job.started_at))}` : "") : reasonText(one.reason)) || "";
  return html`<section class="card" ...${held}><header><h2>Slots</h2><span class="end">${news || null}${isAll ? html`<span class="muted">newest first</span>` : html`<a href=${href("schedules", schedule.id, { tab: "slots" })}>All</a>`}</span></header>
    ${problem && !data ? html`<${Failed} what="The slots could not be loaded" problem=${problem} again=${again} />` : !data ? html`<${Loading} rows=${6} />` : !items.length ? html`<${Empty} icon="jobs" title="No slot yet"><p>What becomes of each slot appears here.</p><//>` : html`<div class="table-box"><table class="table slots"><caption class="sr">The last slots with their outcome</caption><tbody>${items.map((one) => html`<tr key=${slotKey(one)} aria-selected=${String(ms(at) === ms(one.slot_at))}>
      <td class="nowrap"><span class="two"><span>${absolute(ms(one.slot_at), now.value)}</span>${inOwnZone(ms(one.slot_at), schedule.timezone) ? html`<small>${inOwnZone(ms(one.slot_at), schedule.timezone)}</small>` : null}</span></td><td><span class="outcome"><${Glyph} kind=${kindOf(one)} /><span class="two"><span>${capital(WORD[kindOf(one)])}${one.count > 1 ? `, ${number(one.count)} slots` : ""}</span>${noteOf(one) ? html`<small class="clip-2">${visible(noteOf(one))}</small>` : null}</span></span></td>
      ${isAll ? html`<td>${one.job ? html`<a class="mono" href=${href("jobs", one.job.id)}>${jobName(one.job.id)}</a>` : null}</td>` : null}
      <td class="right nowrap">${!isAll && one.job ? html`<a class="btn quiet small" href=${href("jobs", one.job.id)}>Job</a> ` : null}<button class="btn small" aria-label=${`Why, slot ${absolute(ms(one.slot_at), now.value)}`} onClick=${() => why(one.slot_at)}>Why?</button></td></tr>`)}</tbody></table></div>
      ${isAll && data.next_cursor && items.length < 200 ? html`<footer><button class="btn small" onClick=${more}>Show more</button></footer>` : null}`}</section>`;
}

// -- revisions and definition --

const SAME = new Set(["description_text", "spec", "trigger_payload", "user_profile_id", "interval_seconds", "timeout_seconds", "catch_up_policy", "quiet_hours_policy_id"]);
const text = (value) => (typeof value === "string" ? value : JSON.stringify(value));
function difference(before, after) {
  return Object.keys({ ...before, ...after }).filter((key) => !SAME.has(key) && JSON.stringify(before?.[key]) !== JSON.stringify(after?.[key])).map((key) => [key, before?.[key], after?.[key]]);
}
function Revisions({ path, schedule }) {
  const { data, problem, again } = useData((abort) => get(`${path}revisions/`, { limit: 51 }, { signal: abort }), [schedule.id, schedule.revision]);
  if (problem && !data) return html`<section class="card"><${Failed} what="The revisions could not be loaded" problem=${problem} again=${again} /></section>`;
  if (!data) return html`<section class="card"><${Loading} /></section>`;
  return html`<div class="stack">${data.items.slice(0, 50).map((one, i) => { const before = data.items[i + 1], changes = before ? difference(before.definition, one.definition) : []; return html`<section class="card" key=${one.revision}><header><h2>Revision ${one.revision}</h2>${one.cause ? html`<span class="tag">${one.cause}</span>` : null}<span class="end muted">in force since ${ofSchedule(ms(one.in_force_at), now.value, one.definition.timezone)}</span></header>
    <div class="body">${!before ? html`<p class="second">The first on record: ${capital(visible(one.definition.description_text))}.</p>` : changes.length ? html`<div class="diff" role="group" aria-label=${`What revision ${one.revision} changed`}>${changes.flatMap(([key, old, fresh]) => [old === undefined ? null : html`<div class="del" key=${`${key} old`}><span class="sr">before: </span>${key}: ${visible(text(old))}</div>`, fresh === undefined ? null : html`<div class="add" key=${`${key} new`}><span class="sr">after: </span>${key}: ${visible(text(fresh))}</div>`])}</div>` : html`<p class="second">Nothing that is shown here changed.</p>`}</div></section>`; })}</div>`;
}
const STATE = /^(id|uid|status|status_reason|paused_by|resume_at|next_|held_|outstanding|running_jobs|current_|failed_slots|run_count|error_count|fire_count|last_|revision|key|created_at|updated_at|source|enabled|recent|usual_)/;
function Definition({ schedule }) {
  const keys = Object.keys(schedule).filter((key) => !STATE.test(key) && !SAME.has(key) && schedule[key] !== null && JSON.stringify(schedule[key]) !== "[]" && JSON.stringify(schedule[key]) !== "{}");
  const json = JSON.stringify(Object.fromEntries(keys.map((key) => [key, schedule[key]])), null, 2);
  return html`<section class="card"><header><h2>Definition</h2><span class="end"><${Copy} text=${json} label="Copy as JSON" cls="btn small" /></span></header><div class="body"><dl class="kv wide">${keys.map((key) => html`<dt key=${key} class="mono">${key}</dt><dd>${typeof schedule[key] === "object" ? html`<pre class="code">${visible(JSON.stringify(schedule[key], null, 2))}</pre>` : visible(text(schedule[key]))}</dd>`)}</dl></div></section>
    <section class="card"><header><h2>Counters</h2></header><div class="body"><dl class="kv"><dt>Fired</dt><dd>${number(schedule.fire_count)}</dd><dt>Succeeded</dt><dd>${number(schedule.run_count)}</dd><dt>Failed</dt><dd>${number(schedule.error_count)}</dd><dt>Repeat</dt><dd>${number(schedule.current_repeat)}</dd><dt>Failed slots in a row</dt><dd>${number(schedule.failed_slots)}</dd><dt>uid</dt><dd class="mono">${schedule.uid}</dd><dt>Your zone</dt><dd>${ZONE}</dd></dl></div></section>`;
}
