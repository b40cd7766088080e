"""The jobs of a span: counted, listed and named as a look at every job does it, on every database."""

from __future__ import annotations

import re
from collections import Counter
from itertools import product
from typing import get_args

from everwhen.model.instants import MINUTE, SECOND
from everwhen.model.job import Job, JobStatus
from everwhen.model.queries import ScheduleFilter
from everwhen.store.job_spans import NOT_SUCCEEDED
from tests.conformance.tenant import FAILED, Tenant


def live(runtime: Tenant, *, fails: bool) -> None:
    """Let four schedules fire for six minutes: jobs of every origin but hooks, most of which succeed or fail."""
    for name, owner in (("a", "ada"), ("b", "ada"), ("c", None), ("retried", "bob")):
        runtime.add(
            name, every="1m", owner=owner, max_retries=1 if name == "retried" else 0, retry_delay="1s"
        )
    for number in range(6):
        runtime.wait_and_step("1m")
        if number == 4:
            runtime.trigger("a")
        claimed = runtime.claim()
        for one in claimed[number % 2 :]:
            is_bad = one.job.schedule_id == "retried" or fails
            runtime.settle(one, **({"outcome": FAILED} if is_bad else {}))
    runtime.wait("1m")
    runtime.step()  # and some wait for a worker


def expected(
    jobs: list[Job], since: int, until: int, names: set[str] | None, width: int
) -> Counter[tuple[int, str]]:
    return Counter(
        ((job.slot_at - since) // width, job.status)
        for job in jobs
        if since <= job.slot_at < until and (names is None or job.schedule_id in names)
    )


FILTERS: tuple[tuple[ScheduleFilter, set[str] | None], ...] = (
    (ScheduleFilter(), None),
    (ScheduleFilter(owner="ada"), {"a", "b"}),
    (ScheduleFilter(text="RETR"), {"retried"}),
    (ScheduleFilter(text="none of them"), set()),
)


def check(runtime: Tenant, begin: int) -> None:
    ledger, jobs = runtime.runtime.ledger, runtime.jobs()
    uids = {job.schedule_id: job.uid for job in jobs}
    by_uid = ScheduleFilter(uids={uids["b"], uids["c"]})
    spans = ((begin, runtime.now + 1), (begin + 90 * SECOND, begin + 4 * MINUTE), (begin, begin + 1))
    for (since, until), (wanted, names) in product(spans, (*FILTERS, (by_uid, {"b", "c"}))):
        for width in (MINUTE, 7 * SECOND, 100 * MINUTE):
            found = Counter[tuple[int, str]]()
            for one in ledger.job_counts(since, until, wanted, width=width):
                found[one.stretch, one.status] += one.jobs
            assert found == expected(jobs, since, until, names, width), (wanted, since, until, width)
        of_each = Counter[tuple[str, int, str]]()
        for each in ledger.job_counts_of_each(since, until, set(uids.values()), width=MINUTE):
            of_each[each.uid, each.stretch, each.status] += each.jobs
        assert of_each == Counter(
            (job.uid, (job.slot_at - since) // MINUTE, job.status)
            for job in jobs
            if since <= job.slot_at < until
        )
        matching = [
            job
            for job in jobs
            if since <= job.slot_at < until and (names is None or job.schedule_id in names)
        ]
        matching.sort(key=lambda job: (job.slot_at, job.row_id))
        listed = ledger.jobs_between(since, until, wanted, limit=100)
        assert [job.job_id for job in listed] == [job.job_id for job in matching]
        for shown, job in zip(listed, matching, strict=True):
            assert shown._asdict().items() <= job._asdict().items()
        assert ledger.job_numbers(since, until, wanted) == Counter(job.uid for job in matching)
        # Of slots at the same time any may be among the first.
        first = ledger.jobs_between(since, until, wanted, limit=3)
        assert [job.slot_at for job in first] == [job.slot_at for job in matching[:3]]
        assert set(first) <= set(listed)
        for most in (3, 100):
            counted = ledger.count_jobs_between(since, until, wanted, most=most)
            assert counted == min(most, len(matching))


def test_a_span_whose_jobs_mostly_succeeded_is_counted_as_it_is(runtime: Tenant) -> None:
    begin = runtime.now
    live(runtime, fails=False)
    assert {job.status for job in runtime.jobs()} >= {"succeeded", "failed", "running", "queued"}
    check(runtime, begin)


def test_a_span_whose_jobs_mostly_failed_is_counted_as_it_is(runtime: Tenant) -> None:
    begin = runtime.now
    live(runtime, fails=True)
    check(runtime, begin)


def test_every_status_of_a_job_but_success_is_looked_up() -> None:
    assert sorted(re.findall(r"'(\w+)'", "".join(NOT_SUCCEEDED))) == sorted(
        {*get_args(JobStatus)} - {"succeeded"}
    )
