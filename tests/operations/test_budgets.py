"""Budgets over whole histories on the manual clock: reserved before a run, settled after it, refilled by the window."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everwhen.model.claim import ClaimedJob
from everwhen.model.cost import NOTHING, Cost, parse_cost
from everwhen.model.instants import to_datetime
from everwhen.model.outcome import SUCCEEDED, Outcome
from everwhen.testing import ManualScheduler, manual_scheduler

START = "2026-01-05T08:00:00Z"


def costs(amount: str) -> Outcome:
    return Outcome("succeeded", cost=parse_cost(amount))


def add(s: ManualScheduler, schedule_id: str = "a", every: str = "1h", **terms: Any) -> None:
    keys = {
        key: terms.pop(key)
        for key in ("catch_up", "max_retries", "retry_delay", "if_running")
        if key in terms
    }
    s.add(schedule_id, every=every, owner="team", budgets={"team": terms}, **keys)


def spent(s: ManualScheduler) -> int:
    return sum(job.cost_amount or 0 for job in s.jobs())


def skips(s: ManualScheduler, schedule_id: str = "a") -> list[str]:
    found = s.events(schedule_id, "schedule.skipped")
    return [f"{to_datetime(one.slot_at or 0):%H:%M}" for one in found if one.reason == "budget"]


def about(s: ManualScheduler, kind: str) -> list[tuple[object, ...]]:
    return [(one.detail["limit"], one.detail.get("used"), one.detail["key"]) for one in s.events(None, kind)]


def test_runs_go_on_until_the_next_estimate_does_not_fit() -> None:
    s = manual_scheduler(START, outcome=lambda _: costs("1 USD"))
    add(s, cost_per_day="5 USD")
    s.advance("10h")
    assert [job.cost_amount for job in s.jobs("a")] == [1_000_000] * 5
    assert skips(s) == ["13:00", "14:00", "15:00", "16:00", "17:00", "18:00"]
    assert about(s, "budget.warning") == [("cost_per_day", 4_000_000, "budget:team")]
    assert about(s, "budget.reached") == [("cost_per_day", 5_000_000, "budget:team")]
    assert s.check().is_clean


def test_a_new_day_refills_it_and_the_event_counts_the_slots_skipped() -> None:
    s = manual_scheduler(START, outcome=lambda _: costs("1 USD"))
    add(s, cost_per_day="5 USD")
    s.advance("17h")
    (event,) = s.events(None, "budget.refilled")
    assert (event.detail["skipped"], event.detail["reached"]) == (11, True)
    assert str(to_datetime(event.at)) == "2026-01-06 00:00:00+00:00"
    assert len(s.jobs("a")) == 7
    assert s.check().is_clean


def test_the_estimate_is_the_mean_of_the_reports_at_most_the_cost_of_a_run() -> None:
    s = manual_scheduler(START)
    add(s, cost_per_day="100 USD", cost_per_run="2 USD")
    reserved: list[str | None] = []

    def run(claimed: ClaimedJob) -> Outcome:
        reserved.append(claimed.job.cost_reserved)
        return costs("1 USD" if len(reserved) == 1 else "6 USD")

    s.outcome = run
    s.advance("2h")
    assert reserved == [f'{{"budget:team":[{amount},"USD"]}}' for amount in (2_000_000, 1_000_000, 2_000_000)]
    assert s.check().is_clean


def test_the_last_twenty_reports_make_the_estimate() -> None:
    s = manual_scheduler(START)
    add(s, every="10m", cost_per_day="900 USD")
    reserved: list[str | None] = []

    def run(claimed: ClaimedJob) -> Outcome:
        reserved.append(claimed.job.cost_reserved)
        return costs("21 USD" if len(reserved) == 1 else "1 USD")

    s.outcome = run
    s.advance("210m")
    assert reserved[20:] == [f'{{"budget:team":[{amount},"USD"]}}' for amount in (2_000_000, 1_000_000)]


def test_the_warning_comes_at_80_per_cent() -> None:
    s = manual_scheduler(START)
    add(s, every="10m", fires_per_day=10)
    s.advance("60m")  # seven firings
    assert about(s, "budget.warning") == []
    s.advance("10m")
    assert about(s, "budget.warning") == [("fires_per_day", 8, "budget:team")]


def test_runs_that_cost_more_than_a_whole_window_are_foretold_as_such_and_not_for_its_refill() -> None:
    s = manual_scheduler(START, outcome=lambda _: costs("6 USD"))
    add(s, cost_per_day="5 USD")
    s.advance("2d")
    assert len(s.jobs("a")) == 1
    sentence = str(s.why("a").sentence)
    assert sentence.endswith(
        "which will be skipped because a run is expected to cost 6 USD, and cost_per_day of budget:team is 5 USD: set "
        "cost_per_run, or raise the limit."
    )
    assert s.check().is_clean


def test_without_reports_a_run_counts_as_its_estimate_and_the_tenth_is_recorded() -> None:
    s = manual_scheduler(START)
    add(s, every="10m", cost_per_day="5 USD")
    s.advance("2h")
    assert [(job.cost_amount, job.cost_source) for job in s.jobs("a")] == [(500_000, "estimated")] * 10
    (event,) = s.events(None, "budget.unmeasured")
    assert event.detail["runs"] == 10
    assert s.check().is_clean


def test_a_run_that_found_nothing_to_do_costs_nothing_and_changes_no_estimate() -> None:
    s = manual_scheduler(START)
    add(s, cost_per_day="5 USD", cost_per_run="1 USD")
    s.outcome = lambda _: costs("0.4 USD")
    s.advance("1h")
    s.outcome = lambda _: Outcome("succeeded", cost=NOTHING)
    s.advance("12h")
    assert {job.cost_amount for job in s.jobs("a")} == {400_000, None}
    assert (spent(s), skips(s), s.events(None, "budget.unmeasured")) == (800_000, [], [])
    s.outcome = lambda _: SUCCEEDED
    s.advance("1h")
    assert spent(s) == 1_200_000  # as estimated, by the two reports
    assert s.check().is_clean


def test_the_first_report_after_that_is_recorded_too_and_once() -> None:
    s = manual_scheduler(START)
    add(s, every="10m", cost_per_day="50 USD", cost_per_run="0.1 USD")
    s.advance("110m")  # twelve runs
    assert s.events(None, "budget.measured") == []
    s.outcome = lambda _: costs("0.1 USD")
    s.advance("30m")
    (event,) = s.events("a", "budget.measured")
    assert (event.detail, event.job_id) == ({"keys": ["budget:team"], "runs": 12}, s.jobs("a")[12].job_id)
    assert s.check().is_clean


def test_a_gap_of_less_than_ten_reports_is_not_recorded() -> None:
    s = manual_scheduler(START)
    add(s, every="10m", cost_per_day="50 USD", cost_per_run="0.1 USD")
    s.advance("80m")  # nine runs
    s.outcome = lambda _: costs("0.1 USD")
    s.advance("10m")
    assert s.events(None, "budget.unmeasured") == s.events(None, "budget.measured") == []


def test_a_cost_in_another_unit_is_no_report() -> None:
    s = manual_scheduler(START, outcome=lambda _: costs("1000 TOKENS"))
    add(s, cost_per_day="5 USD")
    s.step()
    (job,) = s.jobs("a")
    assert (job.cost_amount, job.cost_unit, job.cost_source) == (1_000_000_000, "TOKENS", "reported")
    s.advance("12h")
    assert len(s.jobs("a")) == 10  # each counted as half a dollar
    assert s.check().is_clean


def test_a_run_that_costs_more_than_its_estimate_is_not_stopped_and_the_next_is_skipped() -> None:
    s = manual_scheduler(START, outcome=lambda _: costs("7 USD"))
    add(s, cost_per_day="5 USD")
    s.advance("3h")
    assert (len(s.jobs("a")), skips(s)) == (1, ["09:00", "10:00", "11:00"])
    assert about(s, "budget.reached") == [("cost_per_day", 7_000_000, "budget:team")]
    assert s.check().is_clean


def test_a_month_is_a_limit_of_its_own() -> None:
    s = manual_scheduler("2026-01-30T22:00:00Z", outcome=lambda _: costs("2 USD"))
    add(s, every="12h", cost_per_month="5 USD", cost_per_run="2 USD")
    s.advance("3d")
    fired = [f"{job.slot:%d %H:%M}" for job in s.jobs("a")]
    assert sorted(fired) == ["01 10:00", "01 22:00", "30 22:00", "31 10:00"]
    (event,) = s.events(None, "budget.refilled")
    assert str(to_datetime(event.at)) == "2026-02-01 00:00:00+00:00"
    assert s.check().is_clean


def test_on_reached_pause_pauses_until_the_refill_and_nothing_of_the_span_fires() -> None:
    s = manual_scheduler(START, outcome=lambda _: costs("1 USD"))
    add(s, cost_per_day="2 USD", on_reached="pause")
    s.advance("3h")
    state = s.state("a")
    assert (state.status, state.paused_by, skips(s)) == ("paused", "budget", ["10:00"])
    assert "since Mon 2026-01-05 10:00:00 UTC, until Tue 2026-01-06 00:00:00 UTC" in s.why("a").sentence
    s.advance("14h")
    assert (s.state("a").status, len(s.jobs("a")), skips(s)) == ("active", 3, ["10:00"])
    assert s.check().is_clean


def test_on_reached_alert_refuses_nothing_and_says_it_once() -> None:
    s = manual_scheduler(START, outcome=lambda _: costs("1 USD"))
    add(s, cost_per_day="2 USD", on_reached="alert")
    s.advance("5h")
    assert (len(s.jobs("a")), skips(s)) == (6, [])
    assert len(s.events(None, "budget.reached")) == 1
    assert s.check().is_clean


def test_manual_runs_count_and_are_never_refused() -> None:
    s = manual_scheduler(START, outcome=lambda _: costs("1 USD"))
    add(s, cost_per_day="2 USD", fires_per_day=10)
    s.step()
    for _ in range(3):
        assert s.trigger("a").job_id is not None
        s.step()
    s.advance("1h")
    assert (spent(s), skips(s)) == (4_000_000, ["09:00"])
    assert s.check().is_clean


def test_catch_up_takes_at_most_its_share_and_the_rest_is_missed() -> None:
    s = manual_scheduler(START, outcome=lambda _: costs("0.5 USD"))
    add(s, every="10m", catch_up="run_all", cost_per_day="10 USD", cost_per_run="0.5 USD")
    s.step()
    s.sleep("12h")
    s.step()
    caught_up = [job for job in s.jobs("a") if job.origin == "catch_up"]
    assert sum(job.cost_amount for job in caught_up) == 5_000_000  # half of the day
    missed = s.events("a", "schedule.missed")
    assert {one.reason for one in missed} == {"budget"} and sum(one.slot_count for one in missed) == 61
    s.advance("1h")
    assert s.jobs("a")[-1].origin == "schedule"  # the live day goes on
    assert s.check().is_clean


@pytest.mark.parametrize(("share", "caught_up"), [("25%", 2), ("100%", 10), (0, 1)])
def test_the_share_of_catch_up_can_be_set(share: str | int, caught_up: int) -> None:
    s = manual_scheduler(START)
    add(s, every="10m", catch_up="run_all", fires_per_day=11, catch_up_share=share)
    s.step()
    s.sleep("6h")
    s.step()
    assert sum(job.origin == "catch_up" for job in s.jobs("a")) == caught_up
    assert s.check().is_clean


def test_a_retry_that_a_budget_refuses_waits_for_the_refill() -> None:
    s = manual_scheduler("2026-01-05T22:00:00Z", outcome=lambda _: Outcome("failed", error="no"))
    add(s, every="4h", max_retries=1, retry_delay="10m", fires_per_day=1)
    s.advance("30m")
    (_, retry) = s.jobs("a")
    assert (retry.status, str(to_datetime(retry.not_before))) == ("queued", "2026-01-06 00:00:00+00:00")
    s.outcome = lambda _: SUCCEEDED
    s.advance("2h")
    assert [job.status for job in s.jobs("a")] == ["failed", "succeeded"]
    assert s.check().is_clean


def test_a_refused_retry_is_given_up_when_the_next_slot_is_due_first() -> None:
    s = manual_scheduler(START, outcome=lambda _: Outcome("failed", error="no"))
    add(s, every="1h", max_retries=1, retry_delay="10m", fires_per_day=1)
    s.advance("30m")
    (_, retry) = s.jobs("a")
    assert (retry.status, retry.reason) == ("cancelled", "budget")
    state = s.state("a")
    assert (state.status, state.failed_slots, state.current_retry) == ("active", 1, 0)
    assert "its retry was cancelled because the budget was spent" in s.why("a").sentence
    assert s.check().is_clean


@pytest.mark.parametrize(
    "keys",
    [{"after": "1m"}, {"every": "1h", "interval_from": "completion"}, {"type": "webhook"}],
    ids=["one-shot", "chain", "webhook"],
)
def test_a_retry_that_no_refill_helps_is_given_up_where_no_next_slot_ends_its_wait(
    keys: dict[str, Any],
) -> None:
    failed = Outcome("failed", error="no", cost=parse_cost("2 USD"))
    s = manual_scheduler(START, outcome=lambda _: failed)
    terms = {"cost_per_day": "1 USD"}
    s.add("a", **keys, owner="team", budgets={"team": terms}, max_retries=1, retry_delay="10m")
    if "type" in keys:
        s.fire("a")
    s.advance("30m")
    (_, retry) = s.jobs("a")
    assert (retry.status, retry.reason) == ("cancelled", "budget")
    assert s.state("a").failed_slots == 1
    assert (s.state("a").next_run_at is not None) == ("every" in keys)  # the chain goes on
    assert s.check().is_clean


def test_a_lost_attempt_counts_as_its_estimate_and_the_rescue_as_a_further_firing() -> None:
    s = manual_scheduler(START)
    add(s, cost_per_day="10 USD", cost_per_run="1 USD", fires_per_day=10)
    s.tick()
    s.claim()
    s.clock.advance("1m")
    s.restart()
    assert s.rescue()
    (claimed,) = s.claim()
    s.settle(claimed, costs("0.25 USD"))
    (job,) = s.jobs("a")
    assert (job.cost_amount, job.cost_source) == (1_250_000, "reported")
    assert job.estimated_cost == 1_000_000  # of the attempt that was lost
    assert s.check().is_clean


def test_a_cancelled_job_gives_back_what_it_reserved_and_a_running_one_counts_as_its_estimate() -> None:
    s = manual_scheduler(START)
    add(s, cost_per_day="10 USD", cost_per_run="1 USD")
    s.tick()
    s.cancel_job(s.jobs("a")[0].job_id)
    assert s.check().is_clean
    s.trigger("a")
    (claimed,) = s.claim()
    s.cancel_job(claimed.job.job_id)
    assert [job.cost_amount for job in s.jobs("a")] == [None, 1_000_000]
    assert s.check().is_clean


def test_slots_beyond_a_spent_budget_are_foretold() -> None:
    s = manual_scheduler(START, outcome=lambda _: costs("3 USD"))
    add(s, cost_per_day="5 USD")
    s.step()
    ahead = s.upcoming("a", 17)
    assert [slot.skip_reason for slot in ahead] == ["budget"] * 15 + [None] * 2
    assert (
        "will be skipped because the budget (budget:team) is spent until Tue 2026-01-06 00:00:00 UTC"
        in s.why("a").sentence
    )
    assert s.check_schedule("a").skip_reason == "not_due"


def test_a_deleted_schedule_still_settles_its_run() -> None:
    s = manual_scheduler(START)
    add(s, cost_per_day="10 USD", cost_per_run="1 USD")
    s.tick()
    (claimed,) = s.claim()
    s.delete("a")
    s.settle(claimed, costs("3 USD"))
    assert s.jobs()[0].cost_amount == 3_000_000
    assert s.check().is_clean


@settings(max_examples=60, deadline=None)
@given(
    schedules=st.lists(
        st.tuples(
            st.sampled_from(["10m", "30m", "1h", "7h"]),
            st.sampled_from(["skip", "run_once", "run_all"]),
            st.sampled_from(["skip", "queue", "allow"]),
            st.one_of(st.none(), st.just(2)),
        ),
        min_size=1,
        max_size=3,
    ),
    terms=st.fixed_dictionaries(
        {"cost_per_day": st.sampled_from(["3 USD", "5 USD"])},
        optional={
            "cost_per_run": st.sampled_from(["0.3 USD", "1 USD"]),
            "cost_per_month": st.sampled_from(["8 USD"]),
            "fires_per_hour": st.integers(1, 4),
            "fires_per_day": st.integers(1, 30),
            "on_reached": st.sampled_from(["skip", "pause"]),
        },
    ),
    runs=st.lists(
        st.tuples(st.sampled_from(["ok", "failed", "silent"]), st.integers(0, 2_000_000)),
        min_size=1,
        max_size=9,
    ),
    passes=st.lists(
        st.tuples(
            st.sampled_from(["advance", "sleep", "trigger", "lose"]), st.sampled_from(["20m", "3h", "13h"])
        ),
        min_size=1,
        max_size=8,
    ),
)
def test_the_clock_never_spends_more_than_the_limit_but_for_the_excess_of_runs_over_their_estimates(
    schedules: list[tuple[str, str, str, int | None]],
    terms: dict[str, Any],
    runs: list[tuple[str, int]],
    passes: list[tuple[str, str]],
) -> None:
    s = manual_scheduler("2026-01-30T20:00:00Z")
    done: list[int] = []

    def run(claimed: ClaimedJob) -> Outcome:
        kind, amount = runs[len(done) % len(runs)]
        done.append(amount)
        cost = None if kind == "silent" else Cost(amount, "USD")
        return Outcome("failed" if kind == "failed" else "succeeded", cost=cost)

    s.outcome = run
    for number, (every, catch_up, if_running, max_retries) in enumerate(schedules):
        keys = {"catch_up": catch_up, "if_running": if_running, "max_retries": max_retries}
        add(s, f"s{number}", every, **terms, **{key: value for key, value in keys.items() if value})
    for what, span in passes:
        if what == "advance":
            s.advance(span)
        elif what == "sleep":
            s.sleep(span)
            s.step()
        elif what == "trigger":
            s.trigger("s0")
            s.step()
        else:
            s.tick()
            s.claim(1)
            s.restart()
            s.rescue()
            s.step()
        assert s.check().is_clean, str(s.check())
    _assert_within(s, terms)
    s.close()


def _assert_within(s: ManualScheduler, terms: dict[str, Any]) -> None:
    """Every day: what runs of the clock cost is at most the limit, the excess over estimates, and what others cost."""
    limit = parse_cost(terms["cost_per_day"]).amount
    days: dict[object, list[int]] = {}
    for job in s.jobs():
        if job.ended_at is None or job.cost_amount is None or job.cost_reserved is None:
            continue
        estimate = int(job.cost_reserved.split("[")[1].split(",")[0])
        day = days.setdefault(to_datetime(job.ended_at).date(), [0, 0])
        day[0] += job.cost_amount
        is_clock = job.origin in ("schedule", "catch_up", "retry")
        day[1] += max(job.cost_amount - estimate, 0) if is_clock else job.cost_amount
    for date, (cost, excess) in days.items():
        assert cost <= limit + excess, (date, cost, excess)
