"""Budgets on every database: two nodes that fire, run and settle at once never spend more than the limit allows."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from everwhen.model.cost import Cost, reserved_in
from everwhen.model.job import Job
from everwhen.model.outcome import Outcome
from everwhen.model.spending import Spending
from everwhen.operations.budgets import give_back_leftovers
from everwhen.operations.maintenance import prune
from everwhen.store.dialect import composed
from everwhen.store.lanes import Lane
from everwhen.timetable.jitter import blake2b
from tests.conformance.tenant import Tenant, end_of

USD = 1_000_000
KEY = "budget:team"


def money(**terms: Any) -> dict[str, Any]:
    return {"owner": "team", "budgets": {"team": terms}}


def cost_of(job_id: str) -> int:
    """From nothing to twice the estimate, drawn from the id."""
    return int.from_bytes(blake2b(job_id.encode(), digest_size=4).digest(), "big") % (400_000 + 1)


def live(node: Tenant) -> None:
    """What a node does in a minute: it fires, and runs what it gets; every fifth run reports nothing."""
    node.beat()
    node.step()
    while claimed := node.claim(7):
        ends = [
            end_of(one, Outcome("succeeded", cost=None if one.job.number % 5 == 0 else _cost(one.job.job_id)))
            for one in claimed
        ]
        assert node.runtime.slots.settle(node.now, ends) == len(ends)


def _cost(job_id: str) -> Cost:
    return Cost(cost_of(job_id), "USD")


def reserved(job: Job) -> int:
    return reserved_in(job.cost_reserved)[KEY].amount


def test_two_nodes_and_a_thousand_slots_spend_the_limit_and_the_excess_over_estimates_at_most(
    runtime: Tenant,
) -> None:
    runtime.add_many(
        [f"s{number}" for number in range(100)],
        every="1m",
        **money(cost_per_day="60 USD", cost_per_run="0.2 USD"),
    )
    nodes = [runtime, runtime.neighbour()] if runtime.capabilities.several_processes else [runtime]
    with ThreadPoolExecutor(len(nodes)) as threads:
        for _ in range(10):
            list(threads.map(live, nodes))
            runtime.wait("1m")
    jobs = runtime.jobs()
    skipped = runtime.events(None, "schedule.skipped")
    assert len(jobs) + sum(event.slot_count for event in skipped) == 1_000
    assert {event.reason for event in skipped} == {"budget"}
    spent = sum(job.cost_amount or 0 for job in jobs)
    excess = sum(max((job.cost_amount or 0) - reserved(job), 0) for job in jobs)
    assert 59 * USD < spent <= 60 * USD + excess
    assert len(runtime.events(None, "budget.warning")) == len(runtime.events(None, "budget.reached")) == 1
    assert runtime.check().is_clean


def test_twelve_hours_without_a_scheduler_cost_at_most_the_share_of_catch_up(runtime: Tenant) -> None:
    terms = money(cost_per_day="20 USD", cost_per_run="0.5 USD", catch_up_share="30%")
    for name in ("a", "b"):
        runtime.add(name, every="10m", catch_up="run_all", **terms)
    runtime.step()
    runtime.run(Outcome("succeeded", cost=Cost(500_000, "USD")))
    runtime.wait_and_step("12h")
    while runtime.run(Outcome("succeeded", cost=Cost(500_000, "USD"))):
        pass
    caught_up = [job for job in runtime.jobs() if job.origin == "catch_up"]
    assert sum(job.cost_amount or 0 for job in caught_up) == 6 * USD
    assert {event.reason for event in runtime.events(None, "schedule.missed")} == {"budget"}
    assert runtime.check().is_clean


def test_what_a_budget_says_is_the_same_after_a_restart_of_the_process(runtime: Tenant) -> None:
    runtime.add("a", every="1m", **money(cost_per_day="1 USD", cost_per_run="1 USD"))
    runtime.step()
    runtime.run(Outcome("succeeded", cost=Cost(USD, "USD")))
    if runtime.capabilities.several_processes:
        runtime = runtime.neighbour()
    assert runtime.wait_and_step("1m") == 0
    assert runtime.reasons("a") == ["budget"]
    assert len(runtime.events(None, "budget.reached")) == 1
    assert runtime.check().is_clean


def test_the_checker_finds_sums_that_the_jobs_do_not_make(runtime: Tenant) -> None:
    runtime.add("a", every="1m", **money(cost_per_day="9 USD", cost_per_run="1 USD"))
    runtime.step()
    runtime.run(Outcome("succeeded", cost=Cost(USD, "USD")))
    runtime.wait_and_step("1m")
    assert runtime.check().is_clean
    for column, sentence in (
        ("reserved", "the row says 1000001 reserved, the jobs make 1000000"),
        ("day_cost", "the row says 1000001 spent in the day, the jobs make 1000000"),
        ("month_cost", "the row says 1000001 spent in the month, the jobs make 1000000"),
        ("estimated_day_cost", "the row says 1 estimated in the day, the jobs make 0"),
        ("estimated_month_cost", "the row says 1 estimated in the month, the jobs make 0"),
    ):
        tamper(runtime, f"UPDATE budgets SET {column} = {column} + 1")
        (fault,) = runtime.check().of("counter")
        assert sentence in fault.sentence
        tamper(runtime, f"UPDATE budgets SET {column} = {column} - 1")
    tamper(runtime, "UPDATE limits SET day_fires = day_fires - 1")
    (fault,) = runtime.check().of("counter")
    assert "the row says 1 firings in the day, the jobs make 2" in fault.sentence
    tamper(runtime, "UPDATE limits SET day_fires = day_fires + 1")


def ended_by_release_0_1(runtime: Tenant, job: Job, amount: int) -> None:
    """Bring the rows to what release 0.1 leaves when it ends a run: the cost is not noted, the budget not touched."""
    forget = "cost_amount = NULL, cost_estimated = NULL, cost_unit = NULL, cost_source = NULL"
    tamper(runtime, f"UPDATE jobs SET {forget} WHERE job_id = '{job.job_id}'")
    caught_up = amount if job.origin == "catch_up" else 0
    sums = f"day_cost = day_cost - {amount}, month_cost = month_cost - {amount}, total_cost = total_cost - {amount}"
    more = "caught_up_day_cost = caught_up_day_cost - {0}, caught_up_month_cost = caught_up_month_cost - {0}"
    sums += f", estimated_day_cost = estimated_day_cost - {amount}"
    sums += f", estimated_month_cost = estimated_month_cost - {amount}"
    sums += f", estimated_total_cost = estimated_total_cost - {amount}"
    held = f"reserved = reserved + {amount}, caught_up_reserved = caught_up_reserved + {caught_up}"
    tamper(runtime, f"UPDATE budgets SET {sums}, {more.format(caught_up)}, {held}")


def spending(runtime: Tenant) -> Spending:
    (found,) = runtime.runtime.catalogue.spendings()
    return found


def test_what_release_0_1_ended_gives_back_its_reservation_and_counts_as_its_estimate(
    runtime: Tenant,
) -> None:
    runtime.add("a", every="1m", **money(cost_per_day="3 USD", cost_per_run="1 USD"))
    runtime.step()
    (job,) = runtime.run()
    expected = spending(runtime)
    ended_by_release_0_1(runtime, job, USD)
    runtime.wait_and_step("1m")  # the second run is on its way
    (fault,) = runtime.check().of("counter")
    assert "the row says 2000000 reserved, the jobs make 1000000" in fault.sentence
    nodes = [runtime, runtime.neighbour()] if runtime.capabilities.several_processes else [runtime]
    with ThreadPoolExecutor(len(nodes)) as threads:
        changed = threads.map(lambda node: give_back_leftovers(node.runtime), nodes)
        assert max(changed) == 1
    assert spending(runtime)._replace(announced="", refill_at=None) == expected._replace(reserved=USD)
    ended = runtime.job(job.job_id)
    assert (ended.cost_amount, ended.cost_estimated, ended.cost_source) == (USD, USD, "estimated")
    assert runtime.check().is_clean
    assert give_back_leftovers(runtime.runtime) == 0
    runtime.run()
    runtime.wait_and_step("1m")  # and the third fits
    assert (len(runtime.jobs()), runtime.reasons("a")) == (3, [])
    assert runtime.check().is_clean


def test_what_release_0_1_ended_yesterday_is_not_counted_today(runtime: Tenant) -> None:
    runtime.add("a", every="1d", catch_up="run_all", **money(cost_per_day="3 USD", cost_per_run="1 USD"))
    runtime.step()
    (job,) = runtime.run()
    ended_by_release_0_1(runtime, job, USD)
    runtime.wait_and_step("1d")
    assert give_back_leftovers(runtime.runtime) == 1
    found = spending(runtime)
    assert (found.day_cost, found.month_cost, found.total_cost, found.reserved) == (0, USD, USD, USD)
    assert runtime.check().is_clean


def test_what_release_0_1_cancelled_before_it_began_costs_nothing(runtime: Tenant) -> None:
    runtime.add("a", every="1m", **money(cost_per_day="3 USD", cost_per_run="1 USD"))
    runtime.step()
    (job,) = runtime.jobs()
    runtime.cancel(job.job_id)
    tamper(runtime, f"UPDATE budgets SET reserved = reserved + {USD}")
    assert len(runtime.check().of("counter")) == 1
    assert prune(runtime.runtime, dry_run=True) and not runtime.check().is_clean
    prune(runtime.runtime)
    assert (spending(runtime).reserved, spending(runtime).day_cost) == (0, 0)
    assert runtime.job(job.job_id).cost_source is None
    assert runtime.check().is_clean


def tamper(runtime: Tenant, statement: str) -> None:
    runtime.runtime.catalogue._store.write(Lane.API, lambda tx: tx.run(composed(statement)))
