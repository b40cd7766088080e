"""How many slots come is counted: it is always the number of those that the prediction lists one by one."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everwhen.decide.coming_counts import Cell, ComingCounts
from everwhen.decide.outlook import Conditions, coming_slots
from everwhen.model.instants import DAY, HOUR, MINUTE, SECOND
from everwhen.model.queries import ComingSchedules
from everwhen.model.schedule import Definition, Plan, QuietHoursPolicy, Schedule, Target
from everwhen.model.serialize import text_of, times_in
from everwhen.timetable.civil_time import Zone, zone
from everwhen.timetable.cron import parse_cron
from everwhen.timetable.trigger import Cron, Every, EveryMonth, Once, Trigger
from everwhen.timetable.windows import QuietHours, QuietWindow, Window
from tests.decide.builders import a_chain, a_one_shot, a_schedule, at, quiet_hours
from tests.timetable.expressions import random_expression
from tests.timetable.test_against_cronsim import ZONES, clock_changes

NINE = at("09:00")
NIGHTS, DEFERRED_NIGHTS = quiet_hours("22:00-07:00"), quiet_hours("22:00-07:00", action="defer")


def coming(schedules: Sequence[Schedule]) -> ComingSchedules:
    states = [schedule.state for schedule in schedules]
    return ComingSchedules(
        [
            (state.row_id, state.uid, state.schedule_id, state.anchor_at, slot_at, due_at, "")
            for state in states
            if (slot_at := state.next_slot_at) is not None and (due_at := state.next_run_at) is not None
        ]
    )


def listed(
    schedules: Sequence[Schedule], start: int, end: int, width: int, conditions: Conditions
) -> tuple[Counter[Cell], list[int]]:
    """What `coming_slots` lists, counted."""
    counts, numbers = Counter[Cell](), []
    for schedule in schedules:
        slots = list(coming_slots(schedule, conditions, start, end))
        numbers.append(len(slots))
        for slot in slots:
            word = "skipped" if slot.outlook.fate == "skipped" else "upcoming"
            counts[Cell((slot.due_at - start) // width, word)] += 1
    return counts, numbers


def counted(
    schedules: Sequence[Schedule], start: int, end: int, width: int, *, is_paused: bool = False
) -> tuple[Counter[Cell], list[int]]:
    plan = schedules[0].plan
    times = Plan("", times_in(text_of(plan.definition)), plan.quiet)  # which has all that is needed
    counts = ComingCounts(start, end, width, is_paused=is_paused)
    numbers = counts.add(times, coming(schedules))
    return counts.counts, numbers


# -- generated schedules --


class Drawn:
    """A definition that is drawn from a seed, and schedules that have its times, each with a next slot of its own."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.zone = zone(self.draw.choice(ZONES))
        changes = clock_changes(self.zone) or [NINE // SECOND]
        self.near = self.draw.choice((NINE // SECOND, self.draw.choice(changes)))
        self.definition = self._definition()
        self.quiet = self._quiet() if self.draw.random() < 0.4 else None

    def schedules(self) -> list[Schedule]:
        many = self.draw.choice((1, 2, 3, 7))
        found = [self._schedule(f"s{number}") for number in range(many)]
        return [schedule for schedule in found if schedule is not None]

    def _schedule(self, name: str) -> Schedule | None:
        plan = Plan(name, self.definition, self.quiet)
        begins = (self.near + self.draw.randint(-3 * 86_400, 86_400)) * SECOND
        anchor = begins - self.draw.randint(0, 90) * DAY
        slot_at = plan.calendar(anchor).next_after(begins)
        if slot_at is None:
            return None
        due_at = plan.calendar(anchor).due_at(slot_at)
        state = a_schedule(schedule_id=name).state
        return Schedule(state._replace(anchor_at=anchor, next_slot_at=slot_at, next_run_at=due_at), plan)

    def _definition(self) -> Definition:
        draw, trigger = self.draw, self._trigger()
        longest = 600_000
        if isinstance(trigger, Every):
            longest = trigger.seconds * 1_000 - 1_000
        has_jitter = not isinstance(trigger, Once) and longest and draw.random() < 0.5
        bounds: dict[str, int] = {}
        if draw.random() < 0.3:
            bounds = {"end_at": self.near + draw.randint(-86_400, 5 * 86_400)}
        return Definition(
            trigger,
            self.zone,
            Target("command"),
            jitter_ms=draw.randint(1, longest) if has_jitter else 0,
            interval_from="completion" if draw.random() < 0.2 else "slot",
            only_between=self._window() if draw.random() < 0.4 else None,
            not_on=draw.randrange(127) if draw.random() < 0.3 else 0,
            outside_window=draw.choice(("skip", "defer")),
            gap=draw.choice((None, "shift", "skip")),
            fold=draw.choice((None, "first", "second", "both")),
            **bounds,  # type: ignore[arg-type]
        )

    def _trigger(self) -> Trigger:
        kind = self.draw.randrange(6)
        if kind == 0:
            return EveryMonth()
        if kind == 1:
            fraction = self.draw.choice((0, 1, 500_000, 999_999))
            return Once(self.near + self.draw.randint(-86_400, 86_400), "at", "", fraction)
        if kind in (2, 3):
            texts = ("0 * * * *", "*/7 * * * *", "30 1,2 * * *", "0 9 * * 1-5", random_expression(self.draw))
            return Cron(parse_cron(self.draw.choice(texts)))
        return Every(self.draw.choice((1, 10, 47, 600, 3_600, 5_400, 86_400, 300_000)), "")

    def _window(self) -> Window:
        start, end = self.draw.sample(range(1_440), 2)
        return Window(start, end)

    def _quiet(self) -> QuietHoursPolicy:
        where: Zone = self.draw.choice((self.zone, zone("America/New_York"), zone("UTC")))
        windows = tuple(QuietWindow(self._window(), self.draw.randrange(1, 128)) for _ in range(2))
        hours = QuietHours(where, windows, ((20_150, 20_152),))
        return QuietHoursPolicy("q", "q", hours, self.draw.choice(("skip", "defer")))


@given(
    seed=st.integers(0, 10**9),
    begins=st.integers(-2 * DAY, DAY),
    length=st.one_of(st.integers(1, 3 * HOUR), st.integers(1, 4 * DAY)),
    parts=st.sampled_from((1, 2, 5, 24, 200)),
    is_paused=st.booleans(),
)
def test_the_counted_slots_are_those_that_are_listed(
    seed: int, begins: int, length: int, parts: int, is_paused: bool
) -> None:
    """By stretch, by what becomes of them, and by schedule; over changes of the clock, jitter and closed times."""
    drawn = Drawn(seed)
    schedules = drawn.schedules()
    if not schedules:
        return
    trigger = drawn.definition.trigger
    if isinstance(trigger, Every) and trigger.seconds < 600:  # as many as may be listed in a moment
        length = min(length, 1_500 * trigger.seconds * SECOND)
    start = drawn.near * SECOND + begins
    width = -(-length // parts)
    conditions = Conditions(system_paused_at=start if is_paused and drawn.draw.random() < 0.2 else None)
    is_paused = conditions.system_paused_at is not None
    found = counted(schedules, start, start + length, width, is_paused=is_paused)
    assert found == listed(schedules, start, start + length, width, conditions)


@pytest.mark.parametrize("seed", range(300))
def test_many_slots_in_few_parts_are_counted_by_arithmetic_to_the_same_numbers(seed: int) -> None:
    drawn = Drawn(seed)
    if not (schedules := drawn.schedules()):
        return
    trigger = drawn.definition.trigger
    interval = trigger.seconds if isinstance(trigger, Every) else 600
    start = drawn.near * SECOND - drawn.draw.randint(0, 2 * DAY)
    end = start + min(4 * DAY, 900 * interval * SECOND)
    found = counted(schedules, start, end, end - start)
    assert found == listed(schedules, start, end, end - start, Conditions())


# -- cases --


def words_of(schedules: Sequence[Schedule], start: int, end: int) -> tuple[dict[str, int], list[int]]:
    counts, numbers = counted(schedules, start, end, end - start)
    return {cell.word: slots for cell, slots in counts.items()}, numbers


def test_a_year_of_seconds_is_counted_at_once() -> None:
    schedules = [a_schedule(schedule_id=f"s{number}", every="1s") for number in range(3)]
    year = 365 * DAY
    assert words_of(schedules, NINE, NINE + year) == ({"upcoming": 3 * year // SECOND}, [year // SECOND] * 3)


def test_intervals_are_counted_from_the_first_slot_of_each() -> None:
    """Some begin before the span, some in it, some many intervals later, and one behind it."""
    firsts = (NINE - 90 * MINUTE, NINE, NINE + 25 * MINUTE, NINE + 10 * HOUR, NINE + 30 * HOUR)
    schedules = [a_schedule(every="1h", anchor_at=first, next_slot_at=first) for first in firsts]
    assert words_of(schedules, NINE, NINE + DAY) == ({"upcoming": 24 + 24 + 24 + 14}, [24, 24, 24, 14, 0])
    long = 60 * DAY
    assert words_of(schedules, NINE, NINE + long)[1] == [1_440, 1_440, 1_440, 1_430, 1_410]


def test_closed_times_divide_a_stretch() -> None:
    schedule = a_schedule(every="10m", next_slot_at=NINE, anchor_at=NINE, quiet=NIGHTS)
    found, _ = counted([schedule], NINE, NINE + DAY, DAY // 2)
    assert found == {Cell(0, "upcoming"): 72, Cell(1, "skipped"): 6 * 9, Cell(1, "upcoming"): 6 * 3}


def test_the_slot_that_a_closed_time_holds_is_upcoming() -> None:
    """Of the nine in the night all but the last are superseded; at 07:00 a regular one is due, and none is held."""
    half_past = a_schedule(cron="30 * * * *", next_slot_at=at("09:30"), quiet=DEFERRED_NIGHTS)
    assert words_of([half_past], NINE, NINE + DAY)[0] == {"upcoming": 15 + 1, "skipped": 8}
    on_the_hour = a_schedule(every="1h", next_slot_at=NINE, anchor_at=NINE, quiet=DEFERRED_NIGHTS)
    assert words_of([on_the_hour], NINE, NINE + DAY)[0] == {"upcoming": 15, "skipped": 9}
    begun = a_schedule(every="1h", next_slot_at=at("12:30", day=1), anchor_at=NINE, quiet=DEFERRED_NIGHTS)
    assert words_of([begun], NINE, NINE + 2 * DAY)[0] == {"upcoming": 10 + 1 + 2, "skipped": 8}


def test_every_slot_of_a_chain_is_held_by_a_closed_time_that_defers() -> None:
    chain = a_chain("30m", quiet=DEFERRED_NIGHTS, next_slot_at=NINE)
    assert words_of([chain], NINE, NINE + DAY) == ({"upcoming": 48}, [48])
    skipped = a_chain("30m", quiet=NIGHTS, next_slot_at=NINE)
    assert words_of([skipped], NINE, NINE + DAY)[0] == {"upcoming": 30, "skipped": 18}


def test_nothing_fires_while_the_system_is_paused() -> None:
    schedules = [a_schedule(every="1h", next_slot_at=NINE, anchor_at=NINE, quiet=NIGHTS)]
    counts, numbers = counted(schedules, NINE, NINE + DAY, DAY, is_paused=True)
    assert (counts, numbers) == ({Cell(0, "skipped"): 24}, [24])


def test_one_shots_and_bounds_end_the_count() -> None:
    once = a_one_shot(at("12:00"))
    assert words_of([once], NINE, NINE + DAY) == ({"upcoming": 1}, [1])
    assert words_of([once], NINE, at("12:00")) == ({}, [0])
    bounded = a_schedule(every="10m", next_slot_at=NINE, anchor_at=NINE, end_at=at("10:00"))
    assert words_of([bounded], NINE, NINE + DAY) == ({"upcoming": 6}, [6])
    assert words_of([bounded], at("10:00"), NINE + DAY) == ({}, [0])


def test_schedules_of_one_cron_are_counted_together_and_those_behind_from_their_own_slot() -> None:
    schedules = [
        a_schedule(schedule_id=f"s{number}", cron="0 * * * *", next_slot_at=first)
        for number, first in enumerate((NINE, NINE, at("07:00")))
    ]
    assert words_of(schedules, at("08:00"), at("12:00")) == ({"upcoming": 3 + 3 + 4}, [3, 3, 4])


def test_a_jitter_longer_than_the_gap_moves_no_slot_past_the_next_one() -> None:
    schedules = [a_schedule(cron="* * * * *", jitter_ms=600_000, next_slot_at=at("08:00"))]
    start = NINE + 30 * SECOND
    assert counted(schedules, start, NINE + HOUR, HOUR) == listed(
        schedules, start, NINE + HOUR, HOUR, Conditions()
    )
