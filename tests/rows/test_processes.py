"""Rows that need a process of its own: H30, H32, M8."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from everwhen.clock import SystemClock
from everwhen.model.events import Event
from everwhen.model.instants import MINUTE, to_datetime
from everwhen.model.queries import EventFilter, JobFilter
from everwhen.model.schedule import Target
from everwhen.operations.schedules import get_schedule
from everwhen.store.opened import store_of
from everwhen.testing import manual_scheduler
from everwhen.wiring import Stack
from tests.crash.nodes import ROOT, check, opened, running, wait_until
from tests.environment import without_settings
from tests.submissions import Submission, create_schedules

GO = Target("command", '{"argv": ["true"]}')
MANY = 1_000


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/rows.db"


def add(url: str, names: list[str], **fields: Any) -> None:
    with opened(url) as stack:
        create_schedules(stack.runtime, [Submission(name, fields, GO) for name in names])


def run(*fields: str) -> str:
    """What a process of its own prints."""
    command = [sys.executable, *fields]
    done = subprocess.run(
        command, cwd=ROOT, env=without_settings(), check=False, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_h30_memory_grows_with_running_jobs_not_with_schedules(tmp_path: Path) -> None:
    few, many = (f"sqlite:///{tmp_path}/{name}.db" for name in ("few", "many"))
    for url, count in ((few, 3), (many, MANY)):
        add(url, [f"idle-{number}" for number in range(count)], cron="0 0 1 1 *")
    taken = json.loads(run("-m", "tests.rows.fleet_memory", few, many))
    assert taken["many"] - taken["few"] < 50 * MANY  # bytes: not even its id and name
    none, ten, forty = taken["running"]
    assert ten - none > 10 * 1_000
    assert forty - ten > ten - none  # thirty more, after ten


def slots_of(stack: Stack, name: str) -> list[int]:
    """Oldest first."""
    jobs = store_of(stack.runtime).ledger.jobs(JobFilter(), limit=1_000)
    return sorted(job.slot_at for job in jobs if job.schedule_id == name)


DISABLE = """
import sys
from everwhen import update_schedule_state
update_schedule_state(sys.argv[1], "reviewer", "check", status="disabled")
"""


def test_h32_a_disable_by_another_process_is_honoured_at_the_next_pass(url: str) -> None:
    add(url, ["reviewer.check", "reviewer.beside"], every="1s", if_running="allow")
    with opened(url) as stack, running(url, "scheduler", check_interval=0.5):
        wait_until(lambda: len(slots_of(stack, "reviewer.check")) >= 1)
        run("-c", DISABLE, url)
        disabled_at = stack.runtime.clock.now()
        wait_until(lambda: len([at for at in slots_of(stack, "reviewer.beside") if at > disabled_at]) >= 2)
        assert [at for at in slots_of(stack, "reviewer.check") if at > disabled_at] == []
        state = get_schedule(stack.runtime, "reviewer.check").state
        assert (state.status, state.next_run_at) == ("paused", None)
    assert check(url).is_clean


def events_of(stack: Stack, *types: Any) -> list[Event]:
    """Oldest first."""
    found = store_of(stack.runtime).ledger.events(EventFilter(types=types), limit=100)
    return [recorded.event for recorded in reversed(found)]


def test_m8_catch_up_is_decided_at_start_and_whenever_a_schedule_is_found_behind(url: str) -> None:
    down = manual_scheduler(to_datetime(SystemClock().now()) - timedelta(minutes=66), database=url)
    down.add("behind", every="10m", first_run="after_interval", catch_up="run_once")
    down.close()
    types = ("scheduler.started", "schedule.caught_up", "scheduler.clock_stepped")
    with opened(url) as stack, running(url, "scheduler", has_own_clock=True) as (node,):
        wait_until(lambda: len(events_of(stack, "schedule.caught_up")) == 1)
        assert [event.type for event in events_of(stack, *types)] == list(types[:2])
        node.step_clock(3_600)  # no restart: the schedule is merely found behind
        wait_until(lambda: len(events_of(stack, "schedule.caught_up")) == 2)
        assert [event.type for event in events_of(stack, *types)] == [types[0], types[1], types[2], types[1]]
        assert [event.slot_count for event in events_of(stack, "schedule.caught_up")] == [6, 6]
        jobs = store_of(stack.runtime).ledger.jobs(JobFilter(), limit=10)
        assert [job.origin for job in jobs] == ["catch_up"] * 2
        assert jobs[0].slot_at - jobs[1].slot_at == 60 * MINUTE
