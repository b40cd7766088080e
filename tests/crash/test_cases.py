"""Cases 9 and 13 of the semantics with real processes (case 14 is in `test_nodes_killed`)."""

from __future__ import annotations

from everwhen.model.queries import EventFilter, JobFilter
from everwhen.model.schedule import Target
from everwhen.store.opened import store_of
from everwhen.wiring import Stack
from tests.crash.nodes import check, opened, running, wait_until
from tests.submissions import Submission, create_schedules

HANG = Target("command", "hang")


def statuses(stack: Stack) -> list[str]:
    return sorted(job.status for job in store_of(stack.runtime).ledger.jobs(JobFilter(), limit=100))


def test_case_9_two_nodes_two_schedules_of_one_command_guard_one_fires_and_one_is_held(url: str) -> None:
    fields = {"every": "24h", "command": "poll", "max_outstanding": 1}
    both = [Submission(f"withings.{name}", fields, HANG, group="withings") for name in ("one", "two")]
    with running(url, "up", "up") as nodes, opened(url) as stack:
        create_schedules(stack.runtime, both)
        wait_until(lambda: statuses(stack) == ["running"])
        states = [store_of(stack.runtime).catalogue.get(f"withings.{name}") for name in ("one", "two")]
        assert sorted(str(found and found.state.held_reason) for found in states) == [
            "None",
            "outstanding_limit",
        ]
        for node in nodes:
            node.kill()
    assert check(url).is_clean


def test_case_13_the_clock_jumps_an_hour_while_five_jobs_run_none_is_rescued_and_the_hour_is_missed(
    url: str,
) -> None:
    lease = 3.0
    long = [Submission(f"long-{number}", {"every": "24h"}, HANG) for number in range(5)]
    minutely = Submission("minutely", {"every": "1m", "first_run": "after_interval"}, Target("command", "go"))
    with (
        running(url, "scheduler", "worker", lease=lease, has_own_clock=True) as nodes,
        opened(url) as stack,
    ):
        create_schedules(stack.runtime, [*long, minutely])
        wait_until(lambda: statuses(stack) == ["running"] * 5)
        before = stack.runtime.clock.now()
        for node in nodes:
            node.step_clock(3_600)
        wait_until(lambda: missed(stack) >= 58)
        assert (
            len(
                store_of(stack.runtime).ledger.events(EventFilter(types=["scheduler.clock_stepped"]), limit=9)
            )
            == 1
        )
        # Long enough for the step to be past, and for leases to be judged again.
        over = before + int((3_600 + 1.3 * lease) * 1_000_000)
        wait_until(lambda: min(node.heartbeat_at for node in store_of(stack.runtime).upkeep.nodes()) > over)
        jobs = store_of(stack.runtime).ledger.jobs(JobFilter(), limit=100)
        of_five = [job for job in jobs if job.schedule_id != "minutely"]
        assert {(job.status, job.attempt, job.rescues) for job in of_five} == {("running", 1, 0)}


def missed(stack: Stack) -> int:
    events = store_of(stack.runtime).ledger.events(EventFilter(types=["schedule.missed"]), limit=1_000)
    return sum(recorded.event.slot_count for recorded in events)
