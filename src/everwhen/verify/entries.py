"""The entries of a ledger: which slots have a job or an event of their own, and which share a range event."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from everwhen.model.history import OF_SLOTS, ScheduleHistory
from everwhen.model.job import Job
from everwhen.verify.periods import Period

Kind = Literal["lost", "doubled", "extra", "range", "state", "counter", "job", "breaker", "reason"]

EXAMPLES = 20
ON_THE_ROW = (1 << 62) - 1  # greater than every event id


class LedgerFault(NamedTuple):
    """One fault, described in a sentence."""

    kind: Kind
    uid: str
    schedule_id: str
    slot_at: int | None
    sentence: str


def fault_of(history: ScheduleHistory, kind: Kind, slot_at: int | None, sentence: str) -> LedgerFault:
    return LedgerFault(kind, history.uid, history.schedule_id, slot_at, sentence)


def count_faults(
    history: ScheduleHistory, word: str, on_row: object, counted: object
) -> Iterator[LedgerFault]:
    if on_row != counted:
        yield fault_of(history, "counter", None, f"{word}: the row says {on_row}, the jobs make {counted}")


class Range(NamedTuple):
    """`slot_count` slots without an entry of their own, somewhere from first to last. `id`: that of its event."""

    first: int
    last: int
    slot_count: int
    id: int
    fields: str


class SlotJob(NamedTuple):
    """What is kept of a slot's job; `ended_at` is the end of its last attempt, None while that is outstanding."""

    revision: int
    due_at: int
    ended_at: int | None


@dataclass(slots=True)
class Entries:
    """All entries of one history. `marks` are the slots with an entry of their own, in order.

    `known_from`: retention may have deleted the entries of slots before it.
    """

    known_from: int = 0

    jobs: dict[int, SlotJob] = field(default_factory=dict)
    events: dict[int, tuple[int, int]] = field(default_factory=dict)  # slot → id and instant of its event
    ranges: list[Range] = field(default_factory=list)
    marks: list[int] = field(default_factory=list)
    _left: set[int] = field(default_factory=set)  # marks that no period has taken
    _ranges_left: set[int] = field(default_factory=set)  # ids
    _doubled: list[tuple[int, str]] = field(default_factory=list)
    _caught_up: dict[str, int] = field(default_factory=dict)  # catch-up jobs, by id

    def add_job(self, job: Job) -> None:
        ended_at = None if job.is_outstanding else job.ended_at
        if job.origin in ("schedule", "catch_up"):
            if job.slot_at in self.jobs:
                self._doubled.append((job.slot_at, f"it has two jobs, one of them {job.job_id}"))
            self.jobs[job.slot_at] = SlotJob(job.revision, job.due_at, ended_at)
            if job.origin == "catch_up":
                self._caught_up[job.job_id] = job.slot_at
        elif job.origin == "retry" and job.slot_at in self.jobs:
            # Jobs come in the order of their rows, and attempts of a slot one after another.
            self.jobs[job.slot_at] = self.jobs[job.slot_at]._replace(ended_at=ended_at)

    def add_event(self, slot_at: int, event_id: int, at: int, fields: str) -> None:
        if slot_at in self.events:
            self._doubled.append((slot_at, f"it has two events, one of them “{fields}”"))
        elif slot_at in self.jobs:
            self._doubled.append((slot_at, f"it has a job and the event “{fields}”"))
        self.events[slot_at] = (event_id, at)

    def close(self) -> None:
        """Index the entries, once all are added."""
        self.marks = sorted(self.jobs.keys() | self.events.keys())
        self._left = set(self.marks)
        self._ranges_left = {r.id for r in self.ranges}

    def is_caught_up(self, job_id: str | None) -> bool:
        """Return whether the job has origin catch_up: then its slot is one of those that its event counts."""
        return job_id in self._caught_up

    def has(self, slot_at: int, period: Period, *, jobs: bool = True) -> bool:
        """Return whether an entry of the slot may belong to the period: committed by its end, of no later revision."""
        job = self.jobs.get(slot_at) if jobs else None
        if job is not None and job.revision <= period.last_revision:
            return True
        before = period.closed_by
        if self.events.get(slot_at, (before, 0))[0] < before:
            return True
        return any(r.first <= slot_at <= r.last and r.id < before for r in self.ranges)

    def is_within(self, slot_at: int, period: Period) -> bool:
        """Return whether the slot's entry was committed within the period, as far as the record shows."""
        job = self.jobs.get(slot_at)
        if job is not None:
            return period.revision <= job.revision <= period.last_revision
        return period.begun_id < self.events.get(slot_at, (0, 0))[0] < period.closed_by

    def between(self, first: int, last: int) -> list[int]:
        """Return the marks from first to last."""
        return self.marks[bisect_left(self.marks, first) : bisect_right(self.marks, last)]

    def take(self, slots: Sequence[int]) -> list[int]:
        """Take and return the slots that have an entry of their own, in order; a mark is taken once."""
        marks = self.between(slots[0], slots[-1])
        if len(marks) != len(slots) or marks != list(slots):
            known = slots if isinstance(slots, range) else set(slots)
            marks = [mark for mark in marks if mark in known]
        self._left.difference_update(marks)
        return marks

    def take_marks(self, marks: Sequence[int]) -> None:
        self._left.difference_update(marks)

    def take_ranges(self, after_id: int, before_id: int) -> list[Range]:
        """Take and return the ranges that were committed within a period."""
        found = [r for r in self.ranges if after_id < r.id < before_id]
        self._ranges_left.difference_update(r.id for r in found)
        return found

    def faults(self, history: ScheduleHistory) -> Iterator[LedgerFault]:
        for slot_at, sentence in self._doubled:
            yield fault_of(history, "doubled", slot_at, sentence)
        held = None if history.state is None else history.state.held_slot_at
        if held is not None and (held in self.jobs or held in self.events):
            yield fault_of(history, "doubled", held, "it has an entry, and is held on the row")

    def left(self, history: ScheduleHistory, since: int) -> Iterator[LedgerFault]:
        """Yield the entries that belong to no slot of any period. `since`: when the record begins to be complete."""
        slots = sorted(slot_at for slot_at in self._left if slot_at >= since)
        yield from extra_faults(history, slots, self, "no slot that was active then")
        for r in self.ranges:
            if r.id in self._ranges_left and r.last >= since:
                yield fault_of(history, "extra", r.first, f"{r.fields} lies in no active period")


def entries_of(history: ScheduleHistory, entries: Entries) -> Entries:
    """Add the events of a history, and the skips gathered on its row, to its entries; jobs were added before."""
    for recorded in history.events:
        event = recorded.event
        if event.type not in OF_SLOTS or event.slot_at is None or "origin" in event.detail:
            continue  # with an origin: a skipped request, not a slot
        fields = f"{event.type} {event.reason or ''}".strip()
        count = event.slot_count
        if event.type == "schedule.caught_up":
            count -= entries.is_caught_up(event.job_id)
            first, last = _ends(event.detail, event.slot_at)
            if count:
                entries.ranges.append(Range(first, last, count, recorded.id, fields))
        elif count == 1:
            entries.add_event(event.slot_at, recorded.id, event.at, fields)
        else:
            first, last = _ends(event.detail, event.slot_at)
            entries.ranges.append(Range(first, last, count, recorded.id, fields))
    state = history.state
    if state is not None and state.skip_count:
        assert state.skip_first_at is not None and state.skip_last_at is not None
        fields = f"{state.skip_count} skips gathered on the row"
        entries.ranges.append(
            Range(state.skip_first_at, state.skip_last_at, state.skip_count, ON_THE_ROW, fields)
        )
    entries.close()
    return entries


def extra_faults(
    history: ScheduleHistory, slots: Sequence[int], entries: Entries, why: str
) -> Iterator[LedgerFault]:
    for slot_at in slots[:EXAMPLES]:
        what = "a job" if slot_at in entries.jobs else "an event"
        yield fault_of(history, "extra", slot_at, f"it has {what}, and {why}")
    if len(slots) > EXAMPLES:
        sentence = f"and {len(slots) - EXAMPLES} more until {slots[-1]}"
        yield fault_of(history, "extra", slots[EXAMPLES], sentence)


def _ends(detail: object, slot_at: int) -> tuple[int, int]:
    first = detail.get("first", slot_at) if hasattr(detail, "get") else slot_at
    last = detail.get("last", slot_at) if hasattr(detail, "get") else slot_at
    return int(first), int(last)


def range_faults(
    history: ScheduleHistory, ranges: Sequence[Range], left: Sequence[int]
) -> Iterator[LedgerFault]:
    """Yield the ranges that count more slots than there are; `left`: how many more."""
    for r, too_many in zip(ranges, left, strict=True):
        if too_many:
            text = f"{r.fields} counts {r.slot_count} slots until {r.last}; {too_many} of them are not there"
            yield fault_of(history, "range", r.first, text)
