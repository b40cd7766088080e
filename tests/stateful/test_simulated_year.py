"""A year of a thousand mixed schedules, decided slot by slot and checked by the ledger checker.

It contains outages, clock changes of four zones, failures, pauses and edits. The year is the same on every run. The
short form takes every twentieth group.
"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from multiprocessing import get_context

import pytest

from everwhen.decide import status
from everwhen.decide.edit import edit
from everwhen.model.changes import Decision
from everwhen.model.instants import DAY, HOUR, MINUTE, SECOND
from everwhen.model.job import Job
from everwhen.model.limits import Shared
from everwhen.model.outcome import SUCCEEDED, Outcome
from everwhen.model.policy import BreakerRule, Guard
from everwhen.model.schedule import Definition, Plan, Schedule, Target
from everwhen.timetable.civil_time import zone
from everwhen.timetable.cron import parse_cron
from everwhen.timetable.trigger import Cron, Every, EveryMonth, Once, Trigger
from everwhen.timetable.windows import Window
from everwhen.verify.ledger import LedgerReport
from tests.stateful.definitions import Luck, seeded
from tests.stateful.small_world import SmallWorld
from tests.stateful.world import World

NEW_YEAR = 1_767_225_600 * SECOND  # 2026-01-01, UTC
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe")
GROUPS, GROUP = 100, 10


def a_mixed_definition(number: int, luck: Luck, group: int) -> Definition:
    """Return a definition: the schedules of a group differ in kind by their number, in the rest at random."""
    kinds: tuple[Trigger, ...] = (
        Every(14_400, "4h"),
        Cron(parse_cron("15 */3 * * *")),
        Cron(parse_cron("30 2 * * *")),
        Cron(parse_cron("0 9 * * 1-5")),
        Cron(parse_cron("*/20 2,14 * * *")),
        Every(21_600, "6h"),
        Every(10_800, "3h"),
        EveryMonth(),
        Once(NEW_YEAR // SECOND + luck.randint(1, 360 * 86_400), "at", "at", luck.randint(0, SECOND - 1)),
        Every(86_400, "24h"),
    )
    trigger = kinds[number]
    return Definition(
        trigger,
        zone(luck.choice(ZONES)),
        Target("command"),
        interval_from="completion" if number == 6 else "slot",
        jitter_ms=luck.choice([0, 0, 60_000]) if number < 6 else 0,
        only_between=luck.choice([None, None, None, Window(8 * 60, 18 * 60), Window(22 * 60, 6 * 60)]),
        not_on=luck.choice([0, 0, 0, 0b1000001]),
        outside_window=luck.choice(["skip", "defer"]),
        catch_up=luck.choice([None, "skip", "run_once", "run_all"]),
        if_running=luck.choice(["skip", "queue", "cancel", "allow"]),
        max_retries=luck.choice([None, None, 5]),
        guard=Guard(f"group {group}", 2) if luck.randint(0, 3) == 0 else None,
        breaker=BreakerRule(f"group {group}", 3, 30 * MINUTE) if luck.randint(0, 5) == 0 else None,
    )


def a_run(job: Job) -> tuple[int, Outcome]:
    """Return the outcome of a job: most runs are short and succeed; some take longer than the interval, some fail."""
    luck = hash_of(job)
    duration = 3 * HOUR if luck % 97 == 0 else (luck % 300 + 1) * SECOND
    return duration, Outcome("failed", error="no") if luck % 13 == 0 else SUCCEEDED


def hash_of(job: Job) -> int:
    return (job.slot_at // SECOND * 2_654_435_761 + job.retry * 40_503) % 1_000_003


def year_of_a_group(group: int) -> LedgerReport:
    """Simulate ten schedules that share their limits, through a year with outages, pauses and edits."""
    luck = seeded(group)
    outages = [
        (start, start + luck.choice([2 * MINUTE, 5 * HOUR, 3 * DAY]))
        for start in sorted(NEW_YEAR + luck.randint(0, 364 * DAY) for _ in range(8))
    ]
    world = SmallWorld(NEW_YEAR + luck.randint(0, SECOND), a_run, outages=outages)
    plans = {}
    for number in range(GROUP):
        uid = f"{group:06x}{number:06x}"
        plans[uid] = Plan(f"s{group}.{number}", a_mixed_definition(number, luck, group), None)
        world.create(uid, plans[uid])
    for month in range(12):
        for uid, plan in plans.items():
            world.go_to(NEW_YEAR + month * 30 * DAY + luck.randint(0, 3 * DAY))
            intervene(world, uid, plan, luck.randint(0, 9))
    world.go_to(NEW_YEAR + 365 * DAY)
    return world.check()


def intervene(world: SmallWorld, uid: str, plan: Plan, what: int) -> None:
    """Pause, resume, revive or edit a schedule, as a person does."""
    now_status = world.state(uid).status
    if now_status == "paused":
        world.change(uid, status.resume)
    elif now_status == "dead" or (now_status == "done" and not plan.definition.is_one_shot):
        world.change(uid, status.revive)
    elif what == 0 and now_status == "active":
        world.change(uid, partial(status.pause, by="person"))
    elif what == 1 and now_status == "active" and not plan.definition.is_one_shot:
        world.change(uid, partial(_move_zone, plan))


def _move_zone(plan: Plan, schedule: Schedule, now: int, shared: Shared) -> Decision:
    moved = replace(schedule.definition, zone=zone("Asia/Tokyo"))
    return edit(schedule, Plan(plan.schedule_id, moved, None), now, shared)


def prove(reports: list[LedgerReport]) -> int:
    faults = [str(report) for report in reports if not report.is_clean]
    assert not faults, "\n".join(faults)
    return sum(report.slots for report in reports)


def test_every_slot_of_a_simulated_year_has_one_entry() -> None:
    slots = prove([year_of_a_group(group) for group in range(0, GROUPS, 20)])
    assert slots > 45_000


@pytest.mark.long
@pytest.mark.timeout(3_600)  # beside other work it takes long
def test_every_one_of_a_million_slots_of_a_simulated_year_has_one_entry() -> None:
    """Runs on all cores, because groups share nothing."""
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        slots = prove(list(pool.map(year_of_a_group, range(GROUPS), chunksize=5)))
    assert slots > 950_000


# -- through the store --


def through_the_store(schedules: int, hours: int) -> LedgerReport:
    """Run the same schedules on SQLite, evaluated every ten minutes, with workers that keep up."""
    world = World(NEW_YEAR)
    try:
        for number in range(schedules):
            luck = seeded(f"store {number}")
            definition = a_mixed_definition(number % 2, luck, number % 20)
            world.create(f"s{number}", replace(definition, trigger=Every(60 * (1 + number % 5), "1m")))
        for _ in range(hours * 6):
            world.move(10 * MINUTE)
            world.tick(limit=500)
            while claimed := world.claim("n", 500):
                world.settle([(job, a_run(job)[1]) for job in claimed])
        return world.check()
    finally:
        world.close()


def test_every_slot_that_goes_through_the_store_has_one_entry() -> None:
    assert prove([through_the_store(schedules=50, hours=5)]) >= 5_000


@pytest.mark.long
@pytest.mark.timeout(3_600)  # beside other work it takes long
def test_every_one_of_a_hundred_thousand_slots_that_go_through_the_store_has_one_entry() -> None:
    assert prove([through_the_store(schedules=160, hours=24)]) >= 100_000
