// The time line of the Now page: its window, filters, the card of a slot, the map of the day, and the same as a table.
import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../lib.js";
import { get, heardOf } from "../api.js";
import { bindKeys } from "../keys.js";
import { arrange, LineModel, stretchesOf } from "../line_model.js";
import { labelOf } from "../names.js";
import { epoch, lostSince, onEvents } from "../live.js";
import { capital, Glyph, Icon, KIND, WORD } from "../glyphs.js";
import { AddressField, Failed, Field, Loading, pauseText, plural, Seg, sentence, useData, visible } from "../parts.js";
import { reasonAhead, reasonText } from "../terms.js";
import { go, href, route, setQuery } from "../router.js";
import { colours } from "../shell.js";
import { absolute, DAY, dayKey, duration, elapsed, exactNow, frozen, HOUR, hms, MINUTE, ms, now, number, ofSchedule, relative, startOfDay } from "../time.js";
import { drawDay, LONGEST, NOW_AT, SHORTEST, Timeline } from "../timeline.js";

const SPANS = [["1 min", MINUTE], ["15 min", 15 * MINUTE], ["1 h", HOUR], ["6 h", 6 * HOUR], ["1 d", DAY], ["1 w", 7 * DAY], ["1 mo", 31 * DAY]];
const PHONE = new Set(["1 h", "6 h", "1 d", "1 w"]);
const isPhone = () => innerWidth <= 760;
const DEFAULT = () => (isPhone() ? HOUR : 6 * HOUR);
const SHORT = 15 * MINUTE;
const ROWS = 60;
const FILTERS = ["group", "owner", "type", "failing", "running", "held", "q"];

const around = (at, span) => [at - span * NOW_AT, at + span * (1 - NOW_AT)];
// The window of the address: a span, and where it begins unless it follows now.
function readWindow(query) {
  const span = Math.min(LONGEST, Math.max(SHORTEST, Number(query.get("span")) * 1000 || DEFAULT())), from = Date.parse(query.get("from") || "");
  return Number.isNaN(from) ? { window: around(exactNow(), span), isFollowing: true } : { window: [from, from + span], isFollowing: false };
}
const filtersOf = (query) => Object.fromEntries(FILTERS.map((name) => [name, query.get(name)]).filter(([, value]) => value));

export function Line() {
  const canvas = useRef(null), day = useRef(null), timeline = useRef(null), model = useRef(null);
  const first = useMemo(() => readWindow(route.value.query), []);
  const view = useRef(first);
  const [, render] = useState(0), again = () => render((n) => n + 1);
  const [card, setCard] = useState(null), [problem, setProblem] = useState(null), [rows, setRows] = useState(null), [isTable, setTable] = useState(route.value.query.get("table") === "yes");
  const query = route.value.query, filters = filtersOf(query), filterKey = JSON.stringify(filters);
  const span = view.current.window[1] - view.current.window[0];

  // What is asked for is wider than what is seen, so that a hand can move it.
  const loaded = useRef(null), asking = useRef(null), isUntouched = useRef(!query.get("span") && !query.get("from")), isShort = useRef(false);
  const ask = async ([a, b], signal) => {
    const margin = (b - a) * 0.5, from = Math.floor(a - margin), to = Math.ceil(b + margin);
    const answer = await get("timeline/", { from: new Date(from).toISOString(), to: new Date(to).toISOString(), rows: ROWS, ...filters }, { signal });
    return { answer, from, to, span: b - a };
  };
  const load = async () => {
    asking.current?.abort();
    const abort = (asking.current = new AbortController());
    try {
      let found = await ask(view.current.window, abort.signal);
      // Where so much fires that the first look would be figures, a shorter one shows the slots.
      if (isUntouched.current && found.answer.is_aggregated) {
        const near = around(exactNow(), SHORT), closer = await ask(near, abort.signal);
        if (!closer.answer.is_aggregated) { found = closer; isShort.current = true; view.current = { window: near, isFollowing: true }; timeline.current?.setWindow(near); again(); }
      }
      const { answer, ...known } = found;
      isUntouched.current = isUntouched.current && (ms(answer.now) < known.from || ms(answer.now) > known.to); // where the browser's clock is wrong, the next look counts
      heardOf(answer.now);
      loaded.current = { ...known, at: Date.now() };
      model.current = new LineModel(answer);
      setProblem(null);
      show();
    } catch (found) { if (found.name !== "AbortError") setProblem(found); } finally { if (asking.current === abort) asking.current = null; }
  };
  const show = () => {
    const { answer } = model.current, list = arrange([...model.current.rows.values()], answer.schedule_count);
    for (const row of list) if (row.status === "paused") row.pausedText = pauseText(row);
    setRows(list);
    timeline.current?.setData({
      rows: list,
      bars: model.current.bars(),
      hasMore: model.current.hasMore,
      spans: answer.spans.map((one) => ({ ...one, from: ms(one.from), to: ms(one.to) })),
      stretches: stretchesOf(answer.stretches),
    });
  };
  const soon = useRef(0);
  const loadSoon = (wait = 150) => { clearTimeout(soon.current); soon.current = setTimeout(load, wait); };

  const setWindow = (window, isFollowing) => {
    view.current = { window, isFollowing };
    timeline.current?.setWindow(window);
    setCard(null);
    isUntouched.current = false;
    const known = loaded.current;
    if (!known || window[0] < known.from || window[1] > known.to || Math.abs(window[1] - window[0] - known.span) > known.span * 0.4) loadSoon();
    keep();
    again();
  };
  const keeping = useRef(0);
  const keep = () => {
    clearTimeout(keeping.current);
    keeping.current = setTimeout(() => {
      const { window: [a, b], isFollowing } = view.current, length = Math.round((b - a) / 1000);
      setQuery({ span: length * 1000 === DEFAULT() && !isShort.current ? null : length, from: isFollowing ? null : new Date(Math.round(a / 1000) * 1000).toISOString().replace(".000", "") });
    }, 300);
  };
  const follow = (length) => setWindow(around(exactNow(), Math.min(LONGEST, Math.max(SHORTEST, length))), true);

  useLayoutEffect(() => {
    const line = new Timeline(canvas.current, {
      onHover: (hit, isPinned) => setCard((before) => (before?.isPinned && !isPinned ? before : hit ? { hit, isPinned } : null)),
      onWindow: (window) => setWindow(window, false),
      onOpen: (hit) => open(hit.bar),
    });
    timeline.current = line;
    line.setWindow(view.current.window);
    if (model.current) show();
    const unbind = bindKeys({
      n: () => follow(view.current.window[1] - view.current.window[0]),
      "+": () => zoom(1 / 1.5),
      "=": () => zoom(1 / 1.5),
      "-": () => zoom(1.5),
      v: () => showTable(route.value.query.get("table") !== "yes"),
      w: () => { const bar = timeline.current.selected?.bar; if (!bar) return false; why(bar); return true; },
    });
    return () => { unbind(); line.close(); timeline.current = null; clearTimeout(soon.current); clearTimeout(keeping.current); asking.current?.abort(); };
  }, []);
  const zoom = (factor) => { const { window: [a, b], isFollowing } = view.current; if (isFollowing) follow((b - a) * factor); else timeline.current.zoom(factor, (a + b) / 2); };
  useEffect(() => { load(); }, [filterKey, epoch.value]);
  useEffect(() => { timeline.current?.readColours(); drawMap(); }, [colours.value]);
  useEffect(() => { if (!isTable) timeline.current?.resize(); }, [isTable]);
  const showTable = (is) => { setTable(is); setQuery({ table: is ? "yes" : null }); };
  // One frame a second: now moves, and with it the window that follows it. What has been asked for is waited for: a
  // service that needs more than a second would otherwise never be heard, and have more to do with each question.
  useEffect(() => {
    if (view.current.isFollowing && !frozen.value) {
      const length = view.current.window[1] - view.current.window[0];
      view.current.window = around(exactNow(), length);
      timeline.current?.setWindow(view.current.window);
      const known = loaded.current;
      if (known && !asking.current && (view.current.window[1] > known.to - length * 0.1 || view.current.window[0] < known.from)) loadSoon();
    } else timeline.current?.ask();
    const known = loaded.current;
    if (model.current && known && !asking.current && model.current.outdated && Date.now() - known.at > 4000) { model.current.outdated = 0; loadSoon(0); }
  }, [now.value]);
  useEffect(() => onEvents((events) => { if (model.current?.apply(events)) show(); }), []);

  // -- the day map --
  const dayData = useData((abort) => { const start = startOfDay(exactNow()); return get("timeline/", { from: new Date(start).toISOString(), to: new Date(startOfDay(exactNow(), 1)).toISOString(), stretch: 360, rare: 0, ...filters }, { signal: abort }); }, [filterKey, dayKey(now.value)], { every: 60000 });
  const drawMap = () => {
    if (!dayData.data || !day.current || !timeline.current) return;
    const start = startOfDay(exactNow());
    drawDay(day.current, { start, end: startOfDay(exactNow(), 1), stretches: dayData.data.stretches.map((one) => ({ ...one, from: ms(one.from), to: ms(one.to) })), window: view.current.window, at: timeline.current.now, colours: timeline.current.c, font: timeline.current.font });
  };
  useEffect(drawMap);
  const toDay = (event) => {
    const start = startOfDay(exactNow()), at = start + (event.offsetX / day.current.clientWidth) * (startOfDay(exactNow(), 1) - start);
    setWindow([at - span / 2, at + span / 2], false);
  };

  const spans = SPANS.filter(([text]) => !isPhone() || PHONE.has(text));
  const hasMore = model.current?.hasMore, answer = model.current?.answer;
  const label = `Time line of slots, ${absolute(view.current.window[0], now.value)} to ${absolute(view.current.window[1], now.value)}. The table button shows the same slots as a table.`;
  return html`<section class="card line-card" aria-label="Time line">
    <header class="tl-bar">
      <${Seg} label="Span" options=${spans.map(([text, length]) => [length, text])} value=${spans.find(([, length]) => Math.abs(length - span) < 1000)?.[1]} onChange=${follow} />
      <button class="btn" aria-pressed=${String(view.current.isFollowing)} onClick=${() => follow(span)}><${Icon} name="now" /><span class="sr">Back to now</span><span class="hide-phone" aria-hidden="true">Now <kbd>N</kbd></span></button>
      <span class="sep hide-phone"></span>
      <${LineFilter} />
      <div class="end"><span class="live ${lostSince.value === null ? "" : "off"}"><i></i>${lostSince.value === null ? "Live" : "Stopped"}</span>
        <button class="btn square" aria-pressed=${String(isTable)} aria-label="Show as a table" title="Show as a table (V)" onClick=${() => showTable(!isTable)}><${Icon} name="table" /></button></div>
    </header>
    ${problem && !rows ? html`<${Failed} what="The time line could not be loaded" problem=${problem} again=${load} />` : null}
    <div class="tl" hidden=${isTable}>
      <div class="tl-labels"><div class="tl-axis muted">Schedule</div>${hasMore ? html`<div class="tl-density"><b>${plural(answer.schedule_count, "schedule")}</b><span class="muted">${plural(answer.total, "slot")} here, ${answer.uncounted ? `not counted: ${plural(answer.uncounted, "record")}` : "all counted"}; below are ${number(rows?.filter((row) => row.schedule_id).length || 0)}, rarest first. Zoom in.</span></div>` : null}${(rows || []).map((row) => (row.schedule_id
        ? html`<a class="tl-row plain" key=${row.schedule_id} href=${href("schedules", row.schedule_id)} title=${visible(row.description_text)}><${Glyph} kind=${row.status === "paused" ? "paused" : KIND[row.last_outcome] || "next"} title=${capital(row.status === "paused" ? "paused" : WORD[KIND[row.last_outcome]] || "no slot yet")} /><span class="clip">${visible(row.label)}</span></a>`
        : html`<div class="tl-group" key=${`group ${row.group}`}><b class="clip">${visible(row.group)}</b>${row.tag ? html`<span class="tag">${row.tag}</span>` : null}</div>`))}</div>
      <div class="tl-plot"><canvas ref=${canvas} tabindex="0" role="img" aria-label=${label}></canvas>
        ${card ? html`<${Card} card=${card} line=${timeline.current} close=${() => { timeline.current.select(null); setCard(null); }} />` : null}
        ${rows && !rows.length && !hasMore ? html`<div class="tl-empty">${Object.keys(filters).length ? html`Nothing matches in this span. <button class="btn small" onClick=${() => setQuery(noFilter())}>Clear the filter</button>` : html`No slot lies in this span. <button class="btn small" onClick=${() => follow(DAY)}>Show a day</button>`}</div>` : null}
        ${!rows && !problem ? html`<${Loading} rows=${8} />` : null}</div>
    </div>
    ${isTable && model.current ? html`<${AsTable} bars=${model.current.bars()} window=${view.current.window} rows=${model.current.rows} answer=${answer} />` : null}
    <div class="tl-map"><canvas ref=${day} role="img" aria-label="The whole day; the frame is the span above" onClick=${toDay}></canvas></div>
    <footer class="tl-foot"><div class="legend">${["ok", "fail", "run", "hold", "skip", "miss", "next"].map((kind) => html`<span key=${kind}><${Glyph} kind=${kind} />${WORD[kind]}</span>`)}</div>
      <span class="end muted hide-phone">Drag to move, <kbd>+</kbd> <kbd>−</kbd> to zoom, <kbd>←</kbd> <kbd>→</kbd> from slot to slot</span></footer>
  </section>`;
}
const open = (bar) => go(bar.job_id ? href("jobs", bar.job_id) : href("schedules", bar.schedule_id, { at: bar.slot_at }));
const why = (bar) => go(href("schedules", bar.schedule_id, { at: bar.slot_at }));

// What may be filtered for, with how many schedules there are of each; what is chosen stands beside it.
const CHOICES = [["group", "Group"], ["owner", "Owner"], ["type", "Type"], ["status", "Status"]], STATES = ["failing", "running", "held"];
const noFilter = () => Object.fromEntries(FILTERS.map((name) => [name, null]));
function LineFilter() {
  const [opened, setOpened] = useState(null), box = useRef(null), { query } = route.value;
  const facets = useData((abort) => (opened ? get("schedules/", { facets: "group,owner,type,status", limit: 1 }, { signal: abort }) : Promise.resolve(null)), [Boolean(opened)]).data?.facets;
  useEffect(() => {
    if (!opened) return undefined;
    const away = (event) => { if (!box.current?.contains(event.target)) setOpened(null); };
    addEventListener("pointerdown", away);
    box.current.querySelector(`#line-${opened}`)?.focus();
    return () => removeEventListener("pointerdown", away);
  }, [opened]);
  const valueOf = (name) => (name === "status" ? STATES.find((state) => query.get(state)) : query.get(name)) || "";
  const setValue = (name, value) => setQuery(name === "status" ? { failing: null, running: null, held: null, ...(value ? { [value]: "true" } : {}) } : { [name]: value || null }, { replace: false });
  const close = (event) => { if (event.key === "Escape" && opened) { event.stopPropagation(); setOpened(null); box.current.querySelector("button").focus(); } };
  const options = (name) => (name === "status" ? STATES.map((state) => [state, facets?.status[state] || 0]) : Object.entries(facets?.[name] || {}).filter(([value]) => value));
  const chip = (name, label, text) => (text ? html`<button class="chip" key=${name} aria-pressed="true" title="Remove this filter" onClick=${() => setValue(name, "")}>${label}: ${visible(text)} <${Icon} name="close" /></button>` : html`<button class="chip" key=${name} onClick=${() => setOpened(name)}>${label}: any</button>`);
  return html`<div class="line-filter"><span class="menu-box" ref=${box} onKeyDown=${close}><button class="btn quiet" aria-label="Filter" aria-expanded=${String(Boolean(opened))} onClick=${() => setOpened(opened ? null : "group")}><${Icon} name="filter" /><span class="hide-phone" aria-hidden="true">Filter</span></button>
    ${opened ? html`<div class="menu form">${CHOICES.map(([name, label]) => html`<${Field} key=${name} id=${`line-${name}`} label=${label}><select id=${`line-${name}`} class="select" value=${valueOf(name)} onChange=${(event) => setValue(name, event.target.value)}><option value="">any</option>${options(name).map(([value, count]) => html`<option key=${value} value=${value}>${visible(value)} (${number(count)})</option>`)}</select><//>`)}
      <${Field} id="line-q" label="Name has"><${AddressField} id="line-q" text=${query.get("q") || ""} onText=${(text) => setValue("q", text)} /><//></div>` : null}</span>
    ${CHOICES.map(([name, label]) => chip(name, label, valueOf(name)))}${query.get("q") ? chip("q", "Name has", query.get("q")) : null}</div>`;
}

// The card of a slot: it opens away from now, so that what runs and what comes stays in sight.
function Card({ card: { hit, isPinned }, line, close }) {
  const { bar, row, bin } = hit, width = Math.min(316, line.width - 16);
  const want = hit.x < line.x(line.now) ? hit.x - width + 24 : hit.x - 24;
  const place = { width: `${width}px`, left: `${Math.max(8, Math.min(line.width - width - 8, want))}px`, top: `${hit.y + hit.h + 2}px` };
  if (bin) {
    const parts = [[bin.good, "succeeded or running"], [bin.bad, "failed"], [bin.gone, "missed"], [bin.skip, "skipped"], [bin.to, "upcoming"]].filter(([count]) => count).map(([count, word]) => `${number(Math.round(count))} ${word}`);
    return html`<div class="tip" role="status" style=${place}><div class="strong">${row.label ? visible(row.label) : "All schedules"}</div><p>${capital(parts.join(", "))}.</p></div>`;
  }
  const word = capital(WORD[bar.kind]), name = bar.kind === "next" && bar.is_skipped ? "Will be skipped" : word;
  return html`<div class="tip" role="status" style=${place}>
    <div class="row between"><span class="outcome strong"><${Glyph} kind=${bar.kind === "next" && bar.is_skipped ? "skip" : bar.kind} />${name}</span><span class="muted">slot ${ofSchedule(bar.slot, now.value, row.timezone)}</span></div>
    <p class="tip-name mono clip">${visible(row.label)}</p><p>${story(bar)}</p>
    <div class="row tip-foot"><a class="btn small" href=${href("schedules", bar.schedule_id, { at: bar.slot_at })}>Why?</a>${bar.job_id ? html`<a class="btn small" href=${href("jobs", bar.job_id)}>Job</a>` : null}<span class="muted">${isPinned ? html`<button class="btn quiet small" onClick=${close}>Close</button>` : "click to pin, Enter to open"}</span></div></div>`;
}
const noteOf = (bar) => (bar.is_caught_up ? "one job stood for it" : (bar.kind === "next" ? reasonAhead : reasonText)(bar.reason));
function story(bar) {
  if (bar.kind === "next" && bar.is_skipped) return `As things stand: ${reasonAhead(bar.reason)}.`;
  if (bar.kind === "next") return `Fires ${relative(bar.due, now.value)}, at ${absolute(bar.due, now.value)}${bar.jitter ? ", jitter included" : ""}${bar.is_estimate ? ", an estimate" : ""}.${bar.usual ? ` It usually takes ${duration(bar.usual)}.` : ""}`;
  if (bar.kind === "run") return `Running for ${elapsed(bar.start, now.value)}${bar.usual ? `; usually ${duration(bar.usual)}` : ""}${bar.attempt > 1 ? `, attempt ${bar.attempt}` : ""}.`;
  if (bar.kind === "queued") return bar.retry ? `Retry ${bar.retry} waits for its time.` : "Waits for a worker.";
  if (bar.isOver) return `Was due ${absolute(bar.due, now.value)} and waited ${duration(bar.end - bar.due)} until its job.`;
  if (bar.kind === "hold") return `${capital(reasonText(bar.reason))}, for ${elapsed(bar.from, now.value)}.`;
  if (!bar.isJob || bar.kind === "cancel") return `${capital(noteOf(bar))}${bar.count > 1 ? `, ${number(bar.count)} slots until ${hms(bar.end)}` : ""}.`;
  const ran = bar.start === null ? "It did not start." : `Ran ${duration(bar.end - bar.start)} from ${hms(bar.start)}${bar.attempt > 1 ? `, attempt ${bar.attempt}` : ""}${bar.retry ? `, retry ${bar.retry}` : ""}.`;
  return bar.error ? html`${ran} <span class="error-text">${sentence(bar.error)}</span>` : ran;
}

const notListed = ({ unlisted_schedules: schedules, unlisted_slots: slots }) => `${plural(slots, "slot")} of ${plural(schedules, "further schedule")} ${slots === 1 ? "is" : "are"} counted, and not listed here.`;
// The same slots as a table, which opens at now.
function AsTable({ bars, window: [a, b], rows, answer }) {
  const seen = bars.filter((bar) => bar.from >= a && bar.from < b && !bar.isOver).sort((p, q) => q.from - p.from), box = useRef(null);
  const at = seen.findIndex((bar) => bar.from <= now.value), first = Math.max(0, Math.min(at < 0 ? 0 : at - 60, seen.length - 200)), list = seen.slice(first, first + 200);
  useEffect(() => { const row = box.current?.querySelectorAll("tbody tr")[Math.max(0, at - first)]; if (row) box.current.scrollTop = row.offsetTop - 160; }, []);
  return html`<div class="as-rows" tabindex="0" ref=${box} role="region" aria-label="The slots of the time line"><table class="table slots"><caption class="sr">The slots in sight, newest first</caption>
    <thead><tr>${["Slot", "Schedule", "Outcome", "Reason or duration", ""].map((text, i) => html`<th scope="col" key=${i}>${text || html`<span class="sr">Why?</span>`}</th>`)}</tr></thead>
    <tbody>${list.map((bar) => html`<tr key=${bar.job_id || `${bar.kind} ${bar.schedule_id} ${bar.slot_at}`}><td class="nowrap">${ofSchedule(bar.slot, now.value, rows.get(bar.schedule_id)?.timezone)}</td><td><a href=${href("schedules", bar.schedule_id)}>${visible(labelOf(rows.get(bar.schedule_id)))}</a></td><td><span class="outcome"><${Glyph} kind=${bar.kind} />${bar.kind === "next" && bar.is_skipped ? "will be skipped" : WORD[bar.kind]}${bar.count > 1 ? ` × ${number(bar.count)}` : ""}</span></td><td class="muted">${bar.reason || bar.is_caught_up ? noteOf(bar) : bar.end !== null && bar.start !== null ? duration(bar.end - bar.start) : relative(bar.from, now.value)}</td><td class="right"><a class="btn small" href=${href("schedules", bar.schedule_id, { at: bar.slot_at })} aria-label=${`Why, ${labelOf(rows.get(bar.schedule_id))}, slot ${hms(bar.slot)}`}>Why?</a></td></tr>`)}</tbody></table>
    ${seen.length > list.length ? html`<p class="body muted">${number(list.length)} of ${number(seen.length)} slots, around now.</p>` : null}
    ${answer.unlisted_slots ? html`<p class="body muted">${notListed(answer)}</p>` : null}</div>`;
}
