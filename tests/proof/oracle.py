"""An oracle for slots: which slots a schedule had to have, by plain arithmetic and by cronsim alone.

It shares nothing with `everwhen.timetable` nor with the ledger check, so that an error which both have shows here. It
reads the definitions as they are stored, the instants at which they were in force, and the entries: that a slot is
planned, that it has one entry, and that none is missing. Near the instants at which a schedule was stopped, edited or
started, while the system was paused, and where the clock was put back, an entry may be missing: what holds there is
checked by the ledger check.
"""

from __future__ import annotations

import calendar
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from itertools import pairwise
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from cronsim import CronSim

from everwhen.model.events import Event
from everwhen.model.history import STARTS, STOPS, Recorded, ScheduleHistory
from everwhen.model.instants import SECOND
from everwhen.model.job import Job
from everwhen.model.serialize import fields_of

BLUR = 2 * SECOND
OF_SLOTS = ("schedule.skipped", "schedule.missed", "schedule.caught_up")


class Span(NamedTuple):
    """A span of time, both ends included."""

    first: int
    last: int

    def has(self, instant: int) -> bool:
        return self.first <= instant <= self.last


class Times(NamedTuple):
    """When a revision fires, in the words of its definition. Instants in seconds."""

    trigger: Mapping[str, Any]
    zone: str
    start_at: int | None
    end_at: int | None
    jitter_ms: int
    is_chain: bool

    @property
    def seconds(self) -> int | None:
        """Return the interval of elapsed time; None for any other trigger."""
        found: int | None = self.trigger.get("seconds")
        return found


class Stretch(NamedTuple):
    """A time in which a schedule was active with one set of slots."""

    times: Times
    anchor_at: int | None
    span: Span


class RangeEntry(NamedTuple):
    """An entry of several slots: `slot_count` of those from first to last that have no entry of their own."""

    span: Span
    slot_count: int


@dataclass
class Entries:
    """The entries of one schedule; `ends` are those of the last attempts, by slot."""

    singles: Counter[int] = field(default_factory=Counter)
    ranges: list[RangeEntry] = field(default_factory=list)
    ends: dict[int, int | None] = field(default_factory=dict)
    due: dict[int, int] = field(default_factory=dict)


@dataclass
class OracleVerdict:
    """What the oracle says about a record: how many slots it computed, of which kind, and what is wrong."""

    slots: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)


def consult(histories: Iterable[ScheduleHistory], system: Sequence[Recorded], now: int) -> OracleVerdict:
    """Compute the slots of every schedule, and compare them with its entries."""
    verdict = OracleVerdict()
    unsure = [*_pauses(system, now), *_steps_back(system)]
    for history in histories:
        entries = entries_of(history)
        stretches = list(stretches_of(history, now))
        if not stretches:
            continue
        here = [*unsure, *_around(stretches)]
        for sentence in _judge(stretches, entries, here, verdict.slots):
            verdict.faults.append(f"oracle: {history.schedule_id} ({history.uid}): {sentence}")
        for sentence in _wrong_due(history, stretches, entries):
            verdict.faults.append(f"oracle: {history.schedule_id} ({history.uid}): {sentence}")
    return verdict


# -- what is on record --


def times_of(fields: Mapping[str, Any]) -> Times:
    """Return the times of a stored definition."""
    trigger: Mapping[str, Any] = fields["trigger"]
    return Times(
        trigger,
        fields["timezone"],
        fields.get("start_at"),
        fields.get("end_at"),
        fields.get("jitter_ms", 0),
        is_chain="seconds" in trigger and fields.get("interval_from") == "completion",
    )


def stretches_of(history: ScheduleHistory, now: int) -> Iterator[Stretch]:
    """Yield the times in which the schedule was active, each with its slots."""
    revisions = {one.revision: times_of(fields_of(one.plan.definition)) for one in history.revisions}
    revision = min(revisions, default=1)
    current: tuple[int, int | None, int] | None = None  # revision, anchor, since
    for _, event in history.events:
        is_of_times = event.type == "schedule.updated" and "anchor_at" in event.detail
        is_start = event.type == "schedule.created" or event.type in STARTS
        if event.type == "schedule.updated":
            revision = int(str(event.detail.get("revision", revision)))
        if not (is_start or event.type in STOPS or (is_of_times and current is not None)):
            continue
        if current is not None:
            yield Stretch(revisions[current[0]], current[1], Span(current[2], event.at))
        anchor = event.detail.get("anchor_at")
        is_active = is_start or is_of_times
        current = (revision, anchor if isinstance(anchor, int) else None, event.at) if is_active else None
    if current is not None:
        yield Stretch(revisions[current[0]], current[1], Span(current[2], now))


def entries_of(history: ScheduleHistory) -> Entries:
    found, caught_up = Entries(), set[str]()
    for job in history.jobs:
        _add_job(found, job)
        if job.origin == "catch_up":
            caught_up.add(job.job_id)
    for _, event in history.events:
        if event.type in OF_SLOTS and event.slot_at is not None and "origin" not in event.detail:
            _add_event(found, event, event.slot_at, is_single_counted=event.job_id in caught_up)
    state = history.state
    if state is not None and state.skip_count and state.skip_first_at is not None:
        gathered = Span(state.skip_first_at, state.skip_last_at or state.skip_first_at)
        found.ranges.append(RangeEntry(gathered, state.skip_count))
    if state is not None and state.held_slot_at is not None:
        found.singles[state.held_slot_at] += 1
    return found


def _add_job(entries: Entries, job: Job) -> None:
    if job.origin in ("schedule", "catch_up"):
        entries.singles[job.slot_at] += 1
        entries.ends[job.slot_at] = job.ended_at
        entries.due[job.slot_at] = job.due_at
    elif job.origin == "retry":
        entries.ends[job.slot_at] = job.ended_at


def _add_event(entries: Entries, event: Event, slot_at: int, *, is_single_counted: bool) -> None:
    # The job that catches up is the entry of its own slot, which its event counts as well.
    count = event.slot_count - (event.type == "schedule.caught_up" and is_single_counted)
    if event.type != "schedule.caught_up" and count == 1:
        entries.singles[slot_at] += 1
    elif count:
        first, last = event.detail.get("first", slot_at), event.detail.get("last", slot_at)
        entries.ranges.append(RangeEntry(Span(int(str(first)), int(str(last))), count))


def _pauses(system: Sequence[Recorded], now: int) -> Iterator[Span]:
    begun: int | None = None
    for _, event in system:
        if event.type == "system.paused" and begun is None:
            begun = event.at
        elif event.type == "system.resumed" and begun is not None:
            yield Span(begun - BLUR, event.at + BLUR)
            begun = None
        elif event.type == "system.restored":
            yield Span(int(str(event.detail["backed_up_at"])) - BLUR, event.at + BLUR)
    if begun is not None:
        yield Span(begun - BLUR, now)


def _steps_back(system: Sequence[Recorded]) -> Iterator[Span]:
    """Yield the times that the clock showed twice, as far as the record knows them."""
    for _, event in system:
        if event.type == "scheduler.clock_stepped":
            start, end = int(str(event.detail.get("from", 0))), int(str(event.detail.get("to", 0)))
            since = int(str(event.detail.get("since_at", end)))
            if end < start:
                yield Span(min(end, since) - BLUR, start + BLUR)


def _around(stretches: Sequence[Stretch]) -> Iterator[Span]:
    """Yield the times around the instants at which something began or ended."""
    for stretch in stretches:
        jitter = stretch.times.jitter_ms * 1_000
        for at in stretch.span:
            yield Span(at - BLUR - jitter, at + BLUR)


# -- arithmetic --


def slots_between(stretch: Stretch, first: int, last: int) -> list[int]:
    """Return the slots from first to last, whole seconds in microseconds."""
    times = stretch.times
    begin, end = -(-first // SECOND), last // SECOND
    if times.start_at is not None:
        begin = max(begin, times.start_at)
    if times.end_at is not None:
        end = min(end, times.end_at - 1)
    anchor = None if stretch.anchor_at is None else stretch.anchor_at // SECOND
    return [second * SECOND for second in _seconds(times, anchor, begin, end)]


def _seconds(times: Times, anchor: int | None, begin: int, end: int) -> Iterable[int]:
    trigger = times.trigger
    if "cron" in trigger:
        return _matches(str(trigger["cron"]), times.zone, begin, end)
    if "instant" in trigger:
        second = int(trigger["instant"])
        return [second] if begin <= second <= end else []
    if anchor is None or "every" not in trigger:
        return []
    if times.seconds is None:
        return _months(anchor, times.zone, begin, end)
    first = anchor + max(-(-(begin - anchor) // times.seconds), 0) * times.seconds
    return range(first, end + 1, times.seconds)


def _matches(expression: str, zone: str, begin: int, end: int) -> Iterator[int]:
    # Cronsim steps by whole hours where a zone has daylight saving; `docs/decisions/cron-disagreements.md`.
    before = datetime.fromtimestamp(begin - 1, ZoneInfo(zone))
    for match in CronSim(expression, before):
        second = int(match.timestamp())
        if second > end:
            return
        yield second


def _months(anchor: int, zone: str, begin: int, end: int) -> Iterator[int]:
    start = datetime.fromtimestamp(anchor, ZoneInfo(zone))
    for count in range(1_200):
        year, month = divmod(start.year * 12 + start.month - 1 + count, 12)
        day = min(start.day, calendar.monthrange(year, month + 1)[1])
        second = int(start.replace(year=year, month=month + 1, day=day, fold=0).timestamp())
        if second > end:
            return
        if second >= begin:
            yield second


def jitter_of(schedule_id: str, slot_at: int, window_ms: int) -> int:
    """Return the offset of a slot, in microseconds."""
    stamp = datetime.fromtimestamp(slot_at // SECOND, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    drawn = blake2b(f"{schedule_id}|{stamp}".encode()).digest()[:8]
    return int.from_bytes(drawn, "big") % window_ms * 1_000 if window_ms else 0


# -- the comparison --


def _judge(
    stretches: Sequence[Stretch], entries: Entries, unsure: Sequence[Span], counts: Counter[str]
) -> Iterator[str]:
    planned: set[int] = set()
    for stretch in stretches:
        if stretch.times.is_chain:
            yield from _judge_chain(stretch, entries, unsure, counts)
        else:
            slots = slots_between(stretch, stretch.span.first - BLUR, stretch.span.last + BLUR)
            counts["cron" if "cron" in stretch.times.trigger else "arithmetic"] += len(slots)
            planned.update(slots)
            planned.update(_elsewhere(stretch, entries, unsure))
    yield from _doubled(entries)
    if any(stretch.times.is_chain for stretch in stretches):
        return
    yield from (
        f"{_at(slot)} has an entry, and is no slot" for slot in sorted(entries.singles.keys() - planned)
    )
    yield from _uncovered(sorted(planned), entries, unsure, stretches)


def _elsewhere(stretch: Stretch, entries: Entries, unsure: Sequence[Span]) -> Iterator[int]:
    """Yield the entries beyond a stretch which are slots of it, where the clock was put back or the system paused."""
    for span in unsure:
        for slot in slots_between(stretch, span.first, span.last):
            if slot in entries.singles:
                yield slot


def _doubled(entries: Entries) -> Iterator[str]:
    for slot, count in sorted(entries.singles.items()):
        if count > 1:
            yield f"{_at(slot)} has {count} entries"


def _uncovered(
    planned: Sequence[int], entries: Entries, unsure: Sequence[Span], stretches: Sequence[Stretch]
) -> Iterator[str]:
    """Yield the slots without an entry of their own that no range counts, and the ranges that count too many."""
    without = [slot for slot in planned if slot not in entries.singles]
    needed = [slot for slot in without if _is_needed(slot, stretches, unsure)]
    for slot in needed:
        if not any(entry.span.has(slot) for entry in entries.ranges):
            yield f"{_at(slot)} has no entry"
    counted = sum(entry.slot_count for entry in entries.ranges)
    within = [slot for slot in without if any(entry.span.has(slot) for entry in entries.ranges)]
    least = sum(_is_needed(slot, stretches, unsure) for slot in within)
    if not least <= counted <= len(within):
        yield f"ranges count {counted} slots, and between {least} and {len(within)} have no entry of their own"


def _is_needed(slot: int, stretches: Sequence[Stretch], unsure: Sequence[Span]) -> bool:
    is_active = any(stretch.span.has(slot) for stretch in stretches)
    return is_active and not any(span.has(slot) for span in unsure)


def _judge_chain(
    stretch: Stretch, entries: Entries, unsure: Sequence[Span], counts: Counter[str]
) -> Iterator[str]:
    """Yield where the next slot of a chain is not the end of the last one and the interval, rounded up."""
    interval = (stretch.times.seconds or 0) * SECOND
    slots = sorted(slot for slot in entries.singles if stretch.span.has(slot))
    counts["chain"] += len(slots)
    for slot, following in pairwise(slots):
        end = entries.ends.get(slot, slot)  # one that was skipped or missed is over when it is due
        between = Span(slot, following)
        is_sure = end is not None and not any(one.has(slot) or one.has(following) for one in unsure)
        is_counted = any(entry.span.has(slot) or entry.span.has(following) for entry in entries.ranges)
        if not is_sure or is_counted or any(between.has(one.first) for one in unsure):
            continue
        assert end is not None
        implied = -(-(end + interval) // SECOND) * SECOND
        if following != implied:
            yield f"after {_at(slot)}, over at {_at(end)}, follows {_at(following)}, not {_at(implied)}"


def _wrong_due(history: ScheduleHistory, stretches: Sequence[Stretch], entries: Entries) -> Iterator[str]:
    """Yield the jobs whose due_at is not that of their slot; only where all revisions draw from one window."""
    windows = {min(one.times.jitter_ms, (one.times.seconds or 0) * 1_000) for one in stretches}
    window = max(windows)
    if len(windows) > 1 or not window:
        return
    for slot, due_at in entries.due.items():
        expected = slot + jitter_of(history.schedule_id, slot, window)
        if due_at != expected:
            yield f"{_at(slot)} was due at {_at(due_at)}, not {_at(expected)}"


def _at(instant: int) -> str:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=instant)).isoformat()
