"""The past of the timeline, from the record: jobs, slots that were skipped or missed, and slots that wait now.

Few enough, they are read as bars. Where they are more, the database counts them, of all schedules by stretches and of
each schedule in sum; the bars of single schedules are then read when it is known which are shown.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection
from heapq import nsmallest
from operator import itemgetter

from everwhen.decide.coming_counts import Cell
from everwhen.model.queries import GatheredSkips, ScheduleFilter, SlotsNotFired
from everwhen.model.slot_range import SlotRange
from everwhen.operations.timeline_bars import (
    MOST_BARS,
    MOST_RANGES,
    NOT_FIRED,
    Bar,
    Counts,
    Kind,
    Stretches,
    range_of,
)
from everwhen.runtime import Runtime
from everwhen.store.opened import store_of

MOST_ON_ROWS = 200_000  # schedules that hold a slot, or count skips on their row


class TimelinePast:
    """What is on record in a span of the schedules that match."""

    def __init__(self, runtime: Runtime, span: Stretches, wanted: ScheduleFilter) -> None:
        self._store, self._now = store_of(runtime), runtime.clock.now()
        self._span, self._wanted = span, wanted
        # A slot that is due now may be decided already.
        self._until = max(min(span.end, self._now + 1), span.start)
        self.uncounted = 0  # records that are too many to be looked at, and in no number
        self._on_rows = self._read_gathered() + self._read_held()
        self._jobs = self._read_jobs()
        self._jobs_of: list[Bar] | None = None  # of the schedules that may be listed, where not all are read
        self._skips = self._read_skips()

    def _read_jobs(self) -> list[Bar] | None:
        """Return the bars of all jobs; None: they are too many to be read."""
        span = (self._span.start, self._until, self._wanted)
        if self._store.ledger.count_jobs_between(*span, most=MOST_BARS + 1) > MOST_BARS:
            return None
        return self._list_jobs(self._wanted)

    def _list_jobs(self, wanted: ScheduleFilter) -> list[Bar]:
        return [
            Bar("job", job.uid, job.schedule_id, job.slot_at, job.due_at, reason=job.reason, job=job)
            for job in self._store.ledger.jobs_between(
                self._span.start, self._until, wanted, limit=MOST_BARS + 1
            )
        ]

    def _read_skips(self) -> list[Bar] | None:
        """Return the bars of all slots that did not fire; None: they are too many to be read."""
        events = self._list_skips(self._wanted)
        if len(events) > MOST_BARS:
            return None
        return self._bars_of_skips(events)

    def _list_skips(self, wanted: ScheduleFilter) -> list[SlotsNotFired]:
        return self._store.ledger.skips_between(self._span.start, self._until, wanted, limit=MOST_BARS + 1)

    def _bars_of_skips(self, events: Collection[SlotsNotFired]) -> list[Bar]:
        bars = []
        for event in events:
            slots = range_of(event)
            inside = None if slots is None else slots.within(self._span.start, self._until)
            if inside is not None:
                bar = _bar_of_range(NOT_FIRED[event.type], event, inside, event.reason)
                bars.append(bar._replace(is_caught_up=event.type == "schedule.caught_up"))
        return bars

    def _read_gathered(self) -> list[Bar]:
        """Return the skips that no event records yet: of each schedule one bar."""
        catalogue, limits = self._store.catalogue, (self._wanted, self._span.start, self._until)
        gathered = catalogue.gathered_skips(*limits, limit=MOST_ON_ROWS)
        if len(gathered) == MOST_ON_ROWS:
            self.uncounted += max(catalogue.gathered_number(*limits) - MOST_ON_ROWS, 0)
        return [bar for skips in gathered if (bar := self._bar_of_gathered(skips)) is not None]

    def _bar_of_gathered(self, skips: GatheredSkips) -> Bar | None:
        slots = SlotRange(skips.skip_first_at, skips.skip_last_at, skips.skip_count)
        inside = slots.within(self._span.start, self._until)
        if inside is None:
            return None
        return _bar_of_range("skipped", skips, inside, skips.skip_reason)

    def _read_held(self) -> list[Bar]:
        """Return the slots that wait now, and have waited in the span."""
        if self._now < self._span.start:
            return []
        holds = self._store.catalogue.holds(self._wanted, limit=MOST_ON_ROWS)
        inside = [hold for hold in holds if hold.due_at < self._span.end]
        if len(holds) == MOST_ON_ROWS:
            number = self._store.catalogue.hold_number(self._wanted, due_before=self._span.end)
            self.uncounted += max(number - len(inside), 0)
        return [
            Bar(
                "held",
                hold.uid,
                hold.schedule_id,
                hold.slot_at,
                hold.due_at,
                reason=hold.reason,
                since=hold.since,
            )
            for hold in inside
        ]

    # -- answers --

    @property
    def is_counted(self) -> bool:
        """Return whether there is more than is read as bars."""
        return self._jobs is None or self._skips is None

    def numbers(self, uids: Collection[str] | None = None) -> Counter[str]:
        """Return how many bars each of these schedules has, by uid; None: of all."""
        numbers = Counter(bar.uid for bar in self.bars() if uids is None or bar.uid in uids)
        wanted = self._wanted if uids is None else ScheduleFilter(uids=uids)
        if self._jobs is None and uids is not None:
            self._read_jobs_of(uids)
        if self._jobs_of is not None:
            numbers.update(bar.uid for bar in self._jobs_of)
        elif self._jobs is None:
            numbers.update(self._store.ledger.job_numbers(self._span.start, self._until, wanted))
        if self._skips is None:
            numbers.update(self._store.ledger.skip_numbers(self._span.start, self._until, wanted))
        return numbers

    def not_fired(self) -> dict[str, str]:
        """Return the schedules of slots that did not fire or wait, by uid, with their ids as far as bars name them."""
        ids = {bar.uid: bar.schedule_id for bar in (*self._on_rows, *(self._skips or ()))}
        if self._skips is None:
            numbers = self._store.ledger.skip_numbers(self._span.start, self._until, self._wanted)
            rarest = nsmallest(MOST_BARS, numbers.items(), key=itemgetter(1))
            ids = {**{uid: "" for uid, _ in rarest}, **ids}
        return ids

    def _read_jobs_of(self, uids: Collection[str]) -> None:
        """Read the bars of schedules of which some will be listed, unless they are too many."""
        bars = self._list_jobs(ScheduleFilter(uids=uids))
        self._jobs_of = bars if len(bars) <= MOST_BARS else None

    def bars(self, uids: Collection[str] | None = None) -> list[Bar]:
        """Return the bars of these schedules; None: of all, as far as they are read."""
        known = [*self._on_rows, *(self._jobs or ()), *(self._skips or ())]
        if uids is None:
            return known
        bars = [bar for bar in known if bar.uid in uids]
        those = ScheduleFilter(uids=uids)
        if self._jobs_of is not None:
            bars += [bar for bar in self._jobs_of if bar.uid in uids]
        elif self._jobs is None and uids:
            bars += self._list_jobs(those)
        if self._skips is None and uids:
            bars += self._bars_of_skips(self._list_skips(those))
        return bars

    def counts(self) -> Counts:
        """Count all that there is, by stretches; what is left out is added to `uncounted`."""
        counts = self._span.count_bars(self.bars())
        span = (self._span.start, self._until, self._wanted)
        if self._jobs is None:
            for found in self._store.ledger.job_counts(*span, width=self._span.width):
                counts[Cell(found.stretch, found.status)] += found.jobs
        if self._skips is None:
            for skips in self._store.ledger.skip_counts(*span, width=self._span.width):
                counts[Cell(skips.stretch, NOT_FIRED[skips.type])] += skips.slots
            ranges = self._store.ledger.skip_ranges(*span, limit=MOST_RANGES)
            if len(ranges) == MOST_RANGES:
                self.uncounted += max(self._store.ledger.skip_range_number(*span) - MOST_RANGES, 0)
            for event in ranges:
                self._add_range(counts, event)
        return counts

    def counts_of_each(self, uids: Collection[str], span: Stretches) -> dict[str, Counts]:
        """Count the slots of each of these schedules, in stretches of their own."""
        counts: dict[str, Counts] = defaultdict(Counts)
        for bar in self.bars() if uids else ():
            if bar.uid in uids:
                counts[bar.uid].update(span.count_bars([bar]))
        ledger, those = self._store.ledger, ScheduleFilter(uids=uids)
        if self._jobs is None and uids:
            for found in ledger.job_counts_of_each(span.start, self._until, uids, width=span.width):
                counts[found.uid][Cell(found.stretch, found.status)] += found.jobs
        if self._skips is None and uids:
            limits = (span.start, self._until, those)
            for skips in ledger.skip_counts(*limits, width=span.width, by_schedule=True):
                counts[skips.uid][Cell(skips.stretch, NOT_FIRED[skips.type])] += skips.slots
            for event in ledger.skip_ranges(*limits, limit=MOST_RANGES):
                self._add_range(counts[event.uid], event, span)
        return counts

    def _add_range(self, counts: Counts, event: SlotsNotFired, span: Stretches | None = None) -> None:
        slots = range_of(event)
        if slots is not None:
            (span or self._span).add_range(counts, slots, NOT_FIRED[event.type])


def _bar_of_range(kind: Kind, of: SlotsNotFired | GatheredSkips, slots: SlotRange, reason: str | None) -> Bar:
    first, last, number = slots
    last_at = last if number > 1 else None
    return Bar(kind, of.uid, of.schedule_id, first, first, slots=number, last_at=last_at, reason=reason)
