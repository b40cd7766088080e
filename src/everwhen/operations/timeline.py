"""The timeline of past and future: jobs, skips and misses from the ledger, upcoming slots from calendars.

The work is bounded, whatever the span and the number of schedules: above 10,000 bars the past is counted by
stretches, and the future ends at the instant at which that many are reached. With `rare`, a schedule with more bars
than that in the span is only counted, and so the slots of a whole week are listed completely.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Literal, NamedTuple, get_args

from everwhen.decide.outlook import Conditions
from everwhen.errors import TimetableError
from everwhen.model.events import Event, EventType
from everwhen.model.history import STARTS
from everwhen.model.instants import DAY, SECOND
from everwhen.model.job import FAILURES, JobStatus
from everwhen.model.queries import Entry, EventFilter, ScheduleFilter, TimelineJob
from everwhen.model.schedule import Schedule, State
from everwhen.operations.recent import Recent, recent_of
from everwhen.operations.system import is_alive
from everwhen.operations.upcoming import UpcomingSlot, coming, conditions_of, in_order
from everwhen.runtime import Runtime
from everwhen.store.opened import store_of

MOST_BARS = 10_000
STRETCHES = 200
MOST_STRETCHES = 1_000
LONGEST = 400 * DAY
MOST_ROWS = 200
MOST_SPANS = 200
MOST_SWITCHES = 1_000
MOST_HELD = 1_000
MOST_CLOSED = 60  # closed times that are listed for one row
MOST_NAMED = 1_000  # schedules that match a filter and are then read by their uid
MOST_COUNTED = 200_000  # slots of dense schedules that are counted one by one

# What begins and ends the times in which nothing fires: of the whole system, and of one schedule.
_SWITCHES: frozenset[EventType] = frozenset(("scheduler.started", "system.paused", "system.resumed"))
_PAUSES: frozenset[EventType] = STARTS | {"schedule.paused"}

Kind = Literal["job", "skipped", "missed", "held", "upcoming"]
SpanKind = Literal["down", "paused"]


class Bar(NamedTuple):
    """One slot: what happened to it, or what will."""

    kind: Kind
    schedule_id: str
    slot_at: int
    due_at: int
    slots: int = 1  # that one event covers
    reason: str | None = None
    job: TimelineJob | None = None
    is_estimate: bool = False
    is_skipped: bool = False  # of an upcoming slot: it will be
    since: int | None = None  # of a held slot

    @property
    def word(self) -> str:
        """Return what it is counted as: a job by its status."""
        return self.kind if self.job is None else self.job.status


class Stretch(NamedTuple):
    """A part of the span, with the number of entries by kind; of jobs, by status."""

    start: int
    end: int
    counts: dict[str, int]


class SilentSpan(NamedTuple):
    """A time in which nothing could fire: no scheduler was there (`down`), or the system was paused."""

    kind: SpanKind
    start: int
    end: int | None = None  # None: it lasts


class ClosedSpan(NamedTuple):
    """A time in which a schedule fires nothing."""

    start: int
    end: int
    reason: str


class PausedSpan(NamedTuple):
    """A time in which a schedule was paused; one that began earlier begins with the span of the line."""

    start: int
    end: int | None = None  # None: it lasts


@dataclass(frozen=True, slots=True)
class TimelineRow:
    """One schedule of the line, with how many bars it has of each kind."""

    entry: Entry
    counts: dict[str, int]
    recent: Recent
    closed: list[ClosedSpan]
    pauses: list[PausedSpan]


@dataclass(slots=True)
class Timeline:
    """Bars, or their numbers (`stretches`). `complete_until`: the end of the part of the future that is included.

    `schedule_count`: how many schedules have bars in the span; `rows` are some of them, and unless `rare` is given,
    only their bars are there. `total`: how many bars were found.
    """

    now: int
    bars: list[Bar]
    stretches: list[Stretch]
    complete_until: int
    is_aggregated: bool = False
    rows: list[TimelineRow] = field(default_factory=list)
    schedule_count: int = 0
    spans: list[SilentSpan] = field(default_factory=list)
    total: int = 0


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
        self._start, self._end, self._wanted = start, end, wanted
        self._now = runtime.clock.now()
        self._past_end = min(end, self._now + 1)
        self._dense: Counter[tuple[int, str]] = Counter()  # by stretch and word, beyond the bars
        self._dense_rows: dict[str, Counter[str]] = defaultdict(Counter)
        self._width = wanted.width or -(-(end - start) // STRETCHES)
        self._uids = self._find_uids()
        self._schedules = self._narrowed()
        self._names: set[str] = set()  # of schedules whose jobs are only counted
        self._is_counted = False  # the database counts the jobs of the span
        self._switches: list[Event] = []  # newest first: what began and ended times without firings

    def read(self) -> Timeline:
        future, complete_until = self._future()
        held = self._held()
        waiting = {(bar.schedule_id, bar.slot_at) for bar in held}
        future = [bar for bar in future if (bar.schedule_id, bar.slot_at) not in waiting]
        bars = self._rare_ones(self._past() + held + future)
        is_aggregated = len(bars) > MOST_BARS or (self._is_counted and self._wanted.rare is None)
        self._is_counted = self._is_counted or is_aggregated
        if not is_aggregated:
            bars.sort(key=lambda bar: (bar.due_at, bar.schedule_id))
        found = Timeline(self._now, bars, [], complete_until, is_aggregated, spans=self._spans())
        if is_aggregated or self._wanted.width is not None:
            found.stretches.extend(self._stretches(bars))
        found.total = sum(sum(one.counts.values()) for one in found.stretches) if is_aggregated else len(bars)
        self._add_rows(found)
        if is_aggregated:
            bars.clear()
        elif self._wanted.rows and self._wanted.rare is None and len(found.rows) < found.schedule_count:
            shown = {row.entry.schedule.state.schedule_id for row in found.rows}
            found.bars = [bar for bar in bars if bar.schedule_id in shown]
        return found

    # -- the past --

    def _past(self) -> list[Bar]:
        return self._jobs() + self._skipped() + self._gathered()

    def _jobs(self) -> list[Bar]:
        """Return the bars of jobs; none where there are so many that all of them are only counted."""
        ledger, span = self._store.ledger, (self._start, self._past_end, self._schedules)
        counts_all = self._wanted.rare is None or (self._wanted.rare == 0 and not self._wanted.rows)
        if counts_all and ledger.count_jobs_between(*span, most=MOST_BARS + 1) > MOST_BARS:
            self._is_counted, self._names = True, ledger.names_between(*span, limit=MOST_BARS + 1)
            return []
        return [
            Bar("job", job.schedule_id, job.slot_at, job.due_at, reason=job.reason, job=job)
            for job in ledger.jobs_between(*span, limit=MOST_BARS + 1)
        ]

    def _rare_ones(self, bars: list[Bar]) -> list[Bar]:
        """Return the bars of schedules that have few of them; those of the others are counted."""
        if self._wanted.rare is None:
            return bars
        numbers = Counter(bar.schedule_id for bar in bars)
        dense = self._dense_rows.keys() | {name for name in numbers if numbers[name] > self._wanted.rare}
        for bar in bars:
            if bar.schedule_id in dense:
                self._count(bar.schedule_id, bar.word, bar.due_at, bar.slots)
        return [bar for bar in bars if bar.schedule_id not in dense]

    def _skipped(self) -> list[Bar]:
        wanted = EventFilter(
            types=("schedule.skipped", "schedule.missed"), since=self._start, until=self._past_end
        )
        owner, uids = self._wanted.schedules.owner, self._uids
        found = []
        for recorded in self._store.ledger.events(wanted, limit=MOST_BARS + 1):
            event = recorded.event
            if (uids is not None and event.uid not in uids) or owner not in (None, event.owner):
                continue
            kind: Kind = "skipped" if event.type == "schedule.skipped" else "missed"
            slot_at = event.slot_at if event.slot_at is not None else event.at
            name = event.schedule_id or ""
            found.append(Bar(kind, name, slot_at, slot_at, event.slot_count, reason=event.reason))
        return found

    def _gathered(self) -> list[Bar]:
        """Return the skips that no event records yet: of each schedule one bar, at the last of them."""
        found = self._store.catalogue.gathered_skips(
            self._schedules, self._start, self._past_end, limit=MOST_BARS
        )
        return [
            Bar(
                "skipped",
                one.schedule_id,
                one.skip_last_at,
                one.skip_last_at,
                one.skip_count,
                reason=one.skip_reason,
            )
            for one in found
        ]

    def _find_uids(self) -> set[str] | None:
        """Return the schedules that are wanted; None: all, or all of an owner, who is on record in every event."""
        wanted = self._wanted.schedules
        is_any = wanted == ScheduleFilter(owner=wanted.owner)
        return None if is_any else self._store.catalogue.uids(wanted, most=100 * MOST_BARS)

    def _narrowed(self) -> ScheduleFilter:
        """Return a filter by uid, where few match: the columns of most filters have no index."""
        if self._uids is None or len(self._uids) > MOST_NAMED:
            return self._wanted.schedules
        return ScheduleFilter(uids=self._uids)

    def _held(self) -> list[Bar]:
        """Return the slots that wait now."""
        if not self._start <= self._now < self._end:
            return []
        return [
            Bar("held", hold.schedule_id, hold.slot_at, hold.due_at, reason=hold.reason, since=hold.since)
            for hold in self._store.catalogue.holds(self._schedules, limit=MOST_HELD)
        ]

    # -- the future --

    def _future(self) -> tuple[list[Bar], int]:
        """Return the first upcoming slots in order, also undecided ones that are due, and until when they are
        complete.

        Only the schedules that are due soonest are read. If there are more, the slots of the others begin where the
        first of those is due, and up to there nothing is missing.
        """
        catalogue, wanted, end = self._store.catalogue, self._schedules, self._end
        soonest = catalogue.soonest(MOST_BARS + 1, wanted, before=end)
        if not soonest:
            return [], end  # nearly always a span of the past
        if len(soonest) > MOST_BARS:
            end = min(end, soonest.pop().state.next_run_at or end)
        conditions = conditions_of(self._runtime, soonest)
        if self._wanted.rare is not None:
            return self._rare_future(soonest, conditions, end)
        slots = in_order(soonest, conditions, self._start, end)
        found = [_upcoming(slot) for slot in islice(slots, MOST_BARS + 1)]
        return found, found[-1].due_at if len(found) > MOST_BARS else end

    def _rare_future(
        self, soonest: list[Schedule], conditions: Conditions, end: int
    ) -> tuple[list[Bar], int]:
        """Do the same, but count schedules that fire often: the soonest first, until they are too many."""
        found: list[Bar] = []
        left, rare = MOST_COUNTED, self._wanted.rare or 0
        for schedule in soonest:
            slots = coming(schedule, conditions, self._start, end)
            first = [slot for slot in islice(slots, rare + 1) if slot.hold_reason is None]
            if len(first) <= rare:
                found += map(_upcoming, first)
                continue
            if left <= 0 or len(found) > MOST_BARS:
                return found, schedule.state.next_run_at or end
            left -= self._count_slots(schedule, max(first[0].slot_at, self._start), end, left)
        return found, end

    def _count_slots(self, schedule: Schedule, start: int, end: int, most: int) -> int:
        """Count the slots of a schedule that fires often, without looking at each; those of closed times are
        skips."""
        state = schedule.state
        calendar = schedule.plan.calendar(state.anchor_at)
        seconds = calendar.slots.between(start // SECOND, end // SECOND, most)
        for reason, slots in calendar.runs([second * SECOND for second in seconds]):
            word = "upcoming" if reason is None else "skipped"
            for slot_at in slots:
                self._count(state.schedule_id, word, slot_at, 1)
        return len(seconds)

    def _count(self, schedule_id: str, word: str, at: int, slots: int) -> None:
        self._dense[(at - self._start) // self._width, word] += slots
        self._dense_rows[schedule_id][word] += slots

    # -- what stands beside the bars --

    def _stretches(self, bars: list[Bar]) -> list[Stretch]:
        """Count by stretches: the database counts jobs where not all are among the bars, the rest comes from these."""
        number_of = -(-(self._end - self._start) // self._width)
        counts: list[Counter[str]] = [Counter() for _ in range(number_of)]
        if self._is_counted:
            for found in self._store.ledger.job_counts(
                self._start, self._past_end, self._schedules, width=self._width
            ):
                counts[found.stretch][found.status] += found.jobs
        for bar in bars:
            number = (bar.due_at - self._start) // self._width
            if (bar.kind != "job" or not self._is_counted) and 0 <= number < number_of:
                counts[number][bar.word] += bar.slots
        for (number, word), slots in self._dense.items():
            if 0 <= number < number_of and not (self._is_counted and word in _OF_JOBS):
                counts[number][word] += slots
        edges = range(self._start, self._end, self._width)
        return [
            Stretch(edge, min(edge + self._width, self._end), dict(found))
            for edge, found in zip(edges, counts, strict=True)
        ]

    def _spans(self) -> list[SilentSpan]:
        types = _SWITCHES | _PAUSES if self._wanted.rows else _SWITCHES
        wanted = EventFilter(types=types, since=self._start)
        self._switches = [each.event for each in self._store.ledger.events(wanted, limit=MOST_SWITCHES)]
        # A caller who is confined to an owner does not see what happens to the service.
        downtimes = self._downtimes() if self._wanted.schedules.owner is None else ()
        return sorted([*downtimes, *self._system_pauses()], key=lambda span: span.start)[-MOST_SPANS:]

    def _downtimes(self) -> Iterator[SilentSpan]:
        for event in self._switches:
            heard_of = event.detail.get("last_heartbeat_at")
            if event.type != "scheduler.started" or not isinstance(heard_of, int):
                continue
            if self._start < event.at and heard_of < self._end:
                yield SilentSpan("down", heard_of, event.at)
        schedulers = [node for node in self._store.upkeep.nodes() if node.is_scheduler]
        if schedulers and not any(is_alive(node, self._now) for node in schedulers):
            last = max(node.stopped_at or node.heartbeat_at for node in schedulers)
            if last < min(self._end, self._now):
                yield SilentSpan("down", last)

    def _system_pauses(self) -> Iterator[SilentSpan]:
        """Pair the switches of the system; one that is on now may have been switched before the span."""
        paused_at = self._store.catalogue.system_paused_at()
        if paused_at is not None and paused_at < self._end:
            yield SilentSpan("paused", paused_at)
        ends_at: int | None = None
        for event in self._switches:
            if event.type == "system.resumed":
                ends_at = event.at
            elif event.type == "system.paused" and ends_at is not None and event.at < self._end:
                yield SilentSpan("paused", event.at, ends_at)
                ends_at = None
        if ends_at is not None:
            yield SilentSpan("paused", self._start, ends_at)

    def _pauses(self, state: State) -> Iterator[PausedSpan]:
        """Yield when a schedule was paused, newest first."""
        is_paused, ends_at = state.status == "paused", None
        for event in self._switches:
            if event.uid != state.uid or event.type not in _PAUSES:
                continue
            if event.type != "schedule.paused":
                is_paused, ends_at = True, event.at
            elif is_paused:
                if event.at < self._end:
                    yield PausedSpan(event.at, ends_at)
                is_paused = False
        if is_paused:
            yield PausedSpan(self._start, ends_at)

    def _add_rows(self, found: Timeline) -> None:
        """Add the rows that a person wants to see: what runs, waits or went wrong first, then what is due soonest."""
        names = {bar.schedule_id for bar in found.bars}
        found.schedule_count = len(names | self._dense_rows.keys() | self._names)
        if not self._wanted.rows or found.is_aggregated:
            return
        counts: dict[str, Counter[str]] = defaultdict(Counter, self._dense_rows)
        for bar in found.bars:
            counts[bar.schedule_id][bar.word] += bar.slots
        chosen = sorted(counts, key=lambda name: (-_interest(counts[name]), sum(counts[name].values()), name))
        chosen = chosen[: self._wanted.rows]
        entries = self._store.catalogue.entries_of(chosen)
        recent = recent_of(self._runtime, [entry.schedule.state for entry in entries])
        for entry in entries:
            state = entry.schedule.state
            found.rows.append(
                TimelineRow(
                    entry,
                    dict(counts[state.schedule_id]),
                    recent[state.uid],
                    list(self._closed(entry.schedule)),
                    list(self._pauses(state)),
                )
            )

    def _closed(self, schedule: Schedule) -> Iterator[ClosedSpan]:
        """Yield the times of the span in which a schedule fires nothing."""
        closed = schedule.plan.calendar(schedule.state.anchor_at).closed_times
        at, end = self._start // SECOND, self._end // SECOND
        for _ in range(MOST_CLOSED):
            if at >= end:
                return
            reason, until = closed.reason_at(at), min(closed.steady_until(at), end)
            if reason is not None:
                yield ClosedSpan(at * SECOND, until * SECOND, reason)
            at = max(until, at + 1)


def _upcoming(slot: UpcomingSlot) -> Bar:
    return Bar(
        "upcoming",
        slot.schedule_id,
        slot.slot_at,
        slot.due_at,
        reason=slot.skip_reason or slot.hold_reason,
        is_estimate=slot.is_estimate,
        is_skipped=slot.skip_reason is not None,
    )


_OF_JOBS = frozenset[str](get_args(JobStatus))
_OF_NOTE = frozenset(("running", "queued", "held", "missed", *FAILURES))


def _interest(counts: Counter[str]) -> int:
    """Return how much a person wants to see a row: 2 for what runs or went wrong, 1 for what was skipped."""
    return 2 if _OF_NOTE & counts.keys() else 1 if "skipped" in counts else 0
