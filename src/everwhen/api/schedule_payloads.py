"""The shapes of answers about schedules: what they are, their revisions, their figures."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import FailFast, Field, create_model

from everwhen.api.payloads import Identifier, Line, Moment, Problem, Shape, When
from everwhen.model.fields import GENERAL, ScheduleType
from everwhen.model.fields import Field as FieldOfSchedule
from everwhen.model.history import Cause
from everwhen.model.kinds import Kind, Record
from everwhen.model.kinds import Object as ObjectKind
from everwhen.model.policy import CatchUp, IfRunning
from everwhen.model.scalars import Flag, Number, Word
from everwhen.model.schedule import Status
from everwhen.views.values import Object


def _type_of(name: str, row: FieldOfSchedule) -> Any:
    """Return the type of a key in answers."""
    found = row.answer_type or _TYPES.get(type(row.kind), str)
    if isinstance(row.kind, Word) and row.answer_type is None:
        found = Literal[row.kind.fields]
    if name.endswith("_at"):
        found = When
    return found if row.is_answered else found | None


_TYPES: dict[type[Kind], Any] = {Number: int, Flag: bool, Record: Object, ObjectKind: Object}
_KEYS: dict[str, Any] = {name: (_type_of(name, row), ...) for name, row in GENERAL.items()}
_Keys = create_model("_Keys", __base__=Shape, **_KEYS)


class Schedule(_Keys):  # type: ignore[valid-type, misc]
    """A schedule: what it is, where it stands, and what it did."""

    id: str
    uid: str
    key: str | None
    group: str | None
    user_profile_id: str | None
    workflow_id: str | int | None
    trigger_node_id: str | None
    type: ScheduleType
    spec: str
    interval_seconds: int | None
    quiet_hours_policy_id: str | None
    catch_up_policy: CatchUp
    timeout_seconds: int
    trigger_payload: Object
    target: str
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


class Revision(Shape):
    """One revision of a definition, in the words of a schedule."""

    revision: int
    in_force_at: When
    cause: Cause | None = Field(description="null: written by a release that did not keep it.")
    definition: Object


class RevisionList(Shape):
    items: list[Revision]
    total: int


# The bodies of deeds on schedules, and what is answered to many at once.


class PauseBody(Shape):
    """Why, and until when."""

    note: Line | None = Field(default=None, examples=["the printer is away"])
    until: Moment | None = Field(default=None, description="It resumes by itself then.")


class ApproveBody(Shape):
    """Which revision was looked at."""

    revision: int = Field(ge=1, lt=1 << 53, strict=True, examples=[1])


class DeclineBody(Shape):
    """Why."""

    note: Line | None = Field(default=None, examples=["once a day is enough"])


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

    schedule_ids: Annotated[list[Identifier], Field(max_length=10_000), FailFast()]


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
