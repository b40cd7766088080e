"""The log of a program's scheduler, on the logger `everwhen`: failed jobs, missed slots, firings.

A record carries `event`, `schedule_id`, `job_id` and `slot_at` in its `extra`, for loggers that write fields.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from everwhen.model.changes import Decision
from everwhen.model.events import Event
from everwhen.model.instants import format_instant, to_datetime
from everwhen.model.outcome import Outcome
from everwhen.target import Run
from everwhen.timetable.civil_time import Zone

log = logging.getLogger("everwhen")

_FAILURES = ("failed", "timed_out", "lost")


class EngineLog:
    """An observer of runs and of decisions. It must not raise: a handler that fails is its own affair."""

    def started(self, run: Run) -> None:
        if log.isEnabledFor(logging.DEBUG):
            log.debug(
                "job %s of %s started", run.job_id, run.schedule_id, extra=_fields_of_run(run, "job.started")
            )

    def ended(self, run: Run, outcome: Outcome) -> None:
        """Log a failure with its traceback."""
        if outcome.status in _FAILURES:
            error = _writable(outcome.error or "no error is known")
            word = "timed out" if outcome.status == "timed_out" else outcome.status
            fields = _fields_of_run(run, f"job.{outcome.status}")
            log.error("job %s of %s %s: %s", run.job_id, run.schedule_id, word, error, extra=fields)
        elif log.isEnabledFor(logging.DEBUG):
            fields = _fields_of_run(run, f"job.{outcome.status}")
            log.debug("job %s of %s %s", run.job_id, run.schedule_id, outcome.status, extra=fields)

    def decided(self, decisions: Sequence[Decision]) -> None:
        """Log what an evaluation has committed."""
        is_debugging = log.isEnabledFor(logging.DEBUG)
        for decision in decisions:
            for event in decision.events:
                if event.type == "schedule.missed":
                    _log_missed(event, decision.plan.definition.zone)
            if is_debugging:
                _log_fired(decision)


def _writable(text: str) -> str:
    """Return a text that every handler can write: an exception may hold half of a surrogate pair."""
    return text.encode(errors="backslashreplace").decode()


def _log_missed(event: Event, zone: Zone) -> None:
    slot_at = None if event.slot_at is None else to_datetime(event.slot_at)
    many = f" and {event.slot_count - 1} more" if event.slot_count > 1 else ""
    fields = {"event": event.type, "schedule_id": event.schedule_id, "job_id": None, "slot_at": slot_at}
    when = "a slot" if event.slot_at is None else f"its slot at {format_instant(event.slot_at, zone)}"
    log.warning("schedule %s missed %s%s: %s", event.schedule_id, when, many, event.reason, extra=fields)


def _log_fired(decision: Decision) -> None:
    schedule_id = decision.after.schedule_id
    for job in decision.jobs:
        slot_at = to_datetime(job.slot_at)
        fields = {
            "event": "schedule.fired",
            "schedule_id": schedule_id,
            "job_id": job.job_id,
            "slot_at": slot_at,
        }
        log.debug("schedule %s fired job %s", schedule_id, job.job_id, extra=fields)


def _fields_of_run(run: Run, event: str) -> dict[str, object]:
    return {
        "event": event,
        "schedule_id": run.schedule_id,
        "job_id": run.job_id,
        "slot_at": to_datetime(run.slot_at),
    }
