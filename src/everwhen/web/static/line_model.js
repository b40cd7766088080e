// The bars of the time line as the page holds them: what the API answered, and what the stream brought since.
import { labelOf } from "./names.js";
import { number } from "./time.js";
import { barOf } from "./timeline.js";

const ENDS = { "job.succeeded": "succeeded", "job.failed": "failed", "job.timed_out": "timed_out", "job.cancelled": "cancelled", "job.lost": "lost" };
const LATE = 2000; // by so much a tick may be late
const MOST = 12000; // beyond this the oldest go, until the next answer of the API counts them
const keyOf = (item) => item.job_id || `${item.kind} ${item.schedule_id} ${item.slot_at}`;

export class LineModel {
  constructor(answer) {
    this.answer = answer;
    this.items = new Map(answer.items.map((item) => [keyOf(item), item]));
    this.rows = new Map(answer.rows.map((row) => [row.schedule_id, row]));
    this.outdated = 0; // events that only the API can tell the consequences of
  }

  // Whether schedules have slots here that have no row.
  get hasMore() { return this.answer.uncounted || (this.answer.schedule_count > this.rows.size && this.answer.is_aggregated); }

  // Returns whether anything changed that is drawn.
  apply(events) {
    let changed = false;
    for (const event of events) changed = this.applyOne(event) || changed;
    if (this.items.size > MOST) this.outdated++;
    for (const key of this.items.keys()) if (this.items.size > MOST) this.items.delete(key); else break;
    return changed;
  }
  applyOne(event) {
    const { type, schedule_id, job_id, slot_at } = event, row = this.rows.get(schedule_id);
    if (!row?.is_listed) { this.outdated++; return false; } // what is only counted the API counts anew
    if (type === "schedule.fired" || type === "schedule.retried") {
      if (this.items.has(job_id)) return false;
      const held = this.items.get(`held ${schedule_id} ${slot_at}`);
      this.decided(schedule_id, slot_at);
      this.items.set(job_id, { ...EMPTY, kind: "job", schedule_id, slot_at, due_at: held?.since || event.at, fired_at: event.at, job_id, status: "queued", origin: event.detail.origin, retry: event.detail.retry || 0 });
      this.outdated++; // the slot after it is not known here
      return true;
    }
    if (type === "job.started" || ENDS[type]) {
      const known = this.items.get(job_id) || { ...EMPTY, kind: "job", schedule_id, slot_at, due_at: slot_at, job_id, origin: event.detail?.origin };
      if (!slot_at && !this.items.has(job_id)) { this.outdated++; return false; }
      // The stream repeats events after a break: the start of an attempt that is over by now tells nothing new.
      if (type === "job.started" && known.ended_at && (event.detail?.attempt ?? 0) <= (known.attempt ?? 0)) return false;
      const ended = ENDS[type], seconds = event.detail?.seconds;
      const started_at = ended ? known.started_at || (seconds ? new Date(Date.parse(event.at) - seconds * 1000).toISOString() : null) : event.at;
      this.decided(schedule_id, slot_at);
      this.items.set(job_id, { ...known, status: ended || "running", started_at, ended_at: ended ? event.at : null, error: event.detail?.error || known.error, attempt: event.detail?.attempt ?? known.attempt });
      this.rows.get(schedule_id).last_outcome = ended || "running";
      return true;
    }
    if (type === "schedule.skipped" || type === "schedule.missed") {
      this.decided(schedule_id, slot_at);
      const kind = type.slice(9), item = { ...EMPTY, kind, schedule_id, slot_at, due_at: slot_at, count: event.slot_count, last_at: event.slot_count > 1 ? event.detail.last : null, reason: event.reason };
      this.items.set(keyOf(item), item);
      this.rows.get(schedule_id).last_outcome = kind;
      return true;
    }
    if (type === "schedule.held") {
      this.items.delete(`upcoming ${schedule_id} ${slot_at}`);
      const item = { ...EMPTY, kind: "held", schedule_id, slot_at, due_at: event.detail.due_at || slot_at, since: event.at, reason: event.reason };
      this.items.set(keyOf(item), item);
      this.rows.get(schedule_id).last_outcome = "held";
      return true;
    }
    this.outdated++;
    return false;
  }
  decided(schedule_id, slot_at) {
    this.items.delete(`upcoming ${schedule_id} ${slot_at}`);
    this.items.delete(`held ${schedule_id} ${slot_at}`);
  }

  // A slot that fired later than it was due was held until its job, unless nothing could fire meanwhile.
  holdBefore(bar) {
    if (!bar.isJob || bar.origin !== "schedule" || bar.retry || !bar.fired_at) return null;
    const fired = Date.parse(bar.fired_at);
    if (fired - bar.due < LATE || this.answer.spans.some((one) => Date.parse(one.from) < fired && (one.to === null || Date.parse(one.to) > bar.due))) return null;
    return { ...bar, kind: "hold", isJob: false, isOver: true, job_id: null, from: bar.due, start: null, end: fired };
  }
  bars() {
    const found = [], ended = new Map();
    for (const item of this.items.values()) {
      const row = this.rows.get(item.schedule_id);
      if (!row) continue;
      const bar = barOf(item, row.usual_seconds === null ? null : row.usual_seconds * 1000);
      if (bar.kind === "next") bar.jitter = row.jitter_seconds * 1000;
      const waited = this.holdBefore(bar);
      if (waited) found.push(waited);
      if (bar.isJob && bar.end) ended.set(`${item.schedule_id} ${item.slot_at} ${item.retry || 0}`, bar.end);
      found.push(bar);
    }
    // A retry is joined to the attempt before it by a line.
    for (const bar of found) if (bar.isJob && bar.retry > 0) bar.after = ended.get(`${bar.schedule_id} ${bar.slot_at} ${bar.retry - 1}`);
    return found;
  }
}
const EMPTY = { count: 1, last_at: null, reason: null, is_estimate: false, is_skipped: false, is_caught_up: false, since: null, job_id: null, origin: null, status: null, attempt: null, retry: null, fired_at: null, started_at: null, ended_at: null, error: null };

export const stretchesOf = (list) => list.map((one) => ({ ...one, from: Date.parse(one.from), to: Date.parse(one.to) }));
// Groups first, by name, then what belongs to none; each with a head.
export function arrange(rows, total) {
  const groups = new Map();
  for (const row of rows) { const name = row.group || ""; if (!groups.has(name)) groups.set(name, []); groups.get(name).push(row); }
  const names = [...groups.keys()].sort((a, b) => (a === "") - (b === "") || a.localeCompare(b));
  const found = [];
  for (const name of names) {
    const list = groups.get(name).sort((a, b) => labelOf(a).localeCompare(labelOf(b))), running = list.reduce((sum, row) => sum + row.running_jobs, 0), failing = list.filter((row) => row.failed_slots > 0).length;
    const note = [running ? `${running} running` : "", failing ? `${failing} failing` : "", name === "" && total > rows.length ? `${number(total)} schedules have slots here, ${rows.length} shown` : ""].filter(Boolean).join(", ");
    if (names.length > 1 || name) found.push({ group: name || "General", tag: name ? list[0].target : null, note, isBad: failing > 0 });
    for (const row of list) found.push({ ...row, label: labelOf(row), stretches: stretchesOf(row.stretches), closedTimes: row.closed.map((one) => [Date.parse(one.from), Date.parse(one.to)]), pausedTimes: row.pauses.map((one) => [Date.parse(one.from), one.to && Date.parse(one.to)]) });
  }
  return found;
}
