"""Jobs whose work continues in another system: handed over, reported, overdue, cancelled."""

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


def handed_over(runtime: Tenant, **fields: object) -> ClaimedJob:
    runtime.add("g.a", every="1h", group="g", max_concurrent=1, **fields)
    runtime.step()
    (claimed,) = runtime.claim()
    assert runtime.settle(claimed, outcome=AWAITED) == 1
    return claimed


def report(runtime: Tenant, claimed: ClaimedJob, token: str = TOKEN, **keys: object) -> None:
    fields = {"status": "succeeded", **keys}
    report_outcome(runtime.runtime, claimed.job.job_id, token, **fields)  # type: ignore[arg-type]


def test_a_job_that_was_handed_over_runs_on_and_belongs_to_no_node(runtime: Tenant) -> None:
    claimed = handed_over(runtime)
    job = runtime.job(claimed.job.job_id)
    assert (job.status, job.released_at) == ("running", None)
    assert (runtime.state("g.a").outstanding, runtime.state("g.a").running_jobs) == (1, 1)
    runtime.wait("5m")  # longer than any lease
    assert runtime.runtime.slots.rescue(runtime.now, node="node-2", lease=30_000_000) == 0
    assert runtime.job(job.job_id).status == "running"


def test_a_report_with_the_token_ends_it_once(runtime: Tenant) -> None:
    claimed = handed_over(runtime)
    report(runtime, claimed, result="42")
    job = runtime.job(claimed.job.job_id)
    assert (job.status, job.result, job.ended_at, job.released_at) == (
        "succeeded",
        "42",
        runtime.now,
        runtime.now,
    )
    state = runtime.state("g.a")
    assert (state.outstanding, state.running_jobs, state.run_count) == (0, 0, 1)
    with pytest.raises(UnknownJobError):
        report(runtime, claimed, status="failed")
    assert runtime.job(job.job_id) == job


@pytest.mark.parametrize(("retry", "jobs"), [(True, 2), (False, 1)])
def test_a_report_of_failure_may_be_final(runtime: Tenant, retry: bool, jobs: int) -> None:
    claimed = handed_over(runtime, max_retries=3)
    report(runtime, claimed, status="failed", error="no luck", retry=retry)
    assert runtime.job(claimed.job.job_id).error == "no luck"
    assert len(runtime.jobs("g.a")) == jobs


def test_another_token_learns_nothing_and_changes_nothing(runtime: Tenant) -> None:
    claimed = handed_over(runtime)
    before = runtime.job(claimed.job.job_id)
    for token in ("", "another", AWAITED.awaits or ""):
        with pytest.raises(UnknownJobError):
            report(runtime, claimed, token)
    assert runtime.job(claimed.job.job_id) == before


def test_a_report_that_comes_too_early_is_asked_to_come_again(runtime: Tenant) -> None:
    runtime.add("a", every="1h")
    runtime.step()
    (claimed,) = runtime.claim()
    with pytest.raises(OutcomeError, match="try again in a second"):
        report(runtime, claimed)
    with pytest.raises(OutcomeError, match="neither succeeded nor failed"):
        report(runtime, claimed, status="lost")
    assert runtime.job(claimed.job.job_id).status == "running"


def test_past_its_deadline_it_is_timed_out_by_whoever_looks(runtime: Tenant) -> None:
    claimed = handed_over(runtime, timeout="2m")
    runtime.wait("1m")
    assert runtime.runtime.slots.end_overdue(runtime.now) == 0
    runtime.wait("1m")
    assert runtime.runtime.slots.end_overdue(runtime.now) == 1
    assert runtime.runtime.slots.end_overdue(runtime.now) == 0
    job = runtime.job(claimed.job.job_id)
    assert (job.status, job.error) == ("timed_out", "timed out: no outcome was reported in time")
    assert (runtime.state("g.a").running_jobs, runtime.state("g.a").error_count) == (0, 1)
    with pytest.raises(UnknownJobError):
        report(runtime, claimed)


def test_a_cancelled_one_is_let_go_of_and_a_late_report_changes_nothing(runtime: Tenant) -> None:
    claimed = handed_over(runtime)
    runtime.cancel(claimed.job.job_id)
    with pytest.raises(UnknownJobError):
        report(runtime, claimed)
    assert runtime.runtime.slots.end_overdue(runtime.now) == 1
    assert runtime.job(claimed.job.job_id).status == "cancelled"
    assert runtime.state("g.a").running_jobs == 0


def test_one_that_was_cancelled_before_it_was_handed_over_is_let_go_of(runtime: Tenant) -> None:
    runtime.add("a", every="1h")
    runtime.step()
    (claimed,) = runtime.claim()
    runtime.cancel(claimed.job.job_id)
    runtime.settle(claimed, outcome=AWAITED)
    assert runtime.job(claimed.job.job_id).status == "cancelled"
    assert runtime.state("a").running_jobs == 0
