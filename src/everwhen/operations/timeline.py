"""The timeline of past and future: jobs, skips and misses from the ledger, upcoming slots from calendars.

Everything in the span is counted, and so much of it is listed as 10,000 bars are: of all schedules where they have no
more, else of those that have the fewest. So what is rare is never hidden by what fires often, and what is not listed is
in the numbers: of all schedules by stretches, and of the schedules in `rows`, which a person wants to see.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import NamedTuple

from everwhen.errors import TimetableError
from everwhen.model.instants import DAY
from everwhen.model.job import FAILURES
from everwhen.model.queries import Entry, ScheduleFilter
from everwhen.operations.recent import Recent, recent_of
from everwhen.operations.timeline_bars import MOST_BARS, Bar, Counts, Stretches
from everwhen.operations.timeline_future import TimelineFuture, correct_passing, starts_before
from everwhen.operations.timeline_past import TimelinePast
from everwhen.operations.timeline_ranking import MOST_NAMED, Ranking
from everwhen.operations.timeline_spans import (
    ClosedSpan,
    PausedSpan,
    SilentSpan,
    SpansWithoutFirings,
)
from everwhen.runtime import Runtime
from everwhen.store.opened import store_of

STRETCHES = 200
MOST_STRETCHES = 1_000
LONGEST = 400 * DAY
MOST_ROWS = 200


class Stretch(NamedTuple):
    """A part of the span, with the number of slots by word: jobs by status."""

    start: int
    end: int
    counts: dict[str, int]


@dataclass(frozen=True, slots=True)
class TimelineRow:
    """One schedule of the line, with how many slots it has of each word; by stretches, if its bars are not listed."""

    entry: Entry
    counts: dict[str, int]
    stretches: list[Stretch]
    is_listed: bool
    recent: Recent
    closed: list[ClosedSpan]
    pauses: list[PausedSpan]


@dataclass(slots=True)
class Timeline:
    """Bars, and the numbers of slots by stretches.

    `is_aggregated`: there are more bars than are listed. `total`: how many slots there are; `schedule_count`: of how
    many schedules. `unlisted_…`: how many of them have no bars here. `uncounted`: how many records of slots that did
    not fire are too many to be looked at, and so in no number.
    """

    now: int
    complete_until: int
    bars: list[Bar] = field(default_factory=list)
    stretches: list[Stretch] = field(default_factory=list)
    is_aggregated: bool = False
    rows: list[TimelineRow] = field(default_factory=list)
    schedule_count: int = 0
    spans: list[SilentSpan] = field(default_factory=list)
    total: int = 0
    unlisted_schedules: int = 0
    unlisted_slots: int = 0
    uncounted: int = 0


class TimelineQuery(NamedTuple):
    """What is asked for: of which schedules, how many rows, stretches of which width, and what counts as rare."""

    schedules: ScheduleFilter = ScheduleFilter()
    rows: int = 0
    width: int | None = None
    rare: int | None = None


EVERYTHING = TimelineQuery()


def timeline(runtime: Runtime, start: int, end: int, wanted: TimelineQuery = EVERYTHING) -> Timeline:
    """Return the span [start, end) of the schedules that match."""
    if not 0 < end - start <= LONGEST:
        raise TimetableError("to must be after from, by at most 400 days", key="to", value=end)
    if wanted.width is not None and not 0 < (end - start) / wanted.width <= MOST_STRETCHES:
        raise TimetableError(
            f"stretch must divide the span into {MOST_STRETCHES} parts at most",
            key="stretch",
            value=wanted.width,
        )
    return _Line(runtime, start, end, wanted).read()


class _Line:
    """One request for a span."""

    def __init__(self, runtime: Runtime, start: int, end: int, wanted: TimelineQuery) -> None:
        self._runtime, self._store = runtime, store_of(runtime)
        self._wanted = wanted
        self._span = Stretches(start, end, wanted.width or -(-(end - start) // STRETCHES))
        schedules = self._narrowed()
        self._past = TimelinePast(runtime, self._span, schedules)
        self._future = TimelineFuture(runtime, self._span, schedules)

    def _narrowed(self) -> ScheduleFilter:
        """Return a filter by uid, where few schedules match: the columns of most filters have no index."""
        wanted = self._wanted.schedules
        if wanted == ScheduleFilter(
            owner=wanted.owner
        ):  # all, or all of an owner, who is on record in every event
            return wanted
        uids = self._store.catalogue.uids(wanted, most=MOST_NAMED + 1)
        return wanted if len(uids) > MOST_NAMED else ScheduleFilter(uids=uids)

    def read(self) -> Timeline:
        ranking = self._rank()
        listed = ranking.choose_listed()
        bars = self._read_bars(listed)
        counts = self._past.counts()
        counts.update(self._future.counts)
        correct_passing(counts, self._span, bars)
        total = counts.total()
        line = Timeline(
            self._runtime.clock.now(),
            self._span.end,
            bars,
            is_aggregated=ranking.exceeds,
            schedule_count=ranking.schedule_count,
            total=total,
            unlisted_schedules=ranking.schedule_count - len(listed),
            unlisted_slots=total - sum(bar.slots for bar in bars),
            uncounted=self._past.uncounted,
        )
        if line.is_aggregated or self._wanted.width is not None:
            line.stretches = _stretches(self._span, counts)
        spans = SpansWithoutFirings(
            self._runtime, self._span.start, self._span.end, with_pauses=bool(self._wanted.rows)
        )
        line.spans = spans.silent(self._wanted.schedules.owner)
        line.rows = self._make_rows([row.uid for row in ranking.choose_rows()], bars, listed, spans)
        return line

    # -- which schedules are listed --

    def _rank(self) -> Ranking:
        """Count the slots to come, and rank the schedules by how many bars they have."""
        what = (self._wanted.rows, self._wanted.rare, self._attention())
        if self._past.is_counted and self._span.end > self._runtime.clock.now():
            return self._rank_roughly(Ranking(*what, other_bars=MOST_BARS + 1))
        ranking, past = Ranking(*what), self._past.numbers()
        for schedules, numbers in self._future.count():
            if past:
                numbers = [
                    number + past.pop(uid, 0)
                    for number, (uid, _) in zip(numbers, schedules.names(), strict=True)
                ]
            ranking.add(schedules.names, numbers)
        ids = {bar.uid: bar.schedule_id for bar in self._past.bars()}
        ranking.add(lambda: [(uid, ids.get(uid, "")) for uid in past], list(past.values()))
        return ranking

    def _rank_roughly(self, ranking: Ranking) -> Ranking:
        """Do it where the past is too much to be counted for each schedule: those with few slots to come are rare."""
        for schedules, numbers in self._future.count():
            ranking.add(schedules.names, numbers)
        fired = self._store.catalogue.fired_since(
            self._wanted.schedules, self._span.start, before=self._span.end
        )
        # Each has a bar in the past at least; how many is counted below, for those that may be chosen.
        past = [*fired, *self._find_not_fired({uid for uid, _ in fired})]
        ranking.add(lambda: past, [1] * len(past))
        further = self._past.numbers(ranking.uids)
        further.subtract(uid for uid, _ in past)
        ranking.add_bars(further)
        return ranking

    def _find_not_fired(self, fired: Collection[str]) -> list[tuple[str, str]]:
        """Return the schedules, also deleted ones, of which only slots that did not fire lie in the span."""
        ids = self._past.not_fired()
        for schedule in self._store.catalogue.of_uids(ids.keys() - fired):
            if starts_before(schedule, self._span.end):
                del ids[schedule.state.uid]
        return [(uid, schedule_id) for uid, schedule_id in ids.items() if uid not in fired]

    def _attention(self) -> dict[str, int]:
        """Return 0 for what runs, waits or went wrong, 1 for what was skipped, by uid."""
        if not self._wanted.rows:
            return {}
        attention: dict[str, int] = {}
        for bar in self._past.bars():
            rank = 0 if bar.word in _OF_NOTE else 1 if bar.word == "skipped" else 2
            attention[bar.uid] = min(rank, attention.get(bar.uid, 2))
        if self._past.is_counted:
            uids = self._store.catalogue.needing_attention(self._wanted.schedules, most=MOST_ROWS)
            attention.update(dict.fromkeys(uids, 0))
        return attention

    def _read_bars(self, listed: Collection[str]) -> list[Bar]:
        bars = self._past.bars(listed)
        bars += self._future.bars(self._store.catalogue.of_uids(listed))
        return sorted(bars, key=lambda bar: (bar.due_at, bar.schedule_id))

    # -- rows --

    def _make_rows(
        self,
        uids: list[str],
        bars: list[Bar],
        listed: Collection[str],
        spans: SpansWithoutFirings,
    ) -> list[TimelineRow]:
        """Return what a person wants to see of each of these schedules; those that are deleted have no row."""
        entries = self._store.catalogue.entries_of_uids(uids)
        recent = recent_of(self._runtime, [entry.schedule.state for entry in entries])
        numbers = self._count_rows(entries, bars, listed)
        rows = []
        for entry in entries:
            schedule, uid = entry.schedule, entry.schedule.state.uid
            closed, pauses = list(spans.closed(schedule)), list(spans.pauses(schedule.state))
            rows.append(TimelineRow(entry, *numbers[uid], uid in listed, recent[uid], closed, pauses))
        return rows

    def _count_rows(
        self, entries: list[Entry], bars: list[Bar], listed: Collection[str]
    ) -> dict[str, tuple[dict[str, int], list[Stretch]]]:
        """Return the numbers of each row by word, and those by stretches where its bars are not listed."""
        words: dict[str, Counter[str]] = defaultdict(Counter)
        for bar in bars:
            words[bar.uid][bar.word] += bar.slots
        numbers = {uid: (dict(words[uid]), list[Stretch]()) for uid in listed}
        counted = {
            entry.schedule.state.uid: entry.schedule
            for entry in entries
            if entry.schedule.state.uid not in listed
        }
        # All rows together have no more stretches than a line has bars.
        parts = max(min(STRETCHES, MOST_BARS // max(len(counted), 1)), 1)
        span = self._span._replace(width=-(-(self._span.end - self._span.start) // parts))
        past = self._past.counts_of_each(counted.keys(), span)
        for uid, schedule in counted.items():
            counts = past[uid] + self._future.counts_of(schedule, span)
            stretches = [stretch for stretch in _stretches(span, counts) if stretch.counts]
            numbers[uid] = (_by_word(counts), stretches)
        return numbers


def _by_word(counts: Counts) -> dict[str, int]:
    words = Counter[str]()
    for cell, slots in counts.items():
        words[cell.word] += slots
    return dict(words)


def _stretches(span: Stretches, counts: Counts) -> list[Stretch]:
    by_stretch: dict[int, dict[str, int]] = defaultdict(dict)
    for cell, slots in counts.items():
        if slots:
            by_stretch[cell.stretch][cell.word] = slots
    edges = range(span.start, span.end, span.width)
    return [
        Stretch(edge, min(edge + span.width, span.end), by_stretch[number])
        for number, edge in enumerate(edges)
    ]


_OF_NOTE = frozenset(("running", "queued", "held", "missed", *FAILURES))
