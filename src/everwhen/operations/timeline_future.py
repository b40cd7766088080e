"""The future of the timeline: slots to come, counted for all schedules and listed for those that are shown."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping

from everwhen.decide.coming_counts import Cell, ComingCounts
from everwhen.decide.outlook import next_to_come
from everwhen.errors import SchedulerError
from everwhen.model.fast_values import by_text
from everwhen.model.queries import ComingRow, ComingSchedules, ScheduleFilter
from everwhen.model.schedule import Plan, QuietHoursPolicy, Schedule
from everwhen.model.serialize import times_in
from everwhen.operations.timeline_bars import Bar, Counts, Stretches
from everwhen.operations.upcoming import UpcomingSlot, coming, conditions_of
from everwhen.runtime import Runtime
from everwhen.store.opened import store_of

AT_ONCE = 200_000  # schedules that are grouped by their times together
# Conditions that last for a while, and that counting leaves out: see `coming_counts`.
_PASSING = frozenset(("circuit_open", "budget"))


class TimelineFuture:
    """The slots due in a span of the schedules that match."""

    def __init__(self, runtime: Runtime, span: Stretches, wanted: ScheduleFilter) -> None:
        self._runtime, self._store = runtime, store_of(runtime)
        self._span, self._wanted = span, wanted
        self._is_paused = self._store.catalogue.system_paused_at() is not None
        self._policies: dict[str, QuietHoursPolicy] | None = None
        self._counted = ComingCounts(*span, is_paused=self._is_paused)

    def count(self) -> Iterator[tuple[ComingSchedules, list[int]]]:
        """Count every slot; yield the schedules that have equal times, with how many slots each of them has."""
        alike: dict[str, list[ComingRow]] = defaultdict(list)
        waiting = 0
        for rows in self._store.catalogue.coming(self._wanted, before=self._span.end):
            for row in rows:
                _, _, _, _, _, _, times = row
                alike[times].append(row)
            waiting += len(rows)
            if waiting >= AT_ONCE:
                yield from self._count_alike(alike)
                alike, waiting = defaultdict(list), 0
        yield from self._count_alike(alike)
        for portion in self._store.catalogue.resuming(self._wanted, before=self._span.end):
            for paused in portion:
                if (start := _start_of(paused)) is not None:
                    yield start, self._counted.add(paused.plan, start)

    def _count_alike(
        self, alike: Mapping[str, list[ComingRow]]
    ) -> Iterator[tuple[ComingSchedules, list[int]]]:
        for times, rows in alike.items():
            if (plan := self._plan_of(times)) is not None:
                schedules = ComingSchedules(rows)
                yield schedules, self._counted.add(plan, schedules)

    def _plan_of(self, times: str) -> Plan | None:
        """Return a plan with these times; None: they cannot be read, and the schedule does not fire."""
        try:
            plan = _plan_with(times)
        except (SchedulerError, LookupError, TypeError, ValueError):
            return None
        quiet_id = plan.definition.quiet_hours_id
        if quiet_id is None:
            return plan
        if self._policies is None:
            self._policies = {policy.policy_id: policy for policy in self._store.catalogue.policies()}
        return Plan("", plan.definition, self._policies.get(quiet_id))

    # -- answers --

    @property
    def counts(self) -> Counts:
        """Return the numbers by stretches, when all are counted."""
        return self._counted.counts

    def counts_of(self, schedule: Schedule, span: Stretches) -> Counts:
        """Count the slots of one schedule, in stretches of its own."""
        counted, start = ComingCounts(*span, is_paused=self._is_paused), _start_of(schedule)
        if start is not None:
            counted.add(schedule.plan, start)
        return counted.counts

    def bars(self, schedules: Collection[Schedule]) -> list[Bar]:
        """Return the slots of these schedules, without those that are held now."""
        conditions = conditions_of(self._runtime, list(schedules))
        return [
            _upcoming_bar(schedule.state.uid, slot)
            for schedule in schedules
            for slot in coming(schedule, conditions, self._span.start, self._span.end)
            if slot.slot_at != schedule.state.held_slot_at
        ]


def correct_passing(counts: Counts, span: Stretches, bars: Collection[Bar]) -> None:
    """Count slots as skipped that a breaker or a budget will skip, and that were counted as upcoming."""
    for bar in bars:
        if bar.is_skipped and bar.reason in _PASSING:
            stretch = span.stretch_of(bar.due_at)
            counts[Cell(stretch, "upcoming")] -= 1
            counts[Cell(stretch, "skipped")] += 1


@by_text(most=16_384)
def _plan_with(times: str) -> Plan:
    """Return a plan that has nothing but these times, and no quiet hours; it keeps what its calendar finds out."""
    return Plan("", times_in(times), None)


def _start_of(schedule: Schedule) -> ComingSchedules | None:
    """Return the next slot of a schedule, or the first one after its pause; None when it has none."""
    start, state = next_to_come(schedule), schedule.state
    if start is None or start.slot_at is None or start.due_at is None:
        return None
    ids = (state.row_id, state.uid, state.schedule_id)
    return ComingSchedules([(*ids, start.anchor_at, start.slot_at, start.due_at, "")])


def starts_before(schedule: Schedule, end: int) -> bool:
    """Return whether a schedule is among those whose slots are counted up to an instant."""
    state = schedule.state
    is_due = state.next_run_at is not None and state.next_run_at < end
    return is_due or (state.status == "paused" and state.resume_at is not None and state.resume_at < end)


def _upcoming_bar(uid: str, slot: UpcomingSlot) -> Bar:
    return Bar(
        "upcoming",
        uid,
        slot.schedule_id,
        slot.slot_at,
        slot.due_at,
        reason=slot.skip_reason or slot.hold_reason,
        is_estimate=slot.is_estimate,
        is_skipped=slot.skip_reason is not None,
    )
