"""Rows about several nodes on one PostgreSQL, with real processes: M3, M4, D43."""

from __future__ import annotations

from collections import Counter
from typing import Any

import psycopg

from everwhen.model.queries import EventFilter, JobFilter
from everwhen.model.schedule import QuietHoursPolicy, State, Target
from everwhen.operations.schedules import get_schedule
from everwhen.store.opened import store_of
from everwhen.timetable.civil_time import zone
from everwhen.timetable.windows import QuietHours, QuietWindow, parse_window
from everwhen.verify.ledger import check_ledger
from everwhen.wiring import Stack
from tests.crash.nodes import opened, running, wait_until
from tests.submissions import Submission, create_schedules

GO, FAIL = Target("command", "go"), Target("command", "fail")


def add(stack: Stack, names: list[str], target: Target = GO, group: str | None = None, **fields: Any) -> None:
    create_schedules(stack.runtime, [Submission(name, fields, target, group=group) for name in names])


def fired(stack: Stack) -> Counter[tuple[str, int]]:
    jobs = store_of(stack.runtime).ledger.jobs(JobFilter(), limit=10_000)
    return Counter((job.schedule_id, job.slot_at) for job in jobs)


def state(stack: Stack, name: str) -> State:
    return get_schedule(stack.runtime, name).state


def is_clean(stack: Stack) -> bool:
    with store_of(stack.runtime).ledger.history() as history:
        report = check_ledger(history, stack.runtime.clock.now())
    assert report.is_clean, report
    return True


def test_m3_schedulers_pass_over_rows_that_another_has_locked_and_fire_each_once(postgres_url: str) -> None:
    with opened(postgres_url) as stack:
        add(stack, [f"s{number:02}" for number in range(40)], every="24h")
        with psycopg.connect(postgres_url) as other:
            other.execute("SELECT 1 FROM schedules ORDER BY next_run_at, row_id LIMIT 20 FOR UPDATE")
            with running(postgres_url, "scheduler", "scheduler"):
                wait_until(lambda: fired(stack).total() == 20)
                other.rollback()
                wait_until(lambda: fired(stack).total() == 40)
        assert set(fired(stack).values()) == {1}
        assert is_clean(stack)


def test_m4_whatever_the_moment_what_became_of_a_slot_and_the_next_time_agree(postgres_url: str) -> None:
    """Quiet hours are skipped on record; the rest fires: each with the next time, in one commit."""
    always = QuietHours(zone("UTC"), (QuietWindow(parse_window("00:00-24:00")),))
    with opened(postgres_url) as stack:
        store_of(stack.runtime).catalogue.add_policy(
            stack.runtime.clock.now(), QuietHoursPolicy("always", "always", always, "skip")
        )
        add(stack, ["quiet"], every="1s", quiet_hours="always")
        add(stack, ["loud"], every="1s", if_running="allow")
        with running(postgres_url, "scheduler", "scheduler"):
            wait_until(lambda: is_clean(stack) and sum(n for n in fired(stack).values()) >= 3)
            wait_until(lambda: is_clean(stack) and state(stack, "quiet").skip_count >= 2)
        assert {name for name, _ in fired(stack)} == {"loud"}
        skipped = store_of(stack.runtime).ledger.events(EventFilter(types=["schedule.skipped"]), limit=10)
        assert {recorded.event.reason for recorded in skipped} == {"quiet_hours"}
        loud, last_slot_at = state(stack, "loud"), max(slot_at for _, slot_at in fired(stack))
        assert loud.last_slot_at == last_slot_at and loud.next_slot_at == last_slot_at + 1_000_000


def test_d43_on_several_nodes_breaker_and_guard_are_keyed_by_plugin_and_command(postgres_url: str) -> None:
    plugin: dict[str, Any] = {
        "every": "1s",
        "group": "withings",
        "max_outstanding": 1,
        "circuit_breaker": {"threshold": 5},
    }
    with opened(postgres_url) as stack:
        add(stack, ["withings.one", "withings.two"], FAIL, command="poll", **plugin)
        add(stack, ["withings.other"], GO, command="token_refresh", **plugin)
        with running(postgres_url, "scheduler", "scheduler", "worker", "worker"):
            wait_until(lambda: store_of(stack.runtime).ledger.breaker("withings:poll").state == "open")
            assert store_of(stack.runtime).ledger.breaker("withings:poll").failure_count == 5
            before = fired(stack).total()
            wait_until(lambda: fired(stack).total() >= before + 2)
        assert store_of(stack.runtime).ledger.breaker("withings:token_refresh").state == "closed"
        names = [job.schedule_id for job in store_of(stack.runtime).ledger.jobs(JobFilter(), limit=100)]
        assert names.count("withings.one") + names.count("withings.two") == 5
        assert min(names.count("withings.one"), names.count("withings.two")) >= 1
        assert is_clean(stack)
