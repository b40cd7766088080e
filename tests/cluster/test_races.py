"""Two nodes reach for the same rows at the same moment: each slot fires once, and no limit is overshot (E8)."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from everwhen.errors import StoreError
from everwhen.model.claim import ClaimedJob
from everwhen.model.instants import SECOND
from everwhen.model.job import Job
from everwhen.model.outcome import SUCCEEDED
from everwhen.model.schedule import QuietHoursPolicy
from everwhen.operations.jobs import backfill
from everwhen.store.lanes import Lane
from everwhen.store.opened import store_of
from everwhen.store.postgres.transaction import PostgresStore, PostgresTransaction
from everwhen.store.settle import HAND_OVER
from everwhen.store.system import write_policy
from everwhen.store.transaction import Transaction
from everwhen.timetable.civil_time import zone
from everwhen.timetable.windows import QuietHours, QuietWindow, parse_window
from tests.cluster.conftest import together, until_waiting
from tests.conformance.tenant import FAILED, Tenant

Action = Callable[[], Any]


def test_a_node_that_hangs_while_it_turns_the_switch_silences_the_others_for_seconds_only(
    runtime: Tenant, other: Tenant
) -> None:
    """It holds what every tick waits for; the server ends its transaction long before the others give up."""
    runtime.add("a", every="24h")
    is_held, goes_on = threading.Event(), threading.Event()

    tries: list[Transaction] = []

    def hang(tx: Transaction) -> None:
        tx.exclude_evaluations()
        tries.append(tx)
        is_held.set()
        goes_on.wait(60)
        tx.put_setting("system_paused", "")

    def turn() -> None:
        PostgresStore(runtime.stack.database).write(Lane.API, hang)

    with ThreadPoolExecutor() as threads:
        turning = threads.submit(turn)
        assert is_held.wait(60)
        assert other.tick().fired == 1
        goes_on.set()
        turning.result(60)
    assert len(tries) == 2  # the server ended the first transaction, and the second one turned the switch


def ticking(runtime: Tenant, limit: int = 20) -> Action:
    def tick() -> int:
        fired = 0
        while (report := runtime.tick(limit=limit)).schedules:
            fired += report.fired
        return fired

    return tick


def claiming(runtime: Tenant, limit: int = 7) -> Callable[[], list[ClaimedJob]]:
    def claim() -> list[ClaimedJob]:
        taken: list[ClaimedJob] = []
        while some := runtime.claim(limit):
            taken += some
        return taken

    return claim


def slots_of(jobs: list[Job]) -> Counter[tuple[str, int]]:
    return Counter((job.uid, job.slot_at) for job in jobs)


def test_every_slot_is_fired_once_whoever_gets_it(runtime: Tenant, other: Tenant) -> None:
    runtime.add_many([f"s{number:03}" for number in range(150)], every="10s", if_running="allow")
    shares = [together(ticking(runtime), ticking(other))]
    for _ in range(4):
        runtime.wait("10s")
        shares.append(together(ticking(runtime), ticking(other)))
    assert set(slots_of(runtime.jobs()).values()) == {1}
    assert [sum(share) for share in shares] == [150] * 5


def test_a_key_that_somebody_keeps_holds_up_its_own_schedules_and_no_others(
    runtime: Tenant, other: Tenant
) -> None:
    """Those that need it stay due, and fire when it is free again (E6)."""
    runtime.add_many([f"g.{number}" for number in range(30)], every="1h", group="g", max_concurrent=40)
    assert runtime.tick(limit=1).fired == 1  # now there is a row to be locked
    runtime.add_many([f"s{number}" for number in range(5)], every="1h")
    other.add("warm", every="24h", group="g", max_concurrent=40)
    with runtime.stack.database.connection() as connection:
        connection.execute("BEGIN")
        connection.execute("SELECT 1 FROM limits FOR UPDATE")
        connection.execute("SELECT 1 FROM circuit_breakers FOR UPDATE")
        try:
            assert (
                ticking(other, limit=10)() == 5
            )  # whoever waited for the rows would be refused, after a while
            assert not other.tick(limit=10).more
        finally:
            connection.execute("ROLLBACK")
    assert ticking(other)() == 30
    assert set(slots_of(runtime.jobs()).values()) == {1}


def test_the_second_scheduler_goes_on_where_the_first_is_not(runtime: Tenant, other: Tenant) -> None:
    runtime.add_many([f"s{number:03}" for number in range(40)], every="1h")
    with runtime.stack.database.connection() as connection:
        connection.execute("BEGIN")
        connection.execute("SELECT 1 FROM schedules ORDER BY next_run_at, row_id LIMIT 20 FOR UPDATE")
        try:
            assert other.tick(limit=20).fired == 20
            assert other.tick(limit=20).fired == 0
        finally:
            connection.execute("ROLLBACK")
    assert other.tick(limit=20).fired == 20


def test_a_guard_holds_whatever_the_two_do_at_once(runtime: Tenant, other: Tenant) -> None:
    poll: dict[str, Any] = {"group": "withings", "command": "poll", "max_outstanding": 3}
    runtime.add_many([f"withings.s{number:02}" for number in range(30)], every="24h", **poll)
    together(ticking(runtime, 4), ticking(other, 4))
    settled = 0
    while claimed := runtime.claim(2) + other.claim(2):
        outstanding = [job for job in runtime.jobs() if job.is_outstanding]
        assert len(outstanding) <= 3
        half = len(claimed) // 2 or 1
        together(lambda: runtime.settle(*claimed[:half]), lambda: other.settle(*claimed[half:]))  # noqa: B023
        settled += len(claimed)
        together(ticking(runtime, 4), ticking(other, 4))
    assert settled == 30


def test_capacity_holds_when_both_claim_at_once(runtime: Tenant, other: Tenant) -> None:
    fields: dict[str, Any] = {"group": "g", "max_concurrent": 5, "if_running": "queue"}
    runtime.add_many([f"g.s{number:02}" for number in range(20)], every="24h", **fields)
    runtime.step()
    mine, theirs = together(claiming(runtime, 3), claiming(other, 3))
    assert len(mine) + len(theirs) == 5
    assert len({one.job.job_id for one in mine + theirs}) == 5


@pytest.mark.parametrize("claim", ["claim", "hand over"])
def test_what_became_ready_behind_a_claims_peek_is_left_to_the_next(
    runtime: Tenant, other: Tenant, claim: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its key comes after those that the claim has locked: waiting for it, two claims could wait for each other."""
    for group in ("seen", "late"):
        runtime.add(f"{group}.s", every="24h", group=group, max_concurrent=5)
    runtime.step()
    late = runtime.state("late.s").uid
    peek = PostgresTransaction.peek_ready
    without_late = lambda *given: [hint for hint in peek(*given) if hint.uid != late]  # noqa: E731
    monkeypatch.setattr(PostgresTransaction, "peek_ready", without_late)

    def take() -> list[str]:
        if claim == "claim":
            return [one.job.schedule_id for one in other.claim(10)]
        sent = other.runtime.outbox.hand_over(other.now, limit=10, until=other.now + 60 * SECOND)
        return [runtime.job(one.job_id).schedule_id for one in sent]

    with runtime.stack.database.connection() as connection:
        connection.execute("BEGIN")
        connection.execute("SELECT 1 FROM limits WHERE key = 'capacity:late' FOR UPDATE")
        connection.execute("SELECT 1 FROM schedules WHERE schedule_id = 'late.s' FOR UPDATE")
        try:
            assert take() == ["seen.s"]
        finally:
            connection.execute("ROLLBACK")
    monkeypatch.undo()
    assert take() == ["late.s"]


def test_a_job_is_taken_by_one_of_them(runtime: Tenant, other: Tenant) -> None:
    runtime.add_many([f"s{number:03}" for number in range(60)], every="1h")
    runtime.step()
    mine, theirs = together(claiming(runtime), claiming(other))
    left = claiming(runtime)()
    taken = [one.job.job_id for one in mine + theirs + left]
    assert len(taken) == len(set(taken)) == 60


def test_a_job_that_two_settle_is_settled_once(runtime: Tenant, other: Tenant) -> None:
    runtime.add_many([f"s{number:02}" for number in range(20)], every="1h")
    runtime.step()
    claimed = runtime.claim()
    counted = together(lambda: runtime.settle(*claimed), lambda: other.settle(*reversed(claimed)))
    assert sum(counted) == 20
    assert {runtime.state(job.schedule_id).run_count for job in runtime.jobs()} == {1}


def test_a_breaker_counts_failures_that_settle_at_once(runtime: Tenant, other: Tenant) -> None:
    fields: dict[str, Any] = {"group": "p", "command": "poll", "circuit_breaker": {"threshold": 100}}
    runtime.add_many([f"p.s{number:02}" for number in range(20)], every="1h", **fields)
    runtime.step()
    claimed = runtime.claim()
    together(
        lambda: runtime.settle(*claimed[:10], outcome=FAILED),
        lambda: other.settle(*claimed[10:], outcome=FAILED),
    )
    assert runtime.runtime.ledger.breaker(claimed[0].job.breaker_key or "").failure_count == 20


def test_what_a_dead_node_left_is_rescued_once(runtime: Tenant, other: Tenant) -> None:
    runtime.add_many([f"s{number:02}" for number in range(10)], every="24h")
    runtime.step()
    gone = runtime.neighbour("node-3")
    assert len(gone.claim()) == 10
    runtime.wait("1m")
    runtime.beat()
    other.beat()
    assert sum(together(runtime.rescue, other.rescue)) == 10
    assert {(job.status, job.rescues, job.fence) for job in runtime.jobs()} == {("queued", 1, 2)}


def test_pauses_edits_ticks_and_settlements_get_along(runtime: Tenant, other: Tenant) -> None:
    names = [f"g.s{number:02}" for number in range(12)]
    fields: dict[str, Any] = {"group": "g", "max_concurrent": 4, "circuit_breaker": {"threshold": 3}}
    runtime.add_many(names, every="10s", **fields)

    def work(node: Tenant) -> None:
        for number in range(8):
            node.step()
            claimed = node.claim(3)
            node.settle(*claimed, outcome=FAILED if number == 4 else SUCCEEDED)

    def meddle() -> None:
        for name in names * 2:
            runtime.pause(name)
            runtime.resume(name)
            runtime.edit(name, every="20s", **fields)

    for _ in range(3):
        runtime.wait("10s")
        together(lambda: work(runtime), lambda: work(other), meddle)
    assert set(slots_of([job for job in runtime.jobs() if job.origin == "schedule"]).values()) == {1}


def test_of_two_policies_that_are_put_at_once_every_node_hears_of_both(
    runtime: Tenant, other: Tenant
) -> None:
    third = runtime.neighbour("node-3")
    runtime.put_quiet_hours("20:00-21:00", "skip")
    runtime.add("a", every="10m", quiet_hours="nights")
    hours = QuietHours(zone("UTC"), (QuietWindow(parse_window("08:00-08:15")),))

    def put(tx: Transaction) -> None:
        tx.settings()  # as they were before the first
        runtime.put_quiet_hours("21:00-22:00", "skip", policy_id="others")
        third.step()
        write_policy(tx, runtime.now, QuietHoursPolicy("nights", "nights", hours, "skip"))

    PostgresStore(other.stack.database).write(Lane.API, put)
    runtime.run()
    third.wait_and_step("10m")
    third.wait_and_step("10m")
    assert runtime.slots("a") == ["08:00:00", "08:20:00"]


def test_a_node_that_two_others_miss_at_once_is_lost_once(runtime: Tenant, other: Tenant) -> None:
    runtime.runtime.slots.heartbeat(runtime.now, node="dead", version="1", is_scheduler=True)
    runtime.wait("1h")
    for node in (runtime, other):
        node.beat()

    def noting(node: Tenant) -> Action:
        return lambda: store_of(node.runtime).upkeep.note_lost(node.now, node=node.node, lease=60 * SECOND)

    with psycopg.connect(runtime.site.url, autocommit=True) as keeper:
        keeper.execute("BEGIN; SELECT 1 FROM nodes FOR UPDATE")
        with ThreadPoolExecutor() as threads:
            noted = [threads.submit(noting(node)) for node in (runtime, other)]
            until_waiting(runtime, *noted)
            keeper.execute("ROLLBACK")
    assert sorted(len(one.result()) for one in noted) == [0, 1]
    assert len(runtime.events(None, "node.lost")) == 1


def test_a_job_that_was_claimed_anew_is_not_handed_over(runtime: Tenant) -> None:
    runtime.add("a", every="1h")
    runtime.step()
    (claimed,) = runtime.claim()
    stale = claimed.job._replace(fence=claimed.job.fence - 1)
    with pytest.raises(StoreError, match="lost 6 times"):
        PostgresStore(runtime.stack.database).write(
            Lane.SETTLE,
            lambda tx: tx.expect(1, tx.run(HAND_OVER, batch=[("token", stale.row_id, stale.fence)])),
        )
    assert runtime.job(claimed.job.job_id).node == runtime.node
    runtime.settle(claimed)


def test_two_backfills_of_the_same_slots_fill_each_once_between_them(runtime: Tenant, other: Tenant) -> None:
    runtime.add("a", every="10m", first_run="after_interval", catch_up="skip")
    start = runtime.clock.moment
    runtime.wait_and_step("20h")  # the last of them is fired
    end = runtime.clock.moment
    found = together(
        *[lambda node=node: backfill(node.runtime, "a", start, end) for node in (runtime, other)]
    )
    filled = [slot_at for one in found for slot_at in one.slots]
    assert len(filled) == len(set(filled)) == len(runtime.jobs("a")) - 1 == 119
