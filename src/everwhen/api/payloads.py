"""The shapes of bodies, in and out, as OpenAPI shows them. What is answered is made here from the model's values.

Answers are plain dictionaries, made once and written as JSON; the models document them, and the tests hold the two
together. Bodies of schedules are judged by `config.submission`, as a file is; the others by the models.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from everwhen.api.masks import masked
from everwhen.api.moments import Moment
from everwhen.config.spelling import duration_text, instant_text
from everwhen.config.spelling import schedule_words as words_of
from everwhen.model.bound_queue import plain_queue
from everwhen.model.history import Revision as ModelRevision
from everwhen.model.instants import SECOND, moment_of
from everwhen.model.job import Job as ModelJob
from everwhen.model.job import JobStatus, Origin
from everwhen.model.memory import by_identity
from everwhen.model.policy import CatchUp, IfRunning, IntervalFrom, OnLost, WhenClosed
from everwhen.model.schedule import Definition, ScheduleType, Status
from everwhen.operations.record import Figures, SlotEntry
from everwhen.operations.submissions import key_of
from everwhen.operations.upcoming import UpcomingSlot
from everwhen.ports.catalogue import Entry
from everwhen.timetable.describe import describe
from everwhen.timetable.occurrences import FirstRun
from everwhen.timetable.trigger import Cron, Every, EveryMonth, Once, OnRequest, Trigger

# Text that every database can hold.
Line = Annotated[str, StringConstraints(max_length=10_000, pattern=r"^[^\x00]*$")]
Identifier = Annotated[str, StringConstraints(min_length=1, max_length=201, pattern=r"^[^\x00]*$")]
When = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
Object = dict[str, Any]


class Shape(BaseModel):
    """Nothing beyond what is documented."""

    model_config = ConfigDict(extra="forbid")


class Fault(Shape):
    """One part of a request that cannot be taken."""

    path: str = Field(description="Where it stands in the body or among the parameters.")
    message: str


class Problem(BaseModel):
    """RFC 9457. `type` is stable; `detail` is a sentence for people."""

    model_config = ConfigDict(extra="allow")

    type: str = Field(examples=["urn:everwhen:problem:not-found"])
    title: str
    status: int
    detail: str
    errors: list[Fault] | None = None


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
    "current_repeat current_retry run_count error_count fire_count last_error last_success_job_id held_reason "
    "outstanding running_jobs revision status status_reason paused_by"
).split()
_STATE_INSTANTS = (
    "last_fired_at last_run_at last_completed_at last_success_at next_slot_at next_run_at held_slot_at held_since "
    "resume_at"
).split()


# Every word that a schedule may have, in the order in which they are answered.
_WORDS: Object = dict.fromkeys(
    """name description owner every cron at after timezone dst start_at end_at first_run interval_from jitter
    only_between not_on outside_window quiet_hours misfire_grace catch_up catch_up_limit if_running queue_limit
    max_outstanding max_concurrent total_repeats max_retries retry_delay on_lost timeout circuit_breaker queue payload
    run expect ping""".split()
)


def when_text(instant: int | None) -> str | None:
    """An instant as RFC 3339 in UTC."""
    return None if instant is None else moment_of(instant).isoformat().replace("+00:00", "Z")


@by_identity(most=4_096)
def _definition_words(definition: Definition) -> Object:
    """The part of the answer that only a new revision changes."""
    trigger = definition.trigger
    words = {**_WORDS, **words_of(definition)}
    workflow = (words["run"] or {}).get("workflow") or {}
    return {
        **words,
        "name": definition.name,
        "description": definition.description,
        "not_on": words["not_on"] or [],
        "run": masked(words["run"]),
        "ping": masked(words["ping"]),
        "catch_up": definition.catch_up_policy,
        "retry_delay": duration_text(definition.retry_base),
        "timeout": str(words["timeout"]),
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
        "trigger_payload": words["payload"],
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


def schedule_words(entry: Entry, place: str | None = None) -> Object:
    """A schedule as it is answered."""
    state = entry.schedule.state
    file, _, line = (place or "").rpartition(":")
    return {
        "id": state.schedule_id,
        "uid": state.uid,
        "key": key_of(entry),
        **_definition_words(entry.schedule.definition),
        "enabled": state.status == "active",
        **{name: getattr(state, name) for name in _STATE},
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


class Job(Shape):
    """One execution of a slot."""

    id: str
    schedule_id: str
    uid: str
    number: int
    retry: int
    attempt: int
    origin: Origin
    status: JobStatus
    slot_at: When
    due_at: When
    not_before: When | None
    created_at: When
    started_at: When | None
    ended_at: When | None
    deadline_at: When | None
    queue: str
    payload: Object | None = Field(description="What was given for this job alone; null: the schedule's.")
    reason: str | None
    error: str | None
    result: str | None


_JOB = "schedule_id uid number retry attempt origin status queue reason error result".split()
_JOB_INSTANTS = "slot_at due_at not_before created_at started_at ended_at deadline_at".split()


def job_words(job: ModelJob) -> Object:
    return {
        "id": job.job_id,
        **{name: getattr(job, name) for name in _JOB},
        **{name: when_text(getattr(job, name)) for name in _JOB_INSTANTS},
        "queue": plain_queue(job.queue),
        "payload": None if job.payload is None else json.loads(job.payload),
    }


class Fired(Shape):
    """The job that a request made, or why there is none."""

    job: Job | None
    skipped: str | None = Field(description="The reason of the skip.")


class Upcoming(Shape):
    """A slot to come."""

    schedule_id: str
    slot_at: When
    due_at: When
    skip_reason: str | None = Field(description="Why it will be skipped, as far as that is known.")
    is_estimate: bool = Field(description="It depends on when a run before it ends.")


def upcoming_words(slot: UpcomingSlot) -> Object:
    return {
        "schedule_id": slot.schedule_id,
        "slot_at": when_text(slot.slot_at),
        "due_at": when_text(slot.due_at),
        "skip_reason": slot.skip_reason,
        "is_estimate": slot.is_estimate,
    }


class UpcomingList(Shape):
    items: list[Upcoming]
    total: int


class PreviewSlot(Upcoming):
    """A slot that would be."""

    note: str | None = Field(description="What a change of the clock does to it.")


class Preview(Shape):
    """A trigger in words, and its next slots."""

    sentence: str = Field(examples=["at 09:00, Monday to Friday"])
    type: ScheduleType
    timezone: str
    items: list[PreviewSlot]
    total: int


class Slot(Shape):
    """What became of one slot, or of a range of slots that one event stands for."""

    slot_at: When
    fate: Literal["fired", "skipped", "missed", "caught_up", "held"]
    reason: str | None
    count: int = Field(description="How many slots it stands for.")
    first_at: When | None
    last_at: When | None
    job: Job | None


def slot_words(entry: SlotEntry) -> Object:
    return {
        "slot_at": when_text(entry.slot_at),
        "fate": entry.fate,
        "reason": entry.reason,
        "count": entry.count,
        "first_at": when_text(entry.first_at),
        "last_at": when_text(entry.last_at),
        "job": None if entry.job is None else job_words(entry.job),
    }


class SlotList(Shape):
    """A page of slots, newest first."""

    items: list[Slot]
    total: int = Field(description="How many are on this page; a ledger is not counted.")
    next_cursor: str | None


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


def stats_words(figures: Figures) -> Object:
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
    definition: Object


class RevisionList(Shape):
    items: list[Revision]
    total: int


def revision_words(revision: ModelRevision) -> Object:
    return {
        "revision": revision.revision,
        "in_force_at": when_text(revision.in_force_at),
        "definition": _definition_words(revision.plan.definition),
    }


# -- bodies that come in --


class PauseBody(Shape):
    """Why, and until when."""

    note: Line | None = Field(default=None, examples=["the printer is away"])
    until: Moment | None = Field(default=None, description="It resumes by itself then.")


class TriggerBody(Shape):
    """What to run it with."""

    payload: Object | None = Field(
        default=None, description="Merged over the schedule's; top-level keys win."
    )
    if_running: IfRunning = "queue"


class BackfillBody(Shape):
    """Which past slots get the jobs that they lack: [from, to)."""

    from_: Moment = Field(alias="from")
    to: Moment
    if_running: IfRunning = "queue"
    dry_run: bool = False


class BackfillAnswer(Shape):
    slots: list[When]
    count: int
    dry_run: bool
    skipped: str | None


class ManyIds(Shape):
    """Schedules by id."""

    schedule_ids: Annotated[list[Identifier], Field(max_length=10_000)]


class ManyResult(Shape):
    """What became of one of many: its id, or the problem with it."""

    id: str | None
    schedule: Schedule | None
    problem: Problem | None


class ManyResults(Shape):
    items: list[ManyResult]
    total: int
    failed: int


class CreatedResult(Shape):
    """What became of one of many new schedules: its id, or the problem with it."""

    id: str | None
    problem: Problem | None


class CreatedResults(Shape):
    """In the order of the request."""

    items: list[CreatedResult]
    total: int
    failed: int


class Explanation(Shape):
    """What became of a slot, and why."""

    schedule_id: str
    timezone: str
    slot_at: When | None
    fate: str
    reason: str | None
    sentence: str
    evidence: list[Object]
    next_run_at: When | None
