// Now: is all alive, what ran, what comes, what waits; one time line, past to the left and future to the right.
import { html, useEffect } from "../lib.js";
import { get, isGlobal, may, me } from "../api.js";
import { eventKey, useFeed } from "../feed.js";
import { Glyph, WORD } from "../glyphs.js";
import { lags, lostSince, status, tickAge } from "../live.js";
import { learnLabels, learnNames, nameOf } from "../names.js";
import { Empty, Failed, Loading, plural, scheduleName, useData, visible } from "../parts.js";
import { reasonAhead, reasonText } from "../terms.js";
import { go, href, route, setQuery } from "../router.js";
import { Page } from "../shell.js";
import { absolute, ago, duration, elapsed, frozen, ms, now, number, ofSchedule, relative } from "../time.js";
import { FirstRun } from "./first_run.js";
import { Line } from "./line.js";

export function Now() {
  const found = status.value, isNew = found && Object.values(found.schedules).reduce((sum, count) => sum + count, 0) === 0;
  return html`<${Page} title="Now">${isNew ? html`<${FirstRun} />` : html`<${Verdict} /><${Tiles} /><${Line} /><div class="three"><${UpNext} /><${JustHappened} /><${Waiting} /></div>`}<//>`;
}

// -- the sentence, and what needs a person --

function Verdict() {
  const found = status.value;
  const bad = useData((abort) => get("schedules/", { failing: true, limit: 6, sort: "-last_fired_at" }, { signal: abort }), [], { every: 30000, events: (event) => /^job\.(failed|timed_out|lost)|^schedule\.(died|revived)/.test(event.type) }).data?.items;
  useEffect(() => { learnNames((found?.breakers || []).map((breaker) => breaker.key)); }, [found]);
  if (!isGlobal()) return html`<${OwnVerdict} bad=${bad} />`;
  if (!found) return html`<section class="verdict"><p class="say"><span class="second">Asking how everything stands.</span></p></section>`;
  const total = Object.values(found.schedules).reduce((sum, count) => sum + count, 0), next = ms(found.next?.next_run_at);
  let kind = "ok", text = "Every due slot is accounted for.";
  if (lostSince.value !== null) [kind, text] = ["lost", "The connection is lost: how things stand is not known."];
  else if (found.status !== "running") [kind, text] = ["fail", "No scheduler is running: nothing fires."];
  else if (found.is_paused) [kind, text] = ["hold", "The whole system is paused: nothing fires."];
  else if (found.overdue) [kind, text] = ["fail", `${plural(found.overdue, "schedule")} ${found.overdue === 1 ? "is" : "are"} overdue by more than a minute.`];
  const open = found.breakers.filter((breaker) => breaker.state !== "closed"), failing = (bad || []).filter((one) => !open.some((breaker) => breaker.key === one.id)).slice(0, 4);
  return html`<section class="verdict" aria-live="polite" aria-label="How everything stands">
    <p class="say"><${Glyph} kind=${kind} /><strong>${text}</strong> <span class="second">${number(total)} ${total === 1 ? "schedule" : "schedules"}${next && kind === "ok" ? html`, next <${NextIn} at=${next} />` : null}.</span></p>
    ${open.length || failing.length || found.spent_budgets.length ? html`<div class="row wrap needs">${open.slice(0, 4).map((breaker) => html`<a class="chip" key=${breaker.key} href=${href("breakers", null, { key: breaker.key })}><${Glyph} kind="fail" /><b>${visible(nameOf(breaker.key))}</b> breaker ${breaker.state === "open" ? `open${breaker.probes_at ? `, probes at ${absolute(ms(breaker.probes_at), now.value)}` : ""}` : "probes"}</a>`)}${open.length > 4 ? html`<a class="chip" href=${href("breakers")}>${open.length - 4} more</a>` : null}${found.spent_budgets.slice(0, 4).map((one) => html`<a class="chip" key=${one.kind + one.name} href=${href("budgets")}><${Glyph} kind="skip" /><b>${visible(one.name)}</b> spent its budget until ${absolute(ms(one.spent_until), now.value)}</a>`)}${failing.map((one) => html`<a class="chip" key=${one.id} href=${href("schedules", one.id)}><${Glyph} kind="fail" /><b>${visible(scheduleName(one))}</b> ${one.status === "dead" ? "died" : `failed ${plural(one.failed_slots, "slot")} in a row`}</a>`)}</div>` : null}</section>`;
}
// A token with an owner is not told how the system stands, only how its schedules do.
function OwnVerdict({ bad }) {
  const states = useData((abort) => get("schedules/", { facets: "status", limit: 1 }, { signal: abort }), [], { every: 30000, events: (event) => /^(schedule|job)\./.test(event.type) }).data?.facets.status;
  if (!states) return null;
  const total = ["active", "paused", "invalid", "done", "dead"].reduce((sum, name) => sum + (states[name] || 0), 0), counts = ["failing", "running", "held", "paused"].filter((name) => states[name]).map((name) => `, ${number(states[name])} ${name}`).join("");
  return html`<section class="verdict" aria-live="polite" aria-label="How your schedules stand"><p class="say"><${Glyph} kind=${lostSince.value !== null ? "lost" : states.failing ? "fail" : "ok"} /><strong>${lostSince.value !== null ? "The connection is lost: how things stand is not known." : states.failing ? `${plural(states.failing, "schedule")} of ${visible(me.value.owner)} ${states.failing === 1 ? "fails" : "fail"}.` : `No schedule of ${visible(me.value.owner)} fails.`}</strong> <span class="second">${plural(total, "schedule")}${counts}.</span></p>
    ${bad?.length ? html`<div class="row wrap needs">${bad.slice(0, 4).map((one) => html`<a class="chip" key=${one.id} href=${href("schedules", one.id)}><${Glyph} kind="fail" /><b>${visible(scheduleName(one))}</b> failing</a>`)}</div>` : null}</section>`;
}
const NextIn = ({ at }) => html`<span class=${frozen.value ? "stale" : ""}>${relative(Math.max(at, now.value), now.value)}</span>`;

const LINKS = { breakers: "Show the breakers", alerts: "Show the alerts", budgets: "Show the budgets" };
function Tiles() {
  const found = status.value, { query } = route.value;
  const facets = useData((abort) => get("schedules/", { facets: "status", limit: 1 }, { signal: abort }), [found?.now]).data?.facets.status || {};
  if (!found) return null;
  const alive = found.nodes.find((node) => node.is_alive && node.role !== "worker"), age = ms(found.last_check_at);
  const tiles = [
    ["Last tick", age === null ? (alive ? "alive" : "none") : tickAge(found), alive ? `${age === null ? "" : "ago, "}on ${alive.id}` : "no scheduler", found.status === "running" ? "" : "fail"],
    ["Lag", html`${duration(found.lag * 1000)}<${Spark} values=${lags.value} />`, "earliest due slot", found.lag > 60 ? "fail" : ""],
    ["Running", number(found.queue.running), found.queue.queued ? `${number(found.queue.queued)} queued` : "none queued", found.queue.running ? "run" : "", "running"],
    ["Held", number(found.held), found.held ? (found.held === 1 ? "waits for a place" : "wait for a place") : "none waits", found.held ? "hold" : "", "held"],
    ["Failing", number(facets.failing || 0), facets.failing ? "last slot failed" : "no last slot failed", facets.failing ? "fail" : "", "failing"],
    ["Overdue", number(found.overdue), found.overdue ? "by more than a minute" : "none by a minute", found.overdue ? "fail" : ""],
    ["Breakers open", number(found.breakers.length), found.breakers.length ? nameOf(found.breakers[0].key) : "all closed", found.breakers.length ? "fail" : "", "breakers"],
    ["Open alerts", number(found.unanswered_alerts), answered(found) || (found.unanswered_alerts ? "told by notify" : "none is open"), found.unanswered_alerts ? "fail" : "", "alerts"],
    ["Spent budgets", number(found.spent_budgets.length), found.spent_budgets[0] ? `${found.spent_budgets[0].name}, refills ${relative(ms(found.spent_budgets[0].spent_until), now.value)}` : "none is spent", found.spent_budgets.length ? "skip" : "", "budgets"],
  ];
  const act = (filter) => (LINKS[filter] ? go(href(filter)) : setQuery({ running: null, held: null, failing: null, ...(query.get(filter) ? {} : { [filter]: "true" }) }, { replace: false }));
  return html`<ul class="tiles card" aria-label="Health">${tiles.map(([name, value, hint, tone, filter]) => {
    const body = html`<span class="name">${tone ? html`<${Glyph} kind=${tone} />` : null}${name}</span><span class="fig ${frozen.value ? "stale" : ""}">${value}</span><span class="hint clip-2" title=${visible(hint)}>${visible(hint)}</span>`;
    return html`<li key=${name}>${filter ? html`<button class="tile ${tone}" aria-pressed=${LINKS[filter] ? undefined : String(Boolean(query.get(filter)))} title=${LINKS[filter] || "Show only these on the time line"} onClick=${() => act(filter)}>${body}</button>` : html`<div class="tile ${tone}">${body}</div>`}</li>`;
  })}</ul>`;
}
const answered = ({ open_alerts: open, unanswered_alerts: unanswered }) => (open > unanswered ? `${number(open - unanswered)} more acknowledged or silenced` : "");
// The lags that this page was told of.
function Spark({ values }) {
  if (values.length < 3) return null;
  const most = Math.max(...values), x = 40 / (values.length - 1), points = values.map((value, i) => `${(i * x).toFixed(1)},${(13 - (most ? value / most : 0) * 11).toFixed(1)}`).join(" ");
  return html`<svg class="spark" viewBox="0 0 40 14" role="img" aria-label=${`Lag since this page was opened: at most ${duration(most * 1000)}`}><polyline points=${points} /></svg>`;
}

// -- the three lists --

const Feed = ({ kind, title, name, id, at, to, text, time, hint }) => html`<li><${Glyph} kind=${kind} title=${title} /><span class="two grow"><a class="plain strong clip" href=${to || href("schedules", id, at ? { at } : null)}>${visible(name)}</a><small class="clip" title=${visible(text)}>${visible(text)}</small></span><span class="two right nowrap"><span class=${frozen.value ? "stale" : ""}>${time}</span><small>${hint}</small></span></li>`;
function UpNext() {
  const { data, problem, again } = useData((abort) => get("upcoming/", { limit: 12 }, { signal: abort }), [], { every: 10000, events: (event) => event.type !== "job.succeeded" && event.type !== "job.started" });
  useEffect(() => { if (data) learnNames(data.items.map((one) => one.schedule_id)); }, [data]);
  const items = (data?.items || []).filter((one) => ms(one.due_at) >= now.value - 1000).slice(0, 5);
  return html`<section class="card"><header><h2>Up next</h2><span class="end muted">exact, jitter included</span></header>
    ${problem && !data ? html`<${Failed} what="What comes next could not be loaded" problem=${problem} again=${again} />` : !data ? html`<${Loading} rows=${4} />` : items.length ? html`<ul class="feed">${items.map((one) => html`<${Feed} key=${one.schedule_id + one.slot_at} kind=${one.skip_reason ? "skip" : one.hold_reason ? "hold" : "next"} title=${one.skip_reason ? "will be skipped" : one.hold_reason ? "will be held" : "upcoming"} id=${one.schedule_id} name=${nameOf(one.schedule_id)} text=${one.skip_reason ? `will be skipped: ${reasonAhead(one.skip_reason)}` : one.hold_reason ? `will be held: ${reasonAhead(one.hold_reason)}` : one.is_estimate ? "about then: it depends on a run before it" : `slot ${ofSchedule(ms(one.slot_at), now.value, one.timezone)}`} time=${relative(ms(one.due_at), now.value)} hint=${ofSchedule(ms(one.due_at), now.value, one.timezone)} />`)}</ul>` : html`<${Empty} icon="now" title="Nothing is due"><p>${data.sentence || "No active schedule has another slot."}</p><//>`}</section>`;
}

const HAPPENED = ["job.succeeded", "job.failed", "job.timed_out", "schedule.skipped", "schedule.missed", "job.cancelled", "job.lost"];
const KIND_OF = { "job.succeeded": "ok", "job.failed": "fail", "job.timed_out": "timeout", "schedule.skipped": "skip", "schedule.missed": "miss", "job.cancelled": "cancel", "job.lost": "lost" };
const happenedText = (event) => (event.type === "job.succeeded" ? `ran ${duration((event.detail.seconds || 0) * 1000)}` : event.detail?.error || reasonText(event.reason) || WORD[KIND_OF[event.type]]);
function JustHappened() {
  const { data, problem, again } = useData((abort) => get(`audit/?${HAPPENED.map((type) => `type=${type}`).join("&")}`, { limit: 12 }, { signal: abort }), []);
  const { shown, held, news } = useFeed(data?.items, (event) => KIND_OF[event.type], { most: 50 });
  useEffect(() => { learnLabels(shown.slice(0, 5)); }, [shown]);
  return html`<section class="card" ...${held}><header><h2>Just happened</h2><span class="end">${news || html`<span class="live ${lostSince.value === null ? "" : "off"}"><i></i>${lostSince.value === null ? "Live" : "Stopped"}</span>`}</span></header>
    ${problem && !shown.length ? html`<${Failed} what="What happened could not be loaded" problem=${problem} again=${again} />` : !data && !shown.length ? html`<${Loading} rows=${4} />` : shown.length ? html`<ul class="feed">${shown.slice(0, 5).map((one) => html`<${Feed} key=${eventKey(one)} kind=${KIND_OF[one.type]} title=${WORD[KIND_OF[one.type]]} id=${one.schedule_id} at=${one.slot_at} name=${nameOf(one.schedule_id)} text=${happenedText(one)} time=${ago(ms(one.at), now.value)} hint=${absolute(ms(one.at), now.value)} />`)}</ul>` : html`<${Empty} icon="jobs" title="Nothing has happened yet"><p>The first slot that fires, or does not, appears here.</p><//>`}</section>`;
}

function Waiting() {
  const relevant = (event) => /^schedule\.(held|retried|paused|resumed|approv|declined)|^job\.(started|cancelled)/.test(event.type);
  const { data, problem, again } = useData(async (abort) => {
    const [held, retries, approvals] = await Promise.all([
      get("schedules/", { held: true, limit: 5, sort: "next_run_at" }, { signal: abort }),
      get("jobs/", { status: "queued", limit: 5 }, { signal: abort }),
      get("schedules/", { waiting: true, limit: 5 }, { signal: abort }),
    ]);
    return { held: held.items, queued: retries.items, approvals: approvals.items };
  }, [], { events: relevant, every: 15000 });
  useEffect(() => { if (data) learnLabels(data.queued); }, [data]);
  if (problem && !data) return html`<section class="card"><header><h2>Waiting</h2></header><${Failed} what="What waits could not be loaded" problem=${problem} again=${again} /></section>`;
  const at = now.value;
  const items = data ? [
    ...data.held.map((one) => html`<${Feed} key=${one.id} kind="hold" title="held" id=${one.id} at=${one.held_slot_at} name=${scheduleName(one)} text=${reasonText(one.held_reason)} time=${`held ${elapsed(ms(one.held_since), at)}`} hint=${`since ${absolute(ms(one.held_since), at)}`} />`),
    ...data.queued.map((one) => html`<${Feed} key=${one.id} kind="queued" title="queued" id=${one.schedule_id} at=${one.slot_at} name=${nameOf(one.schedule_id)} text=${one.retry ? `retry ${one.retry}` : one.origin === "schedule" ? "waits for a worker" : `${one.origin}, waits for a worker`} time=${one.not_before ? relative(ms(one.not_before), at) : `for ${elapsed(ms(one.created_at), at)}`} hint=${absolute(ms(one.not_before || one.created_at), at)} />`),
    ...data.approvals.map((one) => html`<${Feed} key=${one.id} kind="paused" title="waits for approval" id=${one.id} to=${href("approvals")} name=${scheduleName(one)} text=${`revision ${one.revision} waits for approval`} time=${elapsed(ms(one.updated_at), at)} hint=${`since ${absolute(ms(one.updated_at), at)}`} />`),
  ].slice(0, 5) : [];
  return html`<section class="card"><header><h2>Waiting</h2><span class="end muted">held slots, jobs${may("operator") ? ", approvals" : ""}</span></header>
    ${!data ? html`<${Loading} rows=${4} />` : items.length ? html`<ul class="feed">${items}</ul>` : html`<${Empty} icon="now" title="Nothing waits"><p>No slot is held, and no job waits for a worker or a retry.</p><//>`}</section>`;
}
