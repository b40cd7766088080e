// The event stream: what happens is gathered and handed on four times a second; a lost stream is shown, and opened again.
import { signal } from "./lib.js";
import { apiUrl, get, heardOf, isGlobal, me, proven } from "./api.js";
import { loadTerms } from "./terms.js";
import { duration, exactNow, frozen, ms, now, tick } from "./time.js";

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
// One event of the stream: lines of `id:`, `event:` and `data:`, or a comment.
function hear(frame) {
  lastHeard.value = exactNow();
  const lines = Object.fromEntries(frame.split("\n").map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 1).trim()]));
  if (lines.id) lastId = lines.id;
  if (!lines.data) return;
  let fields;
  try { fields = JSON.parse(lines.data); } catch { return; }
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
  source = new AbortController();
  listen(source);
}
// Not an EventSource: it cannot send the header that proves the session.
async function listen(ours) {
  const decoder = new TextDecoder();
  let rest = "";
  try {
    const answer = await fetch(apiUrl("events/stream/", { after: lastId }), { headers: proven({ accept: "text/event-stream" }), credentials: "same-origin", signal: ours.signal, cache: "no-store" });
    if (answer.ok && source === ours) opened();
    const reader = answer.ok && answer.body.getReader();
    for (let piece; reader && !(piece = await reader.read()).done;) {
      const frames = (rest + decoder.decode(piece.value, { stream: true })).split("\n\n");
      rest = frames.pop();
      if (source === ours) frames.forEach(hear);
    }
  } catch { /* the connection is lost, or was closed here */ }
  if (source === ours) lose();
}
function opened() {
  wait = 1000;
  const wasLost = lostSince.value !== null;
  lostSince.value = retryAt.value = null;
  frozen.value = false;
  tick();
  lastHeard.value = exactNow();
  if (wasLost) { epoch.value++; refreshStatus(); }
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
export function close() { const ours = source; source = null; ours?.abort(); }

let refreshing = 0; // questions without an answer yet
export async function refreshStatus() {
  if (!me.value) return;
  loadTerms();
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
