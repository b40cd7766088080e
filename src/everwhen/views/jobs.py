"""Jobs as they are answered, and the output of a job by portions."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from everwhen.model.cost import Cost, amount_number, reserved_in
from everwhen.model.job import CostSource, JobStatus, Origin
from everwhen.model.masks import masked
from everwhen.model.values import plain_queue
from everwhen.views.labels import Labelled, label_to_json
from everwhen.views.shape import Object, View, When, cursor_of, field, when_text

if TYPE_CHECKING:
    from everwhen.model import job as model
    from everwhen.model.outcome import OutputPiece
    from everwhen.model.queries import JobPage
    from everwhen.model.queue import Delivery
    from everwhen.operations.labels import LabelsByUid

# The bytes of each stream that a reader has seen, by attempt and stream.
Positions = dict[tuple[int, str], int]
_POSITION = re.compile(r"([0-9]{1,9})\.([a-z]{1,20})\.([0-9]{1,15})")


class JobCost(View):
    """An amount in a unit, which is never converted."""

    amount: float
    currency: str = field(examples=["USD"])

    @classmethod
    def of_job(cls, job: model.Job) -> Object | None:
        return cls._of_amount(job, job.cost_amount)

    @classmethod
    def reported_of_job(cls, job: model.Job) -> Object | None:
        return cls._of_amount(job, (job.cost_amount or 0) - job.estimated_cost or None)

    @classmethod
    def estimated_of_job(cls, job: model.Job) -> Object | None:
        return cls._of_amount(job, job.estimated_cost or None)

    @classmethod
    def _of_amount(cls, job: model.Job, amount: int | None) -> Object | None:
        return None if amount is None or job.cost_unit is None else cls.of_cost(Cost(amount, job.cost_unit))

    @classmethod
    def reserved_by(cls, job: model.Job) -> Object | None:
        """Return the estimate that its budgets hold for a job that has not ended; each holds the same in its unit."""
        reserved = reserved_in(job.cost_reserved).values() if job.is_outstanding else ()
        return cls.of_cost(max(reserved, default=None))

    @classmethod
    def of_cost(cls, cost: Cost | None) -> Object | None:
        return None if cost is None else cls.made(amount=amount_number(cost.amount), currency=cost.unit)


class Job(View):
    """One execution of a slot."""

    id: str = field("job_id")
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
    queue: str = field(via=plain_queue)
    payload: Object | None = field(
        via=lambda payload: masked(json.loads(payload)),
        about="What was given for this job alone, without its secrets; null: the schedule's.",
    )
    reason: str | None
    error: str | None = field(about="With its traceback, where it is an exception.")
    error_type: str | None = field(about="Of that exception, such as `ValueError`; null: it is none.")
    error_message: str | None = field(about="The error without type and traceback.")
    result: str | None
    cost: JobCost | None = field(
        JobCost.of_job, about="What all its attempts cost, reported and estimated; null: not known."
    )
    reported_cost: JobCost | None = field(
        JobCost.reported_of_job, about="What of it runs reported; null: nothing."
    )
    estimated_cost: JobCost | None = field(
        JobCost.estimated_of_job, about="What of it is estimated, for attempts that reported nothing."
    )
    cost_source: CostSource | None = field(
        about="Of its last attempt: reported by the run, or estimated where it reported nothing."
    )


class ListedJob(Labelled, Job):
    """A job, with the names and the zone of its schedule."""


class JobInDetail(ListedJob):
    """A job, and where it is while it waits."""

    handed_over_at: When | None = field(
        about="Since when RQ or Celery has the message about it; null: it waits for no message."
    )
    delivery: int | None = field(about="The number of that message.")
    reserved: JobCost | None = field(
        JobCost.reserved_by,
        about="What its budgets hold for it until it ends; null: none counts cost, or it has ended.",
    )


class Fired(View):
    """The job that a request made, or why there is none."""

    job: Job | None
    skipped: str | None = field("skip_reason", about="The reason of the skip.")
    warnings: list[str] = field(
        via=list,
        about="A sentence for the budget of a group or an owner that the job exceeds, and one for the revision that "
        "runs where the schedule waits for approval.",
    )


class JobList(View):
    """A page of jobs, newest first. While `next_cursor` is there, there may be more, also behind a short page."""

    items: list[ListedJob]
    total: int
    total_is_approximate: bool = field(
        "is_approximate", about="More than were counted: of 10,000 matches, or of the newest 200,000 jobs."
    )
    next_cursor: str | None = field("next_before", via=cursor_of)


def jobs_page(page: JobPage, labels: LabelsByUid) -> Object:
    items = [ListedJob.of(job, **label_to_json(labels.get(job.uid))) for job in page.jobs]
    return JobList.of(page, items=items)


def job_in_detail(job: model.Job, sent: Delivery | None, labels: LabelsByUid) -> Object:
    return JobInDetail.of(
        job,
        **label_to_json(labels.get(job.uid)),
        handed_over_at=None if sent is None else when_text(sent.handed_over_at),
        delivery=None if sent is None else sent.number,
    )


# -- output --


class LogPiece(View):
    """A stretch of one stream. Bytes that are not UTF-8 are shown as U+FFFD."""

    attempt: int
    stream: str = field(examples=["stdout"])
    position: int = field(about="At which byte it begins; what lies before it and is not here was dropped.")
    length: int = field(lambda piece: len(piece.data), about="How many bytes it is long.")
    text: str = field(lambda piece: piece.data.decode(errors="replace"))


class Log(View):
    """What a job printed, from `after` on."""

    items: list[LogPiece]
    total: int
    is_over: bool = field(about="The job has ended: no more will come.")
    next_after: str = field(about="The `after` of the next request; the same when nothing was new.")


def log_to_json(pieces: Sequence[OutputPiece], seen: Positions, *, is_over: bool) -> Object:
    """Return what is new of the output of a job, and move `seen` behind it."""
    items = [LogPiece.of(piece) for piece in _new_pieces(pieces, seen, is_over=is_over)]
    return Log.made(items=items, total=len(items), is_over=is_over, next_after=positions_text(seen))


@dataclass(slots=True)
class _Piece:
    """Bytes of one stream that follow each other."""

    attempt: int
    stream: str
    position: int
    data: bytes


def _new_pieces(pieces: Sequence[OutputPiece], seen: Positions, *, is_over: bool) -> list[_Piece]:
    """Return what is new of each stream; an incomplete character at its end waits for the rest of its bytes."""
    found: list[_Piece] = []
    last = {(piece.stream.attempt, piece.stream.stream): number for number, piece in enumerate(pieces)}
    for number, piece in enumerate(pieces):
        key = (piece.stream.attempt, piece.stream.stream)
        begin = max(piece.position, seen.get(key, 0))
        data = piece.data[begin - piece.position :]
        if number == last[key] and not is_over:
            data = data[: len(data) - _incomplete(data)]
        if not data:
            continue
        is_next = seen.get(key) == begin and found and (found[-1].attempt, found[-1].stream) == key
        seen[key] = begin + len(data)
        if is_next:
            found[-1].data += data
        else:
            found.append(_Piece(*key, begin, data))
    return found


def _incomplete(data: bytes) -> int:
    """Return how many bytes at the end belong to an incomplete character."""
    for length in range(1, min(3, len(data)) + 1):
        byte = data[-length]
        if byte >= 0xC0:
            needed = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return length if length < needed else 0
        if byte < 0x80:
            return 0
    return 0


def log_text(items: Sequence[Object]) -> str:
    """Return the same for a terminal: streams one after another, each under its name where there are several."""
    kinds = {_stream(item) for item in items}
    lines: list[str] = []
    previous: Object | None = None
    for item in items:
        if previous is None or _stream(item) != _stream(previous):
            gap = "\n" if lines and not lines[-1].endswith("\n") else ""
            heading = f"{gap}== attempt {item['attempt']}, {item['stream']} ==\n"
            lines += [heading] if len(kinds) > 1 else []
        elif missing := item["position"] - previous["position"] - previous["length"]:
            lines.append(f"\n… {missing} bytes are not kept …\n")
        lines.append(item["text"])
        previous = item
    return "".join(lines)


def _stream(item: Object) -> tuple[int, str]:
    return item["attempt"], item["stream"]


def positions_text(seen: Positions) -> str:
    text = ",".join(f"{attempt}.{stream}.{position}" for (attempt, stream), position in sorted(seen.items()))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def read_positions(text: str | None) -> Positions | None:
    """Return the positions in an `after`; None when it has none."""
    if not text:
        return {}
    try:
        plain = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True).decode()
        parts = [_POSITION.fullmatch(part) for part in plain.split(",")]
        return {(int(part[1]), part[2]): int(part[3]) for part in parts}  # type: ignore[index]
    except (ValueError, TypeError):
        return None
