"""Schedules as they are answered: what they are, their revisions, their figures."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from everwhen.model.fast_values import by_identity
from everwhen.model.fields import Definition, answer_to_json
from everwhen.model.instants import SECOND, instant_text
from everwhen.model.queries import Entry
from everwhen.operations.access import Page, key_of
from everwhen.timetable.describe import describe
from everwhen.timetable.trigger import Cron, Every, EveryMonth, Once, OnRequest, Trigger
from everwhen.views.values import Object, cursor_of, when_text

if TYPE_CHECKING:
    from everwhen.model.history import Revision
    from everwhen.operations.record import Figures

_STATE = (
    "current_repeat current_retry failed_slots run_count error_count last_error last_success_job_id "
    "held_reason outstanding running_jobs revision status status_reason paused_by"
).split()


_STATE_INSTANTS = (
    "last_fired_at last_run_at last_completed_at last_success_at next_slot_at next_run_at held_slot_at held_since "
    "resume_at"
).split()


@by_identity(most=4_096)
def _definition_to_json(definition: Definition) -> Object:
    """The part of the answer that only a new revision changes."""
    trigger, fields = definition.trigger, answer_to_json(definition)
    workflow = fields["run"].get("workflow") or {}
    return {
        **fields,
        "group": definition.group,
        "user_profile_id": definition.owner,
        "workflow_id": workflow.get("id"),
        "trigger_node_id": workflow.get("trigger_node_id"),
        "type": definition.type,
        "spec": _spec(trigger),
        "interval_seconds": trigger.seconds if isinstance(trigger, Every) else None,
        "quiet_hours_policy_id": definition.quiet_hours_id,
        "catch_up_policy": definition.catch_up_policy,
        "timeout_seconds": (definition.timeout or 0) // SECOND,
        "trigger_payload": fields["payload"],
        "target": definition.target.kind,
        "description_text": describe(trigger, definition.zone),
    }


def _spec(trigger: Trigger) -> str:
    """Return a trigger as the text of `spec`: seconds, an expression, an instant."""
    match trigger:
        case Every():
            return str(trigger.seconds)
        case Cron():
            return trigger.expression.text
        case Once():
            return str(instant_text(trigger.instant))
        case EveryMonth():
            return trigger.text
        case OnRequest():
            return trigger.kind


def schedule_to_json(entry: Entry, place: str | None = None) -> Object:
    """A schedule as it is answered."""
    state = entry.schedule.state
    file, _, line = (place or "").rpartition(":")
    return {
        "id": state.schedule_id,
        "uid": state.uid,
        "key": key_of(entry),
        **_definition_to_json(entry.schedule.definition),
        "enabled": state.status == "active",
        **{name: getattr(state, name) for name in _STATE},
        "fire_count": state.firings,
        **{name: when_text(getattr(state, name)) for name in _STATE_INSTANTS},
        "created_at": when_text(entry.created_at),
        "updated_at": when_text(entry.updated_at),
        "source": entry.source.partition(":")[0],  # `python:shop` is Python's
        "source_file": file or None,
        "source_line": int(line) if line.isdecimal() else None,
    }


def schedules_page(page: Page, place_of: Callable[[Entry], str | None], *, limit: int) -> Object:
    """A page of schedules that was asked for with that limit."""
    last = page.entries[-1].schedule.state.row_id if len(page.entries) == limit else None
    return {
        "items": [schedule_to_json(entry, place_of(entry)) for entry in page.entries],
        "total": page.total,
        "total_is_approximate": page.is_approximate,
        "next_cursor": None if last is None else cursor_of(last),
    }


def stats_to_json(figures: Figures) -> Object:
    ended = figures.succeeded + figures.failed
    return {
        "jobs": figures.looked_at,
        "succeeded": figures.succeeded,
        "failed": figures.failed,
        "cancelled": figures.cancelled,
        "success_rate": round(figures.succeeded / ended, 4) if ended else None,
        "since": when_text(figures.since),
        "duration_min": _seconds(figures.shortest),
        "duration_median": _seconds(figures.median),
        "duration_p95": _seconds(figures.nearly_longest),
        "duration_max": _seconds(figures.longest),
    }


def _seconds(duration: int | None) -> float | None:
    return None if duration is None else duration / SECOND


def revision_to_json(revision: Revision) -> Object:
    return {
        "revision": revision.revision,
        "in_force_at": when_text(revision.in_force_at),
        "cause": revision.cause,
        "definition": _definition_to_json(revision.plan.definition),
    }
