"""The shapes of answers about schedules: what they are, their revisions, their figures."""

from __future__ import annotations

from pydantic import Field

from everwhen.api.payloads import Object, Shape, When, when_text
from everwhen.config.serialize import duration_text, instant_text
from everwhen.config.serialize import schedule_to_json as fields_of
from everwhen.model.history import Cause
from everwhen.model.history import Revision as ModelRevision
from everwhen.model.instants import SECOND
from everwhen.model.masks import masked
from everwhen.model.memory import by_identity
from everwhen.model.policy import CatchUp, IfRunning, IntervalFrom, OnExhausted, OnLost, WhenClosed
from everwhen.model.schedule import Definition, ScheduleType, Status
from everwhen.operations.record import Figures
from everwhen.operations.submissions import key_of
from everwhen.ports.catalogue import Entry
from everwhen.timetable.describe import describe
from everwhen.timetable.occurrences import FirstRun
from everwhen.timetable.trigger import Cron, Every, EveryMonth, Once, OnRequest, Trigger


class Schedule(Shape):
    """A schedule: what it is, where it stands, and what it did."""

    id: str
    uid: str
    key: str | None
    name: str
    description: str
    group: str | None
    owner: str | None
    user_profile_id: str | None
    workflow_id: str | int | None
    trigger_node_id: str | None
    type: ScheduleType
    spec: str
    every: str | None
    cron: str | None
    at: str | None
    after: str | None
    interval_seconds: int | None
    enabled: bool
    timezone: str
    dst: Object | None
    start_at: When | None
    end_at: When | None
    first_run: FirstRun | None
    interval_from: IntervalFrom
    jitter: str | None
    only_between: str | None
    not_on: list[str]
    outside_window: WhenClosed
    quiet_hours: str | None
    quiet_hours_policy_id: str | None
    misfire_grace: str
    catch_up: CatchUp
    catch_up_policy: CatchUp
    catch_up_limit: int
    if_running: IfRunning
    queue_limit: int
    max_outstanding: int | None
    max_concurrent: int | None
    total_repeats: int
    max_retries: int | None
    retry_delay: str
    on_exhausted: OnExhausted
    on_lost: OnLost
    timeout: str
    timeout_seconds: int
    circuit_breaker: Object | None
    queue: str
    payload: Object
    trigger_payload: Object
    run: Object
    target: str
    expect: Object | None
    ping: Object | None
    status: Status
    status_reason: str | None
    paused_by: str | None
    resume_at: When | None
    description_text: str
    current_repeat: int
    current_retry: int
    failed_slots: int
    run_count: int
    error_count: int
    fire_count: int
    last_error: str | None
    last_fired_at: When | None
    last_run_at: When | None
    last_completed_at: When | None
    last_success_at: When | None
    last_success_job_id: str | None
    next_slot_at: When | None
    next_run_at: When | None
    held_slot_at: When | None
    held_reason: str | None
    held_since: When | None
    outstanding: int
    running_jobs: int
    revision: int
    created_at: When
    updated_at: When
    source: str
    source_file: str | None
    source_line: int | None


_STATE = (
    "current_repeat current_retry failed_slots run_count error_count last_error last_success_job_id "
    "held_reason outstanding running_jobs revision status status_reason paused_by"
).split()


_STATE_INSTANTS = (
    "last_fired_at last_run_at last_completed_at last_success_at next_slot_at next_run_at held_slot_at held_since "
    "resume_at"
).split()


# Every word that a schedule may have, in the order in which they are answered.
_CHOICES: Object = dict.fromkeys(
    """name description owner every cron at after timezone dst start_at end_at first_run interval_from jitter
    only_between not_on outside_window quiet_hours misfire_grace catch_up catch_up_limit if_running queue_limit
    max_outstanding max_concurrent total_repeats max_retries retry_delay on_exhausted on_lost timeout circuit_breaker
    queue payload run expect ping""".split()
)


@by_identity(most=4_096)
def _definition_to_json(definition: Definition) -> Object:
    """The part of the answer that only a new revision changes."""
    trigger = definition.trigger
    fields = {**_CHOICES, **fields_of(definition)}
    workflow = (fields["run"] or {}).get("workflow") or {}
    return {
        **fields,
        "name": definition.name,
        "description": definition.description,
        "not_on": fields["not_on"] or [],
        "run": masked(fields["run"]),
        "ping": masked(fields["ping"]),
        "catch_up": definition.catch_up_policy,
        "retry_delay": duration_text(definition.retry_base),
        "timeout": str(fields["timeout"]),
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
    """A trigger as SYRIS spells it: seconds, an expression, an instant."""
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


class ScheduleList(Shape):
    """A page of schedules, newest first."""

    items: list[Schedule]
    total: int
    total_is_approximate: bool = Field(description="Above 10,000 matches the total is an estimate.")
    next_cursor: str | None = Field(description="The `cursor` of the next page; null on the last one.")


class Stats(Shape):
    """How the last jobs went, at most 1,000 of them; durations in seconds."""

    jobs: int
    succeeded: int
    failed: int
    cancelled: int
    success_rate: float | None
    since: When | None
    duration_min: float | None
    duration_median: float | None
    duration_p95: float | None
    duration_max: float | None


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


class Revision(Shape):
    """One revision of a definition, in the words of a schedule."""

    revision: int
    in_force_at: When
    cause: Cause | None = Field(description="null: written by a release that did not keep it.")
    definition: Object


class RevisionList(Shape):
    items: list[Revision]
    total: int


def revision_to_json(revision: ModelRevision) -> Object:
    return {
        "revision": revision.revision,
        "in_force_at": when_text(revision.in_force_at),
        "cause": revision.cause,
        "definition": _definition_to_json(revision.plan.definition),
    }
