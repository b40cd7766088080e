"""Completion chains: their slots are those that the recorded ends imply.

Within a period each slot follows from its predecessor: end + interval, where the end is that of the last attempt, or
due_at when there was no job. So the check follows the chain from entry to entry. The first slot of a period is fixed by
its creation, or by the run that was in flight; in the latter case only the order is checked.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Generator, Iterator, Sequence

from everwhen.model.history import ScheduleHistory
from everwhen.model.instants import SECOND
from everwhen.timetable.interval import chain_slot
from everwhen.timetable.trigger import Every
from everwhen.verify.counters import JobCounts
from everwhen.verify.entries import Entries, LedgerFault, Range, fault_of, range_faults
from everwhen.verify.periods import Period, SystemSpan, first_instant


def check_chain(
    history: ScheduleHistory,
    period: Period,
    entries: Entries,
    spans: Sequence[SystemSpan],
    decided_until: int | None,
    counts: JobCounts,
) -> Generator[LedgerFault, None, int | None]:
    """Check one period of a chain; return the last slot that it decided, or else `decided_until`."""
    first = first_instant(period)
    if period.begun_by == "schedule.updated":
        first = period.after  # a chain counted anew may have its slot at that instant
    # A run in flight may end after the clock went back, and the next slot counts from that end.
    first = min(first, period.earliest)
    if decided_until is not None:
        first = max(first, decided_until + 1)
    spans = [s for s in spans if s.begun_id < period.closed_by and s.closed_by > period.begun_id]
    if not period.is_steady:
        return (yield from _take_only(history, period, entries, decided_until, first=first, counts=counts))
    walk = _Walk(history, period, entries, spans)
    yield from walk.faults(first)
    counts.slots += walk.steps
    yield from _check_end(history, period, walk, entries, first)
    return decided_until if walk.last is None else walk.last


def _take_only(
    history: ScheduleHistory,
    period: Period,
    entries: Entries,
    decided_until: int | None,
    first: int,
    counts: JobCounts,
) -> Generator[LedgerFault, None, int | None]:
    """Count each entry once: after the clock went back, the record does not show which end preceded which slot."""
    marks = entries.between(first, max(period.until, period.reach))
    ranges = entries.take_ranges(period.begun_id, period.closed_by)
    own = [mark for mark in marks if entries.is_within(mark, period)]
    entries.take_marks(own)
    counts.slots += len(own) + sum(r.slot_count for r in ranges)
    yield from _check_row(history, period, first)
    return max([*own[-1:], *(r.last for r in ranges)], default=decided_until)


def _check_row(history: ScheduleHistory, period: Period, first: int) -> Iterator[LedgerFault]:
    """Check that an active chain has a future slot, a held one, or a run."""
    state = history.state
    if not period.is_open or state is None:
        return
    following = state.next_slot_at if state.held_slot_at is None else state.held_slot_at
    if following is None and state.outstanding == 0:
        yield fault_of(history, "state", None, "the chain has stopped: no slot, and no run")
    if following is not None and following < first:
        sentence = f"the row's next slot lies before {first}: it was decided before"
        yield fault_of(history, "state", following, sentence)


class _Walk:
    """The way from slot to slot. At its end `last` is the last slot with an entry, `following` the one it implies."""

    def __init__(
        self, history: ScheduleHistory, period: Period, entries: Entries, spans: Sequence[SystemSpan]
    ) -> None:
        self.last: int | None = None
        self.following: int | None = None
        self.steps = 0
        self._history = history
        self._stretch = period
        self._entries = entries
        self._spans = spans
        self._calendar = period.plan.calendar(period.anchor_at)

    def faults(self, first: int) -> Iterator[LedgerFault]:
        history, entries, period = self._history, self._entries, self._stretch
        # A chain counted anew by an edit may have its first slot at the very instant of the edit.
        found = entries.between(first, max(period.until, period.reach))
        marks = [mark for mark in found if entries.has(mark, period)]
        entries.take_marks(marks)
        ranges = sorted(entries.take_ranges(period.begun_id, period.closed_by))
        left = [r.slot_count for r in ranges]
        slot_at = _beginning(marks, ranges)
        if slot_at is None and period.is_open and period.begun_by == "schedule.created":
            self.following = self._calendar.first_from(first)
        while slot_at is not None:
            if not self._counts(slot_at, marks, ranges, left):
                self.following = slot_at
                later = _beginning(marks[bisect_right(marks, slot_at) :], _unspent(ranges, left, slot_at))
                if later is not None and not self.is_spanned(self.last or slot_at, later):
                    sentence = f"the ends on record imply {slot_at}, and it has no entry; the next is {later}"
                    yield fault_of(history, "lost", slot_at, sentence)
                slot_at = later
                continue
            self.steps += 1
            self.last = slot_at
            self.following = implied = self._implied(slot_at)
            early = _first_after(marks, slot_at)
            if early is not None and (implied is None or early < implied):
                if not self.is_spanned(slot_at, early):
                    sentence = f"after {slot_at} the next slot of the chain is {implied}"
                    yield fault_of(history, "extra", early, sentence)
                implied = early
            slot_at = implied
        yield from range_faults(history, ranges, left)

    def is_spanned(self, before: int, slot_at: int) -> bool:
        """Return whether a span of the system lies in between: then the chain was counted anew."""
        return any(
            min(span.after, span.until) < slot_at and max(span.after, span.until) > before
            for span in self._spans
        )

    @staticmethod
    def _counts(slot_at: int, marks: Sequence[int], ranges: Sequence[Range], left: list[int]) -> bool:
        """Return whether the slot has an entry of its own, or a place in a range, which is then taken."""
        at = bisect_right(marks, slot_at)
        if at and marks[at - 1] == slot_at:
            return True
        around = [n for n, r in enumerate(ranges) if r.first <= slot_at <= r.last and left[n]]
        if not around:
            return False
        left[min(around, key=lambda n: ranges[n].last)] -= 1
        return True

    def _implied(self, slot_at: int) -> int | None:
        """Return the slot that follows; None while the run has not ended, or when the chain is at its end."""
        job = self._entries.jobs.get(slot_at)
        ended_at = self._calendar.due_at(slot_at) if job is None else job.ended_at
        if ended_at is None:
            return None
        definition = self._stretch.plan.definition
        assert isinstance(definition.trigger, Every)
        second = chain_slot(
            ended_at=ended_at / SECOND,
            interval=definition.trigger.seconds,
            previous_slot_at=slot_at // SECOND,
        )
        second = max(second, definition.start_at or second)
        return None if definition.end_at is not None and second >= definition.end_at else second * SECOND


def _check_end(
    history: ScheduleHistory, period: Period, walk: _Walk, entries: Entries, first: int
) -> Iterator[LedgerFault]:
    """Check what follows the last slot: the row's next one, a held one, or nothing while a run is in flight."""
    state, implied = history.state, walk.following
    if not period.is_open or state is None:
        if walk.last is None or implied is None or period.is_void or implied > period.until:
            return
        # A slot that was ended by the same commit that stopped the schedule has no successor.
        is_ended = entries.events.get(walk.last, (0, 0))[1] == period.until
        if not is_ended and not walk.is_spanned(walk.last, period.until):
            sentence = "it was the chain's next when the schedule stopped, and has no entry"
            yield fault_of(history, "lost", implied, sentence)
        return
    yield from _check_row(history, period, first)
    following = state.next_slot_at if state.held_slot_at is None else state.held_slot_at
    if walk.last is None and period.begun_by != "schedule.created":
        return
    if following != implied and not walk.is_spanned(walk.last or first, following or implied or 0):
        sentence = f"the row's next slot is {following}, the ends on record imply {implied}"
        yield fault_of(history, "state", following, sentence)


def _beginning(marks: Sequence[int], ranges: Sequence[Range]) -> int | None:
    return min([*marks[:1], *(r.first for r in ranges)], default=None)


def _unspent(ranges: Sequence[Range], left: Sequence[int], after: int) -> list[Range]:
    return [r for r, count in zip(ranges, left, strict=True) if count == r.slot_count and r.first > after]


def _first_after(marks: Sequence[int], slot_at: int) -> int | None:
    at = bisect_right(marks, slot_at)
    return marks[at] if at < len(marks) else None
