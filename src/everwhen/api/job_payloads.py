"""The shapes of answers and bodies about jobs, and the output of a job by portions."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from everwhen.api.payloads import Line, Object, Shape, When, when_text
from everwhen.api.problems import RefusedError
from everwhen.model.bound_queue import plain_queue
from everwhen.model.delivery import Delivery
from everwhen.model.job import Job as ModelJob
from everwhen.model.job import JobStatus, Origin
from everwhen.model.output import OutputPiece
from everwhen.model.policy import IfRunning
from everwhen.ports.ledger import JobPage

# How far of each stream somebody has read: bytes by attempt and stream.
Positions = dict[tuple[int, str], int]
_POSITION = re.compile(r"([0-9]{1,9})\.([a-z]{1,20})\.([0-9]{1,15})")


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


_JOB = "schedule_id uid number retry attempt origin status queue reason error result".split()


_JOB_INSTANTS = "slot_at due_at not_before created_at started_at ended_at deadline_at".split()


def job_to_json(job: ModelJob) -> Object:
    return {
        "id": job.job_id,
        **{name: getattr(job, name) for name in _JOB},
        **{name: when_text(getattr(job, name)) for name in _JOB_INSTANTS},
        "queue": plain_queue(job.queue),
        "payload": None if job.payload is None else json.loads(job.payload),
    }


def job_in_detail(job: ModelJob, sent: Delivery | None) -> Object:
    return {
        **job_to_json(job),
        "handed_over_at": None if sent is None else when_text(sent.handed_over_at),
        "delivery": None if sent is None else sent.number,
    }


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


def page_to_json(page: JobPage, next_cursor: str | None) -> Object:
    return {
        "items": [job_to_json(job) for job in page.jobs],
        "total": page.total,
        "total_is_approximate": page.is_approximate,
        "next_cursor": next_cursor,
    }


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


def log_items(pieces: Sequence[OutputPiece], seen: Positions, *, is_over: bool) -> list[Object]:
    """What is new of each stream; a character of which only a part is there waits for its rest."""
    found: list[Object] = []
    last = {(piece.stream.attempt, piece.stream.stream): number for number, piece in enumerate(pieces)}
    for number, piece in enumerate(pieces):
        key = (piece.stream.attempt, piece.stream.stream)
        begin = max(piece.position, seen.get(key, 0))
        data = piece.data[begin - piece.position :]
        if number == last[key] and not is_over:
            data = data[: len(data) - _incomplete(data)]
        if not data:
            continue
        seen[key] = begin + len(data)
        previous = found[-1] if found else None
        if previous is not None and previous["key"] == key and previous["end"] == begin:
            previous["data"] += data
            previous["end"] += len(data)
        else:
            found.append({"key": key, "position": begin, "data": data, "end": begin + len(data)})
    return [
        {
            "attempt": one["key"][0],
            "stream": one["key"][1],
            "position": one["position"],
            "length": len(one["data"]),
            "text": one["data"].decode(errors="replace"),
        }
        for one in found
    ]


def _incomplete(data: bytes) -> int:
    """How many bytes at the end begin a character that is not all there."""
    for length in range(1, min(3, len(data)) + 1):
        byte = data[-length]
        if byte >= 0xC0:
            needed = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return length if length < needed else 0
        if byte < 0x80:
            return 0
    return 0


def log_text(items: Sequence[Object]) -> str:
    """The same for a terminal: streams one after another, each under its name where there are several."""
    kinds = {_stream(item) for item in items}
    lines: list[str] = []
    previous: Object | None = None
    for item in items:
        if previous is None or _stream(item) != _stream(previous):
            heading = f"{_break(lines)}== attempt {item['attempt']}, {item['stream']} ==\n"
            lines += [heading] if len(kinds) > 1 else []
        elif missing := item["position"] - previous["position"] - previous["length"]:
            lines.append(f"\n… {missing} bytes are not kept …\n")
        lines.append(item["text"])
        previous = item
    return "".join(lines)


def _stream(item: Object) -> tuple[int, str]:
    return item["attempt"], item["stream"]


def _break(lines: list[str]) -> str:
    return "\n" if lines and not lines[-1].endswith("\n") else ""


def positions_text(seen: Positions) -> str:
    text = ",".join(f"{attempt}.{stream}.{position}" for (attempt, stream), position in sorted(seen.items()))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def positions_in(text: str | None) -> Positions:
    """The positions that an `after` says."""
    if not text:
        return {}
    try:
        plain = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True).decode()
        parts = [_POSITION.fullmatch(part) for part in plain.split(",")]
        return {(int(part[1]), part[2]): int(part[3]) for part in parts}  # type: ignore[index]
    except (ValueError, TypeError):
        raise RefusedError(
            422, "after is the next_after of an answer before.", faults=[("after", "is no position")]
        ) from None
