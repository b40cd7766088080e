"""When a schedule is failing: so many of its slots in a row ended failed, depending on how often it fires."""

from __future__ import annotations

from everwhen.decide.draft import Draft
from everwhen.model.instants import HOUR, SECOND
from everwhen.model.job import Job
from everwhen.model.schedule import State
from everwhen.timetable.trigger import Cron, Every, OnRequest, Trigger

# Failed slots in a row, where slots are an hour or more apart, and where they are closer.
SELDOM, OFTEN = 1, 3


def note_failed_slot(draft: Draft, job: Job) -> None:
    """Record `schedule.failing` when the own slots failed in a row reach the threshold."""
    if draft.state.failed_slots == _threshold(draft.plan.definition.trigger):
        _record(draft, job.breaker_key, slot_at=job.slot_at, job_id=job.job_id)


def note_lower_threshold(draft: Draft, old: Trigger) -> None:
    """Record `schedule.failing` when an edit lowers the threshold to slots that have failed already.

    No later failure reaches it, so that the streak would never be reported.
    """
    definition = draft.plan.definition
    if _threshold(definition.trigger) <= draft.state.failed_slots < _threshold(old):
        _record(draft, None if definition.breaker is None else definition.breaker.key)


def _record(
    draft: Draft, breaker_key: str | None, *, slot_at: int | None = None, job_id: str | None = None
) -> None:
    detail: dict[str, object] = {"failed_slots": draft.state.failed_slots, **last_error_of(draft.state)}
    if breaker_key is not None:  # an alert about the breaker explains this one
        detail["breaker"] = breaker_key
    draft.record("schedule.failing", slot_at=slot_at, job_id=job_id, detail=detail)


def last_error_of(state: State) -> dict[str, object]:
    """Return the last error as it stands in the detail of an event, with its type where it has one."""
    error_type = {} if state.last_error_type is None else {"last_error_type": state.last_error_type}
    return {"last_error": state.last_error, **error_type}


def _threshold(trigger: Trigger) -> int:
    """Return how many slots in a row fail before a schedule is failing: the same for all of its slots.

    With a number for each slot, failures could pass by all of them: 0,10,20 9 * * * has two slots with another one soon
    after, and the third has none for a day.
    """
    match trigger:
        case OnRequest():
            return OFTEN
        case Every():
            return OFTEN if trigger.seconds < HOUR // SECOND else SELDOM
        case Cron():
            return OFTEN if trigger.expression.minutes.bit_count() > 1 else SELDOM
        case _:
            return SELDOM
