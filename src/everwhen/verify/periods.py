"""The periods in which a schedule was active, with their slots: periods from its events, spans of the system switch.

A period begins with creation, resume, revival, restoration or an edit of the times, and ends with the next change of
status or times. Slots reached before its end were decided in it. The time between two periods is a span, and has no
entries.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from everwhen.model.events import Event, EventType
from everwhen.model.history import STARTS, STOPS, Recorded, Revision, ScheduleHistory
from everwhen.model.instants import SECOND
from everwhen.model.schedule import Plan, Status
from everwhen.timetable.trigger import Every, EveryMonth

OPEN = 1 << 62
UNNOTICED = (
    2 * SECOND
)  # how long a step goes unnoticed, where its event does not say it: a question and a look


@dataclass(frozen=True, slots=True)
class Period:
    """A period of activity with one set of slots: those after `after`, up to `until` (OPEN: not ended yet).

    `reach`: the latest time of the clock in the period before it was put back; slots up to there may have been
    decided although the period ended earlier. `earliest`: the earliest time of the clock in it after it was put back;
    OPEN when it was not. `closed_by` is the id of the event that ended it. `is_steady`: the clock was never put back
    after it began, so the recorded instants are in the order of the events.
    """

    plan: Plan
    anchor_at: int | None
    begun_by: EventType
    after: int
    begun_at: int
    begun_id: int
    revision: int
    until: int = OPEN
    last_revision: int = OPEN
    reach: int = 0
    earliest: int = OPEN
    closed_by: int = OPEN
    is_void: bool = False
    is_steady: bool = True
    now: int = 0
    first_run: object = None  # of a `monthly` schedule, as created

    @property
    def is_open(self) -> bool:
        return self.until == OPEN


def delayed(period: Period, spans: Sequence[SystemSpan], by: int) -> tuple[Period, list[SystemSpan]]:
    """Return a period and the spans of the system as they bound slots that are due so long after their slot_at.

    Of a one-shot its due_at decides in which period it lies: what lies at an instant has its slot so much earlier.
    """
    ends = {name: getattr(period, name) - by for name in ("after", "begun_at", "reach", "now")}
    ends |= {name: _end_before(getattr(period, name), by) for name in ("until", "earliest")}
    moved = [
        span._replace(after=span.after - by, until=_end_before(span.until, by), reach=span.reach - by)
        for span in spans
    ]
    return replace(period, **ends), moved


def _end_before(end: int, by: int) -> int:
    return end if end == OPEN else end - by


class SystemSpan(NamedTuple):
    """A period in which nothing fires, after `after` and until `until`, both instants of the clock."""

    after: int
    until: int
    begun_id: int
    closed_by: int
    reach: int


def system_spans(system: Sequence[Recorded]) -> list[SystemSpan]:
    """Return the spans of the system switch, and those between a backup and its restore."""
    spans = restored_spans(system)
    begun: Recorded | None = None
    for recorded in system:
        if recorded.event.type == "system.paused" and begun is None:
            begun = recorded
        elif recorded.event.type == "system.resumed" and begun is not None:
            spans.append(_span(system, begun, recorded.event.at, recorded.id))
            begun = None
    if begun is not None:
        spans.append(_span(system, begun, OPEN, OPEN))
    return spans


def restored_spans(system: Sequence[Recorded]) -> list[SystemSpan]:
    """Return the times between a backup and its restore, except those to be caught up.

    The restore has removed every record of them, so that nothing on record lies within, unless the clock had been put
    back before the backup.
    """
    return [
        SystemSpan(
            int(str(event.detail["backed_up_at"])), event.at, number, number, reach_of(system, 0, number)
        )
        for number, event in system
        if event.type == "system.restored" and not event.detail.get("catch_up")
    ]


def periods_of(
    history: ScheduleHistory, system: Sequence[Recorded], now: int
) -> tuple[list[Period], Status | None]:
    """Return the active periods in order, and the status of the schedule after its events."""
    revisions = {revision.revision: revision for revision in history.revisions}
    found: list[Period] = []
    current: Period | None = None
    status: Status | None = None
    revision = min(revisions, default=1)
    for previous, (number, event) in zip([None, *history.events], history.events, strict=False):
        before = revision
        if event.type == "schedule.updated":
            revision = int(str(event.detail.get("revision", revision)))
            if current is None or "anchor_at" not in event.detail:
                continue
        elif event.type in STOPS:
            status = STOPS[event.type]
        elif event.type == "schedule.created" or event.type in STARTS:
            status = "active"
        else:
            continue
        if current is not None:
            current = replace(current, last_revision=before)
            found.append(_closed(current, previous, number, event, system))
            current = None
        if status == "active" and event.type not in STOPS:
            current = _begun(revisions[revision], number, event, system)
    if current is not None:
        reach, earliest = reach_of(system, current.begun_id), earliest_of(system, current.begun_id)
        current = replace(current, reach=reach, earliest=earliest, now=now)
        found.append(current)
    return found, status


def first_instant(period: Period) -> int:
    """Return the earliest instant that a slot of the period may have, without regard to other periods."""
    definition, anchor_at = period.plan.definition, period.anchor_at
    is_interval = isinstance(definition.trigger, Every | EveryMonth)
    if period.begun_by != "schedule.created" or not is_interval or definition.start_at is not None:
        return period.after + 1
    if anchor_at is None:
        return period.after + 1
    if period.first_run == "after_interval":  # of `monthly`: the anchor is the creation, not a slot
        return anchor_at + 1
    return anchor_at  # an interval begins at its anchor, which may lie in the second of creation


def _span(system: Sequence[Recorded], begun: Recorded, until: int, closed_by: int) -> SystemSpan:
    return SystemSpan(
        begun.event.at, until, begun.id, closed_by, reach_of(system, 0, begun.id, closed_at=begun.event.at)
    )


def _begun(revision: Revision, number: int, event: Event, system: Sequence[Recorded]) -> Period:
    anchor = event.detail.get("anchor_at")
    return Period(
        plan=revision.plan,
        anchor_at=None if anchor is None else int(str(anchor)),
        begun_by=event.type,
        after=event.at,
        begun_at=event.at,
        begun_id=number,
        revision=revision.revision,
        first_run=event.detail.get("first_run"),
        is_steady=reach_of(system, number, OPEN) == 0,
    )


def _closed(
    period: Period, previous: Recorded | None, number: int, event: Event, system: Sequence[Recorded]
) -> Period:
    # Created already stopped (a file with enabled: false, an instant in the past): it was never active.
    is_void = (
        period.begun_by == "schedule.created"
        and previous is not None
        and previous.id == period.begun_id
        and event.at == period.begun_at
    )
    reach = reach_of(system, period.begun_id, number, closed_at=event.at)
    earliest = earliest_of(system, period.begun_id, number)
    return replace(period, until=event.at, closed_by=number, reach=reach, earliest=earliest, is_void=is_void)


def reach_of(
    system: Sequence[Recorded], after_id: int = 0, before_id: int = OPEN, *, closed_at: int | None = None
) -> int:
    """Return the latest time of the clock before it was put back in that part of the record; 0 if it was not.

    `closed_at`: the time of the event that ends the part. The schedulers notice a step of the clock later than it
    happens, so a step that is recorded after this event may have happened before it. Then the time of the event is one
    that the clock showed between the step and its record.
    """
    steps = [start for start, _ in _steps_back(system, after_id, before_id)]
    if closed_at is not None:
        steps += [start for start, _ in _steps_back(system, before_id, OPEN, shown_at=closed_at)]
    return max(steps, default=0)


def earliest_of(system: Sequence[Recorded], after_id: int = 0, before_id: int = OPEN) -> int:
    """Return the earliest time to which the clock was put back in that part of the record; OPEN if it was not."""
    return min((end for _, end in _steps_back(system, after_id, before_id)), default=OPEN)


def _steps_back(
    system: Sequence[Recorded], after_id: int, before_id: int, *, shown_at: int | None = None
) -> Iterator[tuple[int, int]]:
    """Yield from and to of the steps that put the clock back; with `shown_at`, of those unrecorded at that time."""
    for recorded in system:
        if recorded.event.type == "scheduler.clock_stepped" and after_id < recorded.id < before_id:
            detail = recorded.event.detail
            start, end = int(str(detail.get("from", 0))), int(str(detail.get("to", 0)))
            since_at = int(str(detail.get("since_at", end - UNNOTICED)))
            # Several steps between two looks are recorded as their sum: the clock may have shown any time in between.
            is_meant = shown_at is None or since_at <= shown_at <= max(recorded.event.at, start)
            if end < start and is_meant:
                yield start, end
