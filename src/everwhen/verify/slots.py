"""The match of a period's slots with its entries, for slots on a grid or in a calendar.

Slots with an entry of their own are crossed off. The others must be counted by range events, each of which covers its
number of slots somewhere between its ends. Ranges may be nested (open time around closed times), so slots are assigned
piece by piece, to the range that ends first.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Generator, Iterator, Sequence
from heapq import heappop, heappush
from itertools import islice, pairwise
from typing import NamedTuple

from everwhen.model.calendar import MANY, Calendar
from everwhen.model.history import ScheduleHistory
from everwhen.model.instants import SECOND
from everwhen.model.schedule import State
from everwhen.timetable.interval import IntervalSeries
from everwhen.timetable.trigger import OnRequest
from everwhen.verify.counters import JobCounts
from everwhen.verify.entries import EXAMPLES, Entries, LedgerFault, Range, fault_of, range_faults
from everwhen.verify.periods import Period, SystemSpan, delayed, first_instant


class Piece(NamedTuple):
    """The time from start to end (exclusive), in which `free` slots have no entry of their own."""

    start: int
    end: int
    free: int
    is_optional: bool


def check_grid(
    history: ScheduleHistory,
    period: Period,
    entries: Entries,
    spans: Sequence[SystemSpan],
    decided_until: int | None,
    counts: JobCounts,
) -> Generator[LedgerFault, None, int | None]:
    """Match one period; return the last slot that it decided, or else `decided_until`."""
    calendar = period.plan.calendar(period.anchor_at)
    if calendar.fraction:
        period, spans = delayed(period, spans, calendar.fraction)
    first = first_instant(period)
    if decided_until is not None:
        first = max(first, decided_until + 1)
    if period.is_open:
        yield from _check_next(history, period, calendar, first)
    spans = [s for s in spans if s.begun_id < period.closed_by and s.closed_by > period.begun_id]
    slots = _without_spans(
        _slots(history, period, calendar, first, entries=entries, spans=spans), period, entries, spans
    )
    if slots:
        marks = entries.take(slots)
        counts.slots += len(slots)
        yield from _check_jobs(history, calendar, marks, entries)
        yield from _check_ranges(history, period, slots, marks, entries=entries, spans=spans)
    return slots[-1] if slots else decided_until


def slots_between(calendar: Calendar, first: int, last: int) -> Sequence[int]:
    """Return the slots from first to last; an interval's as a range, because a year of seconds is too long a list."""
    occurrences = calendar.slots
    start, end = -(-first // SECOND), last // SECOND + 1
    if not isinstance(occurrences.series, IntervalSeries):
        return [second * SECOND for second in occurrences.between(start, end, MANY)]
    beginning = occurrences.next_after(start - 1)
    if beginning is None:
        return ()
    step = occurrences.series.interval * SECOND
    return range(beginning * SECOND, min(end, occurrences.end_at) * SECOND, step)


def _slots(
    history: ScheduleHistory,
    period: Period,
    calendar: Calendar,
    first: int,
    entries: Entries,
    spans: Sequence[SystemSpan],
) -> Sequence[int]:
    """Return the slots that must have been decided: up to the end of the period, or up to the row's next slot."""
    if period.is_open:
        state = history.state
        if state is not None and state.next_slot_at is not None:
            return slots_between(calendar, first, state.next_slot_at - 1)
        return slots_between(calendar, first, max(period.now, period.reach))
    ahead = _decided_ahead(period, calendar, first, entries, spans)
    if period.is_void:
        return ahead
    slots = slots_between(calendar, first, period.until)
    return [*slots, *ahead] if ahead else slots


def _without_spans(
    slots: Sequence[int], period: Period, entries: Entries, spans: Sequence[SystemSpan]
) -> Sequence[int]:
    """Leave out the slots inside a span of the system, which need no entry.

    Those that have one stay: a pause by a person during the span gives them one. A job inside the span is not such an
    entry, unless the clock was put back to before the span.
    """
    for span in spans:
        start, end = bisect_right(slots, span.after), bisect_right(slots, span.until)
        if start < end:
            inside = [s for s in slots[start:end] if entries.has(s, period, jobs=s <= span.reach)]
            slots = [*slots[:start], *inside, *slots[end:]]
    return slots


def _decided_ahead(
    period: Period, calendar: Calendar, first: int, entries: Entries, spans: Sequence[SystemSpan]
) -> list[int]:
    """Return the slots beyond the end of the period that were decided before the clock was put back."""
    found: list[int] = []
    until = period.begun_at if period.is_void else period.reach
    slot_at = calendar.first_from(first if period.is_void else max(first, period.until + 1))
    while slot_at is not None and slot_at <= until:
        if entries.has(slot_at, period):
            found.append(slot_at)
        elif slot_at >= entries.known_from and not any(s.after < slot_at <= s.until for s in spans):
            break
        slot_at = calendar.next_after(slot_at)
    return found


def _check_next(
    history: ScheduleHistory, period: Period, calendar: Calendar, first: int
) -> Iterator[LedgerFault]:
    """Check that the row's next slot is a slot, is not decided yet, and has the right due_at."""
    state = history.state
    if state is None:
        return
    slot_at = state.next_slot_at
    if slot_at is None:
        if isinstance(period.plan.definition.trigger, OnRequest):
            return
        if (following := calendar.next_after(max(period.now, period.reach, first - 1))) is not None:
            sentence = "the schedule is active, and its row knows no next slot"
            yield fault_of(history, "state", following, sentence)
        return
    if slot_at < first:
        sentence = f"the row's next slot lies before {first}: it was decided before"
        yield fault_of(history, "state", slot_at, sentence)
    elif calendar.first_from(slot_at) != slot_at:
        yield fault_of(history, "state", slot_at, "the row's next slot is none")
    elif state.next_run_at != calendar.due_at(slot_at):
        sentence = f"the row says it is due at {state.next_run_at}, not at {calendar.due_at(slot_at)}"
        yield fault_of(history, "state", slot_at, sentence)


def _check_jobs(
    history: ScheduleHistory, calendar: Calendar, marks: Sequence[int], entries: Entries
) -> Iterator[LedgerFault]:
    """Check that each job has the due_at of its slot."""
    has_jitter = calendar.jitter > 0
    jobs = entries.jobs
    for slot_at in marks:
        job = jobs.get(slot_at)
        if job is not None and job.due_at != (calendar.due_at(slot_at) if has_jitter else slot_at):
            sentence = f"its job says due at {job.due_at}, not {calendar.due_at(slot_at)}"
            yield fault_of(history, "job", slot_at, sentence)


def _check_ranges(
    history: ScheduleHistory,
    period: Period,
    slots: Sequence[int],
    marks: Sequence[int],
    entries: Entries,
    spans: Sequence[SystemSpan],
) -> Iterator[LedgerFault]:
    ranges = entries.take_ranges(period.begun_id, period.closed_by)
    pending = _pending(history.state, slots, marks) if period.is_open else None
    if len(slots) == len(marks) + (pending is not None) and not ranges:
        return
    taken = sorted([*marks, pending]) if pending is not None else marks
    pieces = list(_pieces(slots, taken, ranges, spans))
    left = [r.slot_count for r in ranges]
    for piece in _deal([p for p in pieces if not p.is_optional], ranges, left):
        yield from _lost(history, piece, slots, taken)
    for _ in _deal([p for p in pieces if p.is_optional], ranges, left):
        pass  # slots inside a span of the system need no entry
    yield from range_faults(history, ranges, left)


def _pending(state: State | None, slots: Sequence[int], marks: Sequence[int]) -> int | None:
    """Return the held slot, which has no entry yet and needs none."""
    held = None if state is None else state.held_slot_at
    if held is None:
        return None
    at = bisect_left(slots, held)
    if at == len(slots) or slots[at] != held:
        return None
    at = bisect_left(marks, held)
    return None if at < len(marks) and marks[at] == held else held


def _pieces(
    slots: Sequence[int], taken: Sequence[int], ranges: Sequence[Range], spans: Sequence[SystemSpan]
) -> Iterator[Piece]:
    low, high = slots[0], slots[-1] + 1
    edges = {low, high}
    edges.update(r.first for r in ranges)
    edges.update(r.last + 1 for r in ranges)
    edges.update(span.after + 1 for span in spans)
    edges.update(span.until + 1 for span in spans)
    for start, end in pairwise(sorted(edge for edge in edges if low <= edge <= high)):
        free = bisect_left(slots, end) - bisect_left(slots, start)
        free -= bisect_left(taken, end) - bisect_left(taken, start)
        if free:
            yield Piece(start, end, free, any(s.after < start and end - 1 <= s.until for s in spans))


def _deal(pieces: Sequence[Piece], ranges: Sequence[Range], left: list[int]) -> Iterator[Piece]:
    """Assign free slots to the ranges around them, to the one that ends first; yield those that no range counts."""
    order = sorted(range(len(ranges)), key=lambda n: ranges[n].first)
    waiting: list[tuple[int, int]] = []
    position = 0
    for piece in pieces:
        while position < len(order) and ranges[order[position]].first <= piece.start:
            heappush(waiting, (ranges[order[position]].last, order[position]))
            position += 1
        free = piece.free
        while free and waiting:
            last, number = waiting[0]
            if last < piece.start or not left[number]:
                heappop(waiting)
                continue
            dealt = min(free, left[number])
            left[number] -= dealt
            free -= dealt
        if free:
            yield piece._replace(free=free)


def _lost(
    history: ScheduleHistory, piece: Piece, slots: Sequence[int], taken: Sequence[int]
) -> Iterator[LedgerFault]:
    start, end = bisect_left(slots, piece.start), bisect_left(slots, piece.end)
    known = set(taken[bisect_left(taken, piece.start) : bisect_left(taken, piece.end)])
    without = (slots[n] for n in range(start, end) if slots[n] not in known)
    for slot_at in islice(without, min(piece.free, EXAMPLES)):
        yield fault_of(history, "lost", slot_at, "it came due, and has no entry")
    if piece.free > EXAMPLES:
        sentence = f"and {piece.free - EXAMPLES} more until {piece.end - 1}"
        yield fault_of(history, "lost", piece.start, sentence)
