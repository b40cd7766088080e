"""The shapes of answers and bodies about jobs, and the output of a job by portions."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import Field

from everwhen.api.payloads import Line, Shape, When
from everwhen.api.problems import RefusedError
from everwhen.model.job import JobStatus, Origin
from everwhen.model.policy import IfRunning
from everwhen.views.jobs import Positions, read_positions
from everwhen.views.values import Object


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


class JobInDetail(Job):
    """A job, and where it is while it waits."""

    handed_over_at: When | None = Field(
        description="Since when RQ or Celery has the message about it; null: it waits for no message."
    )
    delivery: int | None = Field(description="The number of that message.")


class Fired(Shape):
    """The job that a request made, or why there is none."""

    job: Job | None
    skipped: str | None = Field(description="The reason of the skip.")


class JobList(Shape):
    """A page of jobs, newest first. While `next_cursor` is there, there may be more, also behind a short page."""

    items: list[Job]
    total: int
    total_is_approximate: bool = Field(
        description="More than were counted: of 10,000 matches, or of the newest 200,000 jobs."
    )
    next_cursor: str | None


class RerunBody(Shape):
    """What to do when another job of the schedule is there still."""

    if_running: IfRunning = "queue"


class OutcomeBody(Shape):
    """How work ended that was answered 202."""

    status: Literal["succeeded", "failed"]
    result: Annotated[Any, Field(description="Anything; what is no text is kept as JSON.")] = None
    error: Line | None = None
    retry: bool = Field(default=True, description="false: do not try again, whatever max_retries says.")


def result_text(result: Any) -> str | None:
    return result if result is None or isinstance(result, str) else json.dumps(result, ensure_ascii=False)


# -- output --


class LogPiece(Shape):
    """A stretch of one stream. Bytes that are not UTF-8 are shown as U+FFFD."""

    attempt: int
    stream: str = Field(examples=["stdout"])
    position: int = Field(
        description="At which byte it begins; what lies before it and is not here was dropped."
    )
    length: int = Field(description="How many bytes it is long.")
    text: str


class Log(Shape):
    """What a job printed, from `after` on."""

    items: list[LogPiece]
    total: int
    is_over: bool = Field(description="The job has ended: no more will come.")
    next_after: str = Field(description="The `after` of the next request; the same when nothing was new.")


def positions_in(text: str | None) -> Positions:
    """The positions that an `after` says."""
    found = read_positions(text)
    if found is None:
        raise RefusedError(
            422, "after is the next_after of an answer before.", faults=[("after", "is no position")]
        )
    return found
