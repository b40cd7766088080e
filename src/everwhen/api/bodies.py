"""The bodies of deeds on schedules, and what is answered to many at once."""

from __future__ import annotations

from typing import Annotated

from pydantic import FailFast, Field

from everwhen.api.payloads import Identifier, Line, Moment, Problem, Shape, When
from everwhen.api.schedule_payloads import Schedule
from everwhen.model.policy import IfRunning
from everwhen.views.values import Object


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
