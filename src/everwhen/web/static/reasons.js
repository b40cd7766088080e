// Reasons in few words, for marks and lists; the whole sentence is the API's (`why/`).
const TEXT = {
  excluded_day: "it does not run on this day",
  outside_window: "outside its window",
  quiet_hours: "quiet hours",
  circuit_open: "the breaker was open",
  already_running: "an earlier run was still going",
  retrying: "an earlier slot was still waiting",
  queue_full: "too many jobs were waiting",
  budget: "the budget was spent",
  superseded: "the next slot came first",
  edited: "its times were edited first",
  paused: "the schedule was paused",
  down: "no scheduler was running",
  late: "the scheduler came too late",
  caught_up: "one job stood for it",
  catch_up_limit: "more were missed than may be caught up",
  outstanding_limit: "waits: so many may be outstanding",
  at_capacity: "waits for a place (max_concurrent)",
  system: "the system is paused",
  pause: "cancelled by a pause",
  done: "cancelled, the schedule was done",
  dead: "cancelled, the schedule died",
  deleted: "cancelled, the schedule was deleted",
  overlap: "cancelled by the next slot",
  person: "cancelled by a person",
  failure_threshold: "its threshold was reached",
  cooldown_elapsed: "its time to probe came",
  success: "the probe succeeded",
  probe_failed: "the probe failed",
  probe_cancelled: "the probe was cancelled",
  manual_reset: "reset by a person",
};
// The same of a slot to come.
const AHEAD = { circuit_open: "the breaker is open", already_running: "an earlier run is still going", retrying: "an earlier slot still waits", queue_full: "too many jobs wait", budget: "the budget is spent", superseded: "the next slot comes first", paused: "the schedule is paused" };
export const reasonAhead = (reason) => AHEAD[reason] || reasonText(reason);
export const reasonText = (reason) => (reason ? TEXT[reason] || reason.replaceAll("_", " ") : "");
