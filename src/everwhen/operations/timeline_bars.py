"""What the timeline is made of: bars, each a slot or several, and numbers of slots by stretches of the span."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from everwhen.decide.coming_counts import Cell
from everwhen.model.events import EventType
from everwhen.model.queries import SlotsNotFired, TimelineJob
from everwhen.model.slot_range import SlotRange

MOST_BARS = 10_000

MOST_RANGES = 100_000  # events about several slots that are looked at

Kind = Literal["job", "skipped", "missed", "held", "upcoming"]
NOT_FIRED: Mapping[EventType, Kind] = {
    "schedule.skipped": "skipped",
    "schedule.missed": "missed",
    "schedule.caught_up": "missed",
}


class Bar(NamedTuple):
    """One slot: what happened to it, or what will; or several in a row that one record is about."""

    kind: Kind
    uid: str
    schedule_id: str
    slot_at: int
    due_at: int
    slots: int = 1
    last_at: int | None = None  # of several slots
    reason: str | None = None
    job: TimelineJob | None = None
    is_estimate: bool = False
    is_skipped: bool = False  # of an upcoming slot: it will be
    is_caught_up: bool = False  # of a missed slot: one job stood for it and for others
    since: int | None = None  # of a held slot

    @property
    def word(self) -> str:
        """Return what it is counted as: a job by its status."""
        if self.job is not None:
            return self.job.status
        return "skipped" if self.is_skipped else self.kind


Counts = Counter[Cell]


class Stretches(NamedTuple):
    """The span [start, end), and how it is divided to count what lies in it."""

    start: int
    end: int
    width: int

    def stretch_of(self, instant: int) -> int:
        return (instant - self.start) // self.width

    def count_bars(self, bars: Iterable[Bar]) -> Counts:
        """Count what lies in the span: jobs by their slots, a range where its slots lie, the rest where it is due."""
        counts = Counts()
        for bar in bars:
            if bar.last_at is not None:
                self.add_range(counts, SlotRange(bar.slot_at, bar.last_at, bar.slots), bar.word)
                continue
            # What is held since before the span waits in it, too.
            at = bar.slot_at if bar.kind == "job" else max(bar.due_at, self.start)
            counts[Cell(self.stretch_of(at), bar.word)] += bar.slots
        return counts

    def add_range(self, counts: Counts, slots: SlotRange, word: str) -> None:
        """Add slots that one record stands for to the stretches in which they lie."""
        inside = slots.within(self.start, self.end)
        if inside is None:
            return
        for stretch in range(self.stretch_of(inside.first_at), self.stretch_of(inside.last_at) + 1):
            begin = self.start + stretch * self.width
            if part := inside.within(begin, begin + self.width):
                counts[Cell(stretch, word)] += part.slots


def range_of(event: SlotsNotFired) -> SlotRange | None:
    """Return the slots that an event says did not fire; of those that a job stood for, all but the job's own."""
    first = event.slot_at if event.first_at is None else event.first_at
    last = event.slot_at if event.last_at is None else event.last_at
    if event.type != "schedule.caught_up":
        return SlotRange(first, last, event.slot_count)
    if event.slot_count < 2:
        return None
    return SlotRange(first, last - (last - first) // (event.slot_count - 1), event.slot_count - 1)
