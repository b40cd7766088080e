"""Pages of jobs, and quiet-hours policies that are not declared in the file, on every store."""

from __future__ import annotations

from collections import Counter

import pytest

from everwhen.errors import DuplicatePolicyError, PolicyInUseError, SourceError, UnknownPolicyError
from everwhen.model.declare import Declarations
from everwhen.model.instants import MINUTE
from everwhen.model.outcome import SUCCEEDED
from everwhen.model.queries import JobFilter, ScheduleFilter
from everwhen.operations import quiet_hours
from everwhen.operations.apply import apply
from tests.conformance.tenant import FAILED, Tenant


def ids(runtime: Tenant, wanted: JobFilter, **more: int) -> list[str]:
    return [
        job.job_id
        for job in runtime.runtime.ledger.job_page(wanted, limit=more.pop("limit", 50), **more).jobs
    ]


def test_jobs_are_found_by_whatever_is_asked_for(runtime: Tenant) -> None:
    ada = runtime.add("ada", every="1m", owner="ada")
    runtime.add("team.bob", every="1m", owner="bob", group="team")
    for number in range(3):
        runtime.wait_and_step("1m")
        runtime.run(FAILED if number == 1 else SUCCEEDED)
    of_ada = [f"sched-{ada.uid}-n{number}-rc0" for number in (3, 2, 1)]
    every = ids(runtime, JobFilter())
    assert len(every) == 6
    assert ids(runtime, JobFilter(owner="ada")) == of_ada == ids(runtime, JobFilter(uid=ada.uid))
    assert set(ids(runtime, JobFilter(group="team"))) == set(every) - set(of_ada)
    assert ids(runtime, JobFilter(statuses=["failed"], owner="ada")) == [of_ada[1]]
    assert len(ids(runtime, JobFilter(statuses=["failed"]))) == 2
    assert len(ids(runtime, JobFilter(statuses=["succeeded"]))) == 4
    assert ids(runtime, JobFilter(statuses=["running"])) == []
    assert ids(runtime, JobFilter(owner="nobody")) == []
    assert (
        ids(runtime, JobFilter(uid=ada.uid, owner="bob"))
        == ids(runtime, JobFilter(uid=ada.uid, group="team"))
        == []
    )
    first = runtime.runtime.ledger.job_page(JobFilter(), limit=4)
    assert (first.total, first.is_approximate) == (6, False)
    rest = runtime.runtime.ledger.job_page(JobFilter(), limit=4, before=first.next_before)
    assert [job.job_id for job in (*first.jobs, *rest.jobs)] == every
    assert rest.next_before is None
    assert ids(runtime, JobFilter(), offset=5) == every[5:]


def test_jobs_of_a_span_are_listed_and_counted(runtime: Tenant) -> None:
    ada = runtime.add("ada", every="1m", owner="ada")
    runtime.add("bob", every="1m", owner="bob")
    begin = runtime.now
    for _ in range(3):
        runtime.wait_and_step("1m")
        runtime.run()
    runtime.trigger("ada")
    ledger, end = runtime.runtime.ledger, runtime.now + 1
    every = ledger.jobs_between(begin, end, limit=100)
    assert len(every) == 7 and every == sorted(every, key=lambda job: job.slot_at)
    assert ledger.jobs_between(begin, end, limit=2) == every[:2]
    of_ada = ledger.jobs_between(begin, end, ScheduleFilter(owner="ada"), limit=100)
    assert {job.uid for job in of_ada} == {ada.uid} and len(of_ada) == 4
    assert ledger.jobs_between(end, end + 1, limit=100) == []
    counts = Counter[tuple[int, str]]()
    for found in ledger.job_counts(begin, end, width=MINUTE):
        counts[found.stretch, found.status] += found.jobs
    by_hand = Counter(((job.slot_at - begin) // MINUTE, job.status) for job in every)
    assert counts == by_hand
    assert (
        sum(one.jobs for one in ledger.job_counts(begin, end, ScheduleFilter(owner="bob"), width=MINUTE)) == 3
    )


def test_a_policy_is_added_once_changed_and_removed_when_nobody_uses_it(runtime: Tenant) -> None:
    runtime.put_quiet_hours("22:00-07:00", "skip")
    (policy,) = runtime.runtime.catalogue.policies()
    with pytest.raises(DuplicatePolicyError):
        quiet_hours.create_quiet_hours(runtime.runtime, policy)
    runtime.add("a", every="1h", quiet_hours="nights")
    with pytest.raises(PolicyInUseError, match=r"used by 1 schedule \(a\)"):
        quiet_hours.delete_own_quiet_hours(runtime.runtime, "nights")
    changed = quiet_hours.change_quiet_hours(runtime.runtime, "nights", lambda p: p._replace(action="defer"))
    assert runtime.runtime.catalogue.policies() == [changed] and changed.action == "defer"
    for verb in (
        lambda: quiet_hours.change_quiet_hours(runtime.runtime, "days", lambda p: p),
        lambda: quiet_hours.delete_own_quiet_hours(runtime.runtime, "days"),
    ):
        with pytest.raises(UnknownPolicyError):
            verb()


def test_a_policy_of_the_file_is_left_alone(runtime: Tenant) -> None:
    runtime.put_quiet_hours("22:00-07:00", "skip")
    (policy,) = runtime.runtime.catalogue.policies()
    quiet_hours.delete_own_quiet_hours(runtime.runtime, "nights")
    apply(runtime.runtime, Declarations((), (policy,), "digest"))
    with pytest.raises(SourceError):
        quiet_hours.change_quiet_hours(runtime.runtime, "nights", lambda p: p)
    with pytest.raises(SourceError):
        quiet_hours.delete_own_quiet_hours(runtime.runtime, "nights")
    assert quiet_hours.get_entry(runtime.runtime, "nights").source == "config"
