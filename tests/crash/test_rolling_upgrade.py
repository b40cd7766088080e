"""Processes of this release go on while the next release changes the schema under them, and beside it afterwards."""

from __future__ import annotations

import pytest

from everwhen.errors import StoreError
from everwhen.model.queries import ScheduleFilter
from everwhen.store.opened import store_of
from everwhen.wiring import Stack, open_stack
from tests.crash.nodes import check, opened, running, wait_until
from tests.crash.test_nodes_killed import busy
from tests.servers.next_release import upgrade_at


def test_nodes_of_this_release_go_on_while_and_after_the_next_one_changes_the_schema(url: str) -> None:
    with opened(url) as stack:
        busy(stack)
    with running(url, "scheduler", "scheduler", "worker", "worker") as nodes, opened(url) as stack:
        await_more_jobs(stack, 10)
        upgrade_at(url)  # the others have jobs in hand, statements prepared, rows in their caches
        await_more_jobs(stack, 40)
        # One dies; what it ran is taken over. Another of this release is started, one migration behind.
        nodes.pop().kill()
        with running(url, "up") as late:
            await_more_jobs(stack, 40)
            nodes += late
            for node in nodes:
                node.stop()
    report = check(url)
    assert report.is_clean, report


def test_a_release_is_not_started_on_a_schema_that_has_lost_what_it_reads(url: str) -> None:
    open_stack(url).close()
    upgrade_at(url, after=True)
    with pytest.raises(StoreError, match="start the newer release, or restore a backup"):
        open_stack(url)


def await_more_jobs(stack: Stack, count: int) -> None:
    before = settled(stack)
    wait_until(lambda: settled(stack) >= before + count, seconds=60)


def settled(stack: Stack) -> int:
    return sum(
        state.run_count for state in store_of(stack.runtime).catalogue.states(ScheduleFilter(), limit=100)
    )
