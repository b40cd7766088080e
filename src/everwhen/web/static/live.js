// The event stream: what happens is gathered and handed on four times a second; a lost stream is shown, and opened again.
import { signal } from "./lib.js";
import { apiUrl, get, heardOf, isGlobal, me } from "./api.js";
import { duration, exactNow, frozen, ms, now, tick } from "./time.js";

const TYPES = `schedule.created schedule.updated schedule.deleted schedule.paused schedule.resumed schedule.revived schedule.skipped
schedule.missed schedule.caught_up schedule.invalidated schedule.restored schedule.done schedule.died schedule.approval_requested
schedule.approved schedule.declined schedule.expired breaker.opened breaker.half_opened breaker.closed breaker.reset job.cancelled job.lost job.rescued
job.rerun job.triggered schedule.overdue schedule.failing schedule.slow schedule.silent config.reloaded config.rejected token.created
token.revoked auth.denied scheduler.started scheduler.stopped scheduler.stalled scheduler.recovered scheduler.clock_stepped scheduler.feed_delayed scheduler.feed_resumed node.lost alert.sent
alert.failed alert.acknowledged alert.silenced ping.dropped budget.warning budget.reached budget.refilled budget.unmeasured budget.measured request.refused webhook.created webhook.updated webhook.disabled webhook.deleted system.paused system.resumed system.restored schedule.fired schedule.retried schedule.held job.started
job.succeeded job.failed job.timed_out`.split(/\s+/);
const GATHER = 250, SLOWEST = 15000, MOST = 5000;

// lostSince: null while the stream is open. epoch: another number when pages must ask for everything again.
export const lostSince = signal(null);
export const retryAt = signal(null);
export const epoch = signal(0);
export const lastHeard = signal(null);
// How everything stands (GET /system/status/), which the shell and the Now page share.
export const status = signal(null);
// How old the last tick was when the service was asked; when it has not answered for a while, how old it is now.
export function tickAge(found) {
  const asked = ms(found.now), at = now.value - asked > 10000 ? now.value : asked, age = Math.max(0, at - ms(found.last_check_at));
  return age < 1000 ? `${(age / 1000).toFixed(1)} s` : duration(Math.round(age / 1000) * 1000);
}
// The lags of the last minutes, as the page was told.
export const lags = signal([]);
// How many schedules wait for approval; a token with an owner counts its own.
export const waiting = signal(0);

// What keeps a schedule from firing, beside itself: its breaker where it is not closed, its budget where it is spent.
export const breakerOf = (one) => { const command = one.run?.plugin?.command, key = one.group && command ? `${one.group}:${command}` : one.group || one.id; return status.value?.breakers.find((found) => found.key === key || found.key === `${key}@${one.owner}`); };
export const budgetOf = (one) => status.value?.spent_budgets.find(({ kind, name }) => name === { group: one.group, owner: one.owner }[kind]);

const listeners = new Set();
let source = null, gathered = [], timer = 0, wait = 1000, again = 0, lastId = null;

export function onEvents(listener) { listeners.add(listener); return () => listeners.delete(listener); }

function flush() {
  timer = 0;
  const events = gathered;
  gathered = [];
  for (const listener of listeners) listener(events);
}
function hear(event) {
  lastHeard.value = exactNow();
  if (event.lastEventId) lastId = event.lastEventId;
  let fields;
  try { fields = JSON.parse(event.data); } catch { return; }
  hearOne(fields);
}
export function hearOne(fields) {
  if (gathered.length >= MOST) gathered.shift(); // pages that are this far behind ask again anyway
  gathered.push(fields);
  if (!timer) timer = setTimeout(flush, GATHER);
}

export function open() {
  close();
  if (!me.value || document.hidden) return;
  source = new EventSource(apiUrl("events/stream/", { after: lastId }), { withCredentials: true });
  for (const type of TYPES) source.addEventListener(type, hear);
  source.onopen = () => {
    wait = 1000;
    const wasLost = lostSince.value !== null;
    lostSince.value = retryAt.value = null;
    frozen.value = false;
    tick();
    lastHeard.value = exactNow();
    if (wasLost) { epoch.value++; refreshStatus(); }
  };
  source.onerror = lose;
}
function lose() {
  close();
  if (lostSince.value === null) { lostSince.value = lastHeard.value ?? exactNow(); frozen.value = true; }
  retryAt.value = Date.now() + wait;
  clearTimeout(again);
  again = setTimeout(retry, wait);
  wait = Math.min(wait * 2, SLOWEST);
}
export async function retry() {
  clearTimeout(again);
  try { heardOf((await get("system/status/").catch((problem) => { if (problem.status === 403) return {}; throw problem; })).now); } catch (problem) {
    if (problem.status === 401) return;
    lose();
    return;
  }
  open();
}
export function close() { if (source) { source.onerror = null; source.close(); source = null; } }

let refreshing = 0; // questions without an answer yet
export async function refreshStatus() {
  if (!me.value) return;
  refreshing++;
  try {
    if (!isGlobal()) { waiting.value = (await get("schedules/", { waiting: true, limit: 1 })).total; return; }
    const found = await get("system/status/");
    heardOf(found.now);
    status.value = found;
    lags.value = [...lags.peek(), found.lag].slice(-60);
    waiting.value = found.waiting;
  } catch (problem) { if (problem.status === 403) status.value = null; } finally { refreshing--; }
}

let statusTimer = 0;
onEvents((events) => { if (events.some((event) => /^(schedule\.(approv|declined|expired)|alert|budget)/.test(event.type))) refreshStatus(); });
export function start({ isAgain = false } = {}) {
  if (isAgain) epoch.value = epoch.peek() + 1;
  refreshStatus();
  open();
  clearInterval(statusTimer);
  statusTimer = setInterval(() => { if (!document.hidden && lostSince.value === null && !refreshing) refreshStatus(); }, 5000);
}
export function stop() { close(); clearInterval(statusTimer); clearTimeout(again); lostSince.value = retryAt.value = null; frozen.value = false; status.value = null; lags.value = []; waiting.value = 0; lastId = null; }

// A browser has six connections to one origin: tabs that nobody looks at give theirs back.
document.addEventListener("visibilitychange", () => {
  if (!me.value) return;
  if (document.hidden) close();
  else { tick(); open(); epoch.value++; refreshStatus(); }
});
