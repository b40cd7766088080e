"""How many slots of many schedules come in each part of a span: what `outlook.coming_slots` enumerates, counted.

Counting is arithmetic. Schedules that are declared alike have one calendar, whose slots are counted once for all of
them; those of one interval are counted together by where in the interval each begins. So the time depends on how many
different times there are, and not on how often they fire. A single schedule is looked at only where it matters: for
slots whose jitter may reach over the edge of a part, and for those that a closed time holds until it ends.

Breakers and budgets are left out: for how long they keep slots from firing is not known.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from everwhen.model.calendar import Calendar
from everwhen.model.instants import SECOND
from everwhen.model.queries import ComingSchedules
from everwhen.model.schedule import Plan
from everwhen.timetable.jitter import jitter_offset_ms
from everwhen.timetable.trigger import Every
from everwhen.timetable.windows import ClosedTimes

UPCOMING, SKIPPED = "upcoming", "skipped"
MILLISECOND = 1_000
# It takes as long to count the slots of a part as to look at so many: of a calendar, and of intervals.
WORTH_OF_CALENDAR, WORTH_OF_INTERVAL = 30, 4


class Cell(NamedTuple):
    """The slots of one stretch that share a fate."""

    stretch: int
    word: str


class _ClosedRun(NamedTuple):
    """A time in which something closes a schedule throughout, and its opening; None: there is none in sight."""

    start: int
    opening: int | None


class _Parts:
    """The span in parts in which all slots share a fate: part i reaches from edge i to the next edge.

    `slots` has the number of each. `width`: of all parts, if only the last may be shorter.
    """

    __slots__ = ("cells", "edges", "runs", "slots", "width")

    def __init__(
        self, edges: list[int], cells: list[Cell], runs: list[_ClosedRun], width: int | None = None
    ) -> None:
        self.edges, self.cells, self.runs, self.width = edges, cells, runs, width
        self.slots = [0] * len(cells)

    def part_at(self, instant: int) -> int:
        """Return the number of a part; before and behind the span it is one that `is_inside` refuses."""
        return bisect_right(self.edges, instant) - 1

    def is_inside(self, part: int) -> bool:
        return 0 <= part < len(self.cells)


class _PutOffSlot(NamedTuple):
    """A slot whose jitter window reaches over an edge: in which part it is due depends on its schedule."""

    slot_at: int
    window: int


class ComingCounts:
    """The slots that are due in [start, end), counted by stretches of `width` and by what will become of them.

    `is_paused`: the system is, so that nothing fires.
    """

    def __init__(self, start: int, end: int, width: int | None = None, *, is_paused: bool = False) -> None:
        self._start, self._end, self._width = start, end, width or end - start
        self._is_paused = is_paused
        self._parts: dict[tuple[ClosedTimes, frozenset[str]], _Parts] = {}
        self._held: Counter[Cell] = Counter()  # slots that count as upcoming and not as skipped

    @property
    def counts(self) -> Counter[Cell]:
        """Return the numbers of all that was added."""
        counts = Counter(self._held)
        for parts in self._parts.values():
            for cell, slots in zip(parts.cells, parts.slots, strict=True):
                counts[cell] += slots
        return +counts

    def add(self, plan: Plan, schedules: ComingSchedules) -> list[int]:
        """Count the slots of schedules that have the times of this plan; return how many each of them has."""
        if isinstance(plan.definition.trigger, Every):
            return _Intervals(self, plan, plan.definition.trigger.seconds * SECOND, schedules).count()
        names, numbers = schedules.schedule_ids(), [0] * len(schedules.rows)
        alike: dict[tuple[int | None, int], list[int]] = defaultdict(list)
        for position, start in enumerate(schedules.starts()):
            alike[start].append(position)
        for (anchor_at, first), positions in alike.items():
            own_names = [names[position] for position in positions]
            series = _Series(self, plan, plan.calendar(anchor_at), first=first, names=own_names)
            for position, number in zip(positions, series.count(), strict=True):
                numbers[position] = number
        return numbers

    def hold(self, plan: Plan, calendar: Calendar, run: _ClosedRun, due_at: int, slots: int = 1) -> None:
        """Count the last slots of a closed time as upcoming, if they lie in the span and are held until the opening."""
        parts = self.parts_of(plan, calendar.closed_times)
        part = parts.part_at(due_at)
        if due_at < run.start or not parts.is_inside(part):
            return
        if calendar.closed_reason(due_at) in plan.defers:
            cell = parts.cells[part]
            self._held[cell] -= slots
            self._held[Cell(cell.stretch, UPCOMING)] += slots

    def parts_of(self, plan: Plan, closed: ClosedTimes) -> _Parts:
        # No slot of a chain is replaced by the next one: each is held.
        held = plan.defers if plan.definition.is_chain else frozenset[str]()
        parts = self._parts.get((closed, held))
        if parts is None:
            parts = self._parts[closed, held] = self._make_parts(closed, held)
        return parts

    def _make_parts(self, closed: ClosedTimes, held: frozenset[str]) -> _Parts:
        stretches = [*range(self._start, self._end, self._width), self._end]
        if self._is_paused or closed == ClosedTimes():
            word = SKIPPED if self._is_paused else UPCOMING
            cells = [Cell(number, word) for number in range(len(stretches) - 1)]
            return _Parts(stretches, cells, [], self._width)
        words: dict[int, str] = {}  # by the instant from which on they hold
        runs: list[_ClosedRun] = []
        is_closed, second = False, self._start // SECOND
        while second * SECOND < self._end:
            begin, reason = max(second * SECOND, self._start), closed.reason_at(second)
            opening = None if reason is None else closed.opening_from(second)
            if reason is not None and not is_closed:
                runs.append(_ClosedRun(begin, None if opening is None else opening * SECOND))
            is_closed = reason is not None
            is_held = reason in held and opening is not None
            words[begin] = SKIPPED if is_closed and not is_held else UPCOMING
            second = closed.steady_until(second)
        edges, cells, word = sorted({*stretches, *words}), [], UPCOMING
        for edge in edges[:-1]:
            word = words.get(edge, word)
            cells.append(Cell((edge - self._start) // self._width, word))
        return _Parts(edges, cells, runs)


class _Series:
    """The slots of one calendar, from the first one on, of all schedules that share them."""

    def __init__(
        self, counts: ComingCounts, plan: Plan, calendar: Calendar, *, first: int, names: Sequence[str]
    ) -> None:
        self._counts, self._plan, self._calendar = counts, plan, calendar
        self._first, self._names = first + calendar.fraction, names  # a one-shot is counted where it is due
        self._parts = counts.parts_of(plan, calendar.closed_times)
        self._jitter = calendar.jitter - calendar.fraction
        # The first slot is the one on the row, which counts also where newer zone data would move it.
        begin = self._parts.edges[0] - self._jitter
        self._has_first = begin <= self._first < self._parts.edges[-1]
        self._further = max(begin, first + SECOND)

    def count(self) -> list[int]:
        most = WORTH_OF_CALENDAR * len(self._parts.edges)
        slots = self._list_slots(most + 1)
        shared, put_off = self._look_at(slots) if len(slots) <= most else self._count_parts()
        for part, number in shared.items():
            self._parts.slots[part] += number * len(self._names)
        numbers = [shared.total()] * len(self._names)
        if put_off:
            numbers = [shared.total() + self._count_put_off(name, put_off) for name in self._names]
        if self._plan.defers:
            self._count_held()
        return numbers

    def _list_slots(self, most: int) -> list[int]:
        """Return the first slots that may be due in the span."""
        begin, end = -(-self._further // SECOND), -(-self._parts.edges[-1] // SECOND)
        slots = [second * SECOND for second in self._calendar.slots.between(begin, end, most)]
        return [self._first, *slots] if self._has_first else slots

    def _look_at(self, slots: Sequence[int]) -> tuple[Counter[int], list[_PutOffSlot]]:
        edges, shared, put_off = self._parts.edges, Counter[int](), []
        for slot_at in slots:
            part = bisect_right(edges, slot_at) - 1
            if self._jitter and self._reaches(slot_at, edges[part + 1]):
                put_off.append(_PutOffSlot(slot_at, self._window(slot_at)))
            elif part >= 0:
                shared[part] += 1
        return shared, put_off

    def _count_parts(self) -> tuple[Counter[int], list[_PutOffSlot]]:
        edges, shared, put_off = self._parts.edges, Counter[int](), []
        for part, (begin, end) in enumerate(pairwise(edges)):
            shared[part] = self._count_further(begin, end)
        if self._has_first and self._first >= edges[0]:
            shared[self._parts.part_at(self._first)] += 1
        since = edges[0] - self._jitter
        for edge in edges if self._jitter else ():
            slot_at = self._last_before(edge)
            if slot_at is not None and slot_at >= since and self._reaches(slot_at, edge):
                put_off.append(_PutOffSlot(slot_at, self._window(slot_at)))
                if slot_at >= edges[0]:
                    shared[self._parts.part_at(slot_at)] -= 1
            since = edge
        return shared, put_off

    def _count_further(self, start: int, end: int) -> int:
        """Return how many slots behind the first one lie in [start, end)."""
        start = max(start, self._further)
        return self._calendar.slots.count_between(-(-start // SECOND), -(-end // SECOND))

    def _reaches(self, slot_at: int, edge: int) -> bool:
        """Return whether the jitter of a slot may move it to an edge behind it, or beyond."""
        return slot_at + self._jitter > edge and slot_at + self._window(slot_at) - MILLISECOND >= edge

    def _count_put_off(self, name: str, put_off: Sequence[_PutOffSlot]) -> int:
        """Count the slots of a schedule whose part its jitter decides; return how many of them lie in the span."""
        number = 0
        for slot in put_off:
            part = self._parts.part_at(_due_at(name, slot.slot_at, slot.window))
            if self._parts.is_inside(part):
                self._parts.slots[part] += 1
                number += 1
        return number

    def _count_held(self) -> None:
        """Count the slots that closed times hold; without jitter those of all schedules are due together."""
        groups = [(name, 1) for name in self._names] if self._jitter else [(self._names[0], len(self._names))]
        for run in self._parts.runs:
            for name, slots in groups:
                due_at = None if run.opening is None else self._find_held(name, run.opening)
                if due_at is not None:
                    self._counts.hold(self._plan, self._calendar, run, due_at, slots)

    def _find_held(self, name: str, opening: int) -> int | None:
        """Return when the last slot before an opening is due, unless another slot is due when it comes."""
        slot_at, following_at = self._last_before(opening), None
        while slot_at is not None and (due_at := self._due_at(name, slot_at)) >= opening:
            slot_at, following_at = self._last_before(slot_at), due_at
        if slot_at is None:
            return None
        if following_at is None:
            following = self._calendar.next_after(slot_at)
            following_at = None if following is None else self._due_at(name, following)
        is_replaced = following_at is not None and following_at <= opening
        return None if is_replaced else self._due_at(name, slot_at)

    def _due_at(self, name: str, slot_at: int) -> int:
        return _due_at(name, slot_at, self._window(slot_at)) if self._jitter else slot_at

    def _window(self, slot_at: int) -> int:
        following = self._calendar.next_after(slot_at)
        return self._jitter if following is None else min(self._jitter, following - slot_at)

    def _last_before(self, instant: int) -> int | None:
        """Return the last slot before an instant; there is none before the first one."""
        slot_at = self._calendar.last_until(instant - 1)
        if slot_at is not None and slot_at > self._first:
            return slot_at
        return self._first if self._first < instant else None


class _Intervals:
    """The slots of schedules with one interval, each from its own first slot on.

    Before an instant all of them together have so many slots: each one for every whole interval since its first slot,
    and one more if its place in the interval, its phase, has been passed. Phases are sorted, so that this takes a
    division and a search.
    """

    def __init__(self, counts: ComingCounts, plan: Plan, interval: int, schedules: ComingSchedules) -> None:
        self._counts, self._plan, self._interval = counts, plan, interval
        self._calendar = calendar = plan.calendar(None)
        self._parts = counts.parts_of(plan, calendar.closed_times)
        # The slots of a chain are counted from when they are due: its jitter moves all of them alike.
        self._jitter = 0 if calendar.is_chain else calendar.jitter
        end = self._parts.edges[-1]
        self._ends_at = None if calendar.is_chain else calendar.slots.end_at * SECOND
        self._until = end if self._ends_at is None else min(end, self._ends_at)
        self._names = schedules.schedule_ids() if self._jitter else []
        self._begin = begin = self._parts.edges[0] - self._jitter
        # Of each the first slot that may be due in the span.
        self._firsts = [
            first if first >= begin else first + -(-(begin - first) // interval) * interval
            for first in (schedules.dues() if calendar.is_chain else schedules.slots())
        ]

    def count(self) -> list[int]:
        start = min(self._parts.edges[0], self._until)
        # At most one lies before the span, and is counted where its jitter moves it inside.
        self._numbers = [
            len(range(first, self._until, self._interval)) - (first < start) for first in self._firsts
        ]
        if sum(self._numbers) <= WORTH_OF_INTERVAL * len(self._parts.edges):
            self._look_at_each()
        else:
            self._count_parts()
        if self._plan.defers and not self._calendar.is_chain:
            self._count_held()
        return self._numbers

    def _look_at_each(self) -> None:
        parts, until, interval = self._parts, self._until, self._interval
        edges, slots = parts.edges, parts.slots
        if parts.width is not None and not self._jitter:  # the usual case, without a search
            start, width = edges[0], parts.width
            for first in self._firsts:
                for slot_at in range(first, until, interval):
                    slots[(slot_at - start) // width] += 1
            return
        for member, first in enumerate(self._firsts):
            for slot_at in range(first, until, interval):
                part = bisect_right(edges, slot_at) - 1
                if part >= 0:
                    slots[part] += 1
                if self._jitter and slot_at + self._jitter - MILLISECOND >= edges[part + 1]:
                    self._put_off(member, slot_at, part)

    def _count_parts(self) -> None:
        cycles: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for member, first in enumerate(self._firsts):
            cycle, phase = divmod(first - self._begin, self._interval)
            cycles[cycle].append((phase, member))
        for cycle, members in cycles.items():
            members.sort()
            self._count_cycle(self._begin + cycle * self._interval, members)

    def _count_cycle(self, begin: int, members: list[tuple[int, int]]) -> None:
        """Count the slots of schedules whose first slots lie in the interval that begins then."""
        phases, edges = [phase for phase, _ in members], self._parts.edges
        before = self._count_before(edges[0], begin, phases)
        for part, edge in enumerate(edges[1:]):
            until = self._count_before(edge, begin, phases)
            self._parts.slots[part] += until - before
            before = until
        since = self._begin
        for part, edge in enumerate(edges if self._jitter else (), -1):
            since = max(edge - self._jitter + MILLISECOND, since, begin)
            for slot_at, member in self._list_slots(since, min(edge, self._until), begin, members):
                self._put_off(member, slot_at, part)
            since = edge

    def _count_before(self, instant: int, begin: int, phases: list[int]) -> int:
        elapsed = min(instant, self._until) - begin
        if elapsed <= 0:
            return 0
        intervals, phase = divmod(elapsed, self._interval)
        return intervals * len(phases) + bisect_left(phases, phase)

    def _list_slots(
        self, since: int, until: int, begin: int, members: list[tuple[int, int]]
    ) -> Iterator[tuple[int, int]]:
        """Yield the slots in [since, until), which is shorter than the interval, each with its schedule."""
        intervals, phase = divmod(since - begin, self._interval)
        position = bisect_left(members, (phase, 0))
        for offset in range(len(members)):
            cycle, place = divmod(position + offset, len(members))
            phase, member = members[place]
            slot_at = begin + (intervals + cycle) * self._interval + phase
            if slot_at >= until:
                return
            yield slot_at, member

    def _put_off(self, member: int, slot_at: int, part: int) -> None:
        """Count a slot of a part where its jitter moves it, which may be outside of the span."""
        due_part = self._parts.part_at(self._due_at(member, slot_at))
        for moved, slots in ((part, -1), (due_part, 1)) if due_part != part else ():
            if self._parts.is_inside(moved):
                self._parts.slots[moved] += slots
                self._numbers[member] += slots

    def _count_held(self) -> None:
        for run in self._parts.runs:
            for member in range(len(self._firsts)):
                due_at = None if run.opening is None else self._find_held(member, run.opening)
                if due_at is not None:
                    self._counts.hold(self._plan, self._calendar, run, due_at)

    def _find_held(self, member: int, opening: int) -> int | None:
        """Return when the last slot before an opening is due, unless another slot is due when it comes."""
        first, bound = self._firsts[member], opening if self._ends_at is None else min(opening, self._ends_at)
        slot_at = first + (bound - 1 - first) // self._interval * self._interval
        if self._due_at(member, slot_at) >= opening:
            slot_at -= self._interval
        following = slot_at + self._interval
        is_last = self._ends_at is not None and following >= self._ends_at
        if slot_at < first or (not is_last and self._due_at(member, following) <= opening):
            return None
        return self._due_at(member, slot_at)

    def _due_at(self, member: int, slot_at: int) -> int:
        return _due_at(self._names[member], slot_at, self._jitter) if self._jitter else slot_at


def _due_at(name: str, slot_at: int, window: int) -> int:
    return slot_at + jitter_offset_ms(name, slot_at // SECOND, window // MILLISECOND) * MILLISECOND
