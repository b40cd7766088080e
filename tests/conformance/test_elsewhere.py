"""Jobs whose work goes on elsewhere: handed over, reported, overdue, cancelled."""

from __future__ import annotations

from hashlib import sha256

import pytest

from everwhen.errors import OutcomeError, UnknownJobError
from everwhen.model.claim import ClaimedJob
from everwhen.model.outcome import Outcome
from everwhen.operations.jobs import report_outcome
from tests.conformance.tenant import Tenant

TOKEN = "a token of 256 bits"
AWAITED = Outcome("succeeded", awaits=sha256(TOKEN.encode()).hexdigest())


def handed_over(house: Tenant, **words: object) -> ClaimedJob:
    house.add("g.a", every="1h", group="g", max_concurrent=1, **words)
    house.step()
    (claimed,) = house.claim()
    assert house.settle(claimed, outcome=AWAITED) == 1
    return claimed


def report(house: Tenant, claimed: ClaimedJob, token: str = TOKEN, **keys: object) -> None:
    words = {"status": "succeeded", **keys}
    report_outcome(house.house, claimed.job.job_id, token, **words)  # type: ignore[arg-type]


def test_a_job_that_was_handed_over_runs_on_and_belongs_to_no_node(house: Tenant) -> None:
    claimed = handed_over(house)
    job = house.job(claimed.job.job_id)
    assert (job.status, job.released_at) == ("running", None)
    assert (house.state("g.a").outstanding, house.state("g.a").running_jobs) == (1, 1)
    house.wait("5m")  # longer than any lease
    assert house.house.slots.rescue(house.now, node="node-2", lease=30_000_000) == 0
    assert house.job(job.job_id).status == "running"


def test_a_report_with_the_token_ends_it_once(house: Tenant) -> None:
    claimed = handed_over(house)
    report(house, claimed, result="42")
    job = house.job(claimed.job.job_id)
    assert (job.status, job.result, job.ended_at, job.released_at) == (
        "succeeded",
        "42",
        house.now,
        house.now,
    )
    state = house.state("g.a")
    assert (state.outstanding, state.running_jobs, state.run_count) == (0, 0, 1)
    with pytest.raises(UnknownJobError):
        report(house, claimed, status="failed")
    assert house.job(job.job_id) == job


@pytest.mark.parametrize(("retry", "jobs"), [(True, 2), (False, 1)])
def test_a_report_of_failure_may_be_final(house: Tenant, retry: bool, jobs: int) -> None:
    claimed = handed_over(house, max_retries=3)
    report(house, claimed, status="failed", error="no luck", retry=retry)
    assert house.job(claimed.job.job_id).error == "no luck"
    assert len(house.jobs("g.a")) == jobs


def test_another_token_is_told_nothing_and_changes_nothing(house: Tenant) -> None:
    claimed = handed_over(house)
    before = house.job(claimed.job.job_id)
    for token in ("", "another", AWAITED.awaits or ""):
        with pytest.raises(UnknownJobError):
            report(house, claimed, token)
    assert house.job(claimed.job.job_id) == before


def test_a_report_that_comes_too_early_is_asked_to_come_again(house: Tenant) -> None:
    house.add("a", every="1h")
    house.step()
    (claimed,) = house.claim()
    with pytest.raises(OutcomeError, match="try again in a second"):
        report(house, claimed)
    with pytest.raises(OutcomeError, match="neither succeeded nor failed"):
        report(house, claimed, status="lost")
    assert house.job(claimed.job.job_id).status == "running"


def test_past_its_deadline_it_is_timed_out_by_whoever_looks(house: Tenant) -> None:
    claimed = handed_over(house, timeout="2m")
    house.wait("1m")
    assert house.house.slots.end_overdue(house.now) == 0
    house.wait("1m")
    assert house.house.slots.end_overdue(house.now) == 1
    assert house.house.slots.end_overdue(house.now) == 0
    job = house.job(claimed.job.job_id)
    assert (job.status, job.error) == ("timed_out", "timed out: no outcome was reported in time")
    assert (house.state("g.a").running_jobs, house.state("g.a").error_count) == (0, 1)
    with pytest.raises(UnknownJobError):
        report(house, claimed)


def test_a_cancelled_one_is_let_go_of_and_a_late_report_changes_nothing(house: Tenant) -> None:
    claimed = handed_over(house)
    house.cancel(claimed.job.job_id)
    with pytest.raises(UnknownJobError):
        report(house, claimed)
    assert house.house.slots.end_overdue(house.now) == 1
    assert house.job(claimed.job.job_id).status == "cancelled"
    assert house.state("g.a").running_jobs == 0


def test_one_that_was_cancelled_before_it_was_handed_over_is_let_go_of(house: Tenant) -> None:
    house.add("a", every="1h")
    house.step()
    (claimed,) = house.claim()
    house.cancel(claimed.job.job_id)
    house.settle(claimed, outcome=AWAITED)
    assert house.job(claimed.job.job_id).status == "cancelled"
    assert house.state("a").running_jobs == 0
