"""The verdict finds broken promises: each one, broken in a constructed record, is reported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from everwhen.model.job import Job
from everwhen.verify.ledger import LedgerReport
from tests.crash.witness import Peaks
from tests.proof.account import Account
from tests.proof.nemesis import Diary, Struck
from tests.proof.overlaps import Nodes
from tests.proof.plan import Strike
from tests.proof.processes import Absence, Supervised
from tests.proof.verdict import broken_work, longest_gap, recoveries, silences
from tests.proof.work import Line

CLEAN = LedgerReport(1, 1, 1, (), 0)


def a_job(job_id: str = "j1", **fields: Any) -> Job:
    blank = dict.fromkeys(Job._fields)
    given = {
        "job_id": job_id,
        "schedule_id": "s",
        "uid": "u",
        "status": "succeeded",
        "attempt": 1,
        "rescues": 0,
        "row_id": 1,
    }
    return Job(**{**blank, "origin": "schedule", **given, **fields})


def a_line(at: float, what: str, job_id: str = "j1", attempt: int = 1) -> Line:
    return Line(at, what, job_id, attempt, "s", "worker 1")


def an_account(jobs: list[Job], lines: list[Line]) -> Account:
    return Account(CLEAN, lines, {job.job_id: job for job in jobs})


def work_of(account: Account, **ends: Sequence[float]) -> list[str]:
    return broken_work(
        account, Nodes(account.lost_nodes, {name.replace("_", " "): at for name, at in ends.items()})
    )


RUN = [a_line(1, "begin"), a_line(2, "end")]


def test_work_that_was_done_once_breaks_nothing() -> None:
    assert work_of(an_account([a_job()], RUN)) == []


def test_an_attempt_that_began_twice_is_doubled() -> None:
    (said,) = work_of(an_account([a_job()], [*RUN, a_line(3, "begin")]))
    assert said == "doubled: attempt 1 of j1 began 2 times"


def test_a_success_that_nobody_saw_is_lost() -> None:
    (said,) = work_of(an_account([a_job(attempt=2)], RUN))
    assert "succeeded in attempt 2, and nobody saw it run" in said


def test_work_that_is_not_on_record_is_lost() -> None:
    assert [said.split(":")[0] for said in work_of(an_account([], RUN))] == ["lost", "lost"]


def test_work_of_an_attempt_that_is_not_on_record_is_lost() -> None:
    again = [a_line(3, "begin", attempt=2), a_line(4, "end", attempt=2)]
    assert "the record has 1" in work_of(an_account([a_job()], [*RUN, *again]))[0]


def test_lost_work_is_repeated_unless_it_must_not_be() -> None:
    jobs, lines = [a_job(attempt=2, rescues=1)], [a_line(1, "begin"), a_line(5, "begin", attempt=2)]
    account = an_account(jobs, [*lines, a_line(6, "end", attempt=2)])
    assert work_of(account) == []
    (said,) = work_of(replace(account, only_once={"u"}))
    assert said == "doubled: j1 of s ran 2 times, with on_lost: fail"


def test_two_jobs_of_one_schedule_at_once_overlap_unless_they_are_allowed_to() -> None:
    lines = [a_line(1, "begin"), a_line(2, "begin", "j2"), a_line(3, "end"), a_line(4, "end", "j2")]
    account = an_account([a_job(), a_job("j2")], lines)
    (said,) = work_of(account)
    assert (
        said == "overlap: attempt 1 of j2 began 1.00 s before attempt 1 of j1 was over (plain, on worker 1)"
    )
    assert work_of(replace(account, allowing={"u"})) == []


def test_a_job_that_was_taken_over_overlaps_itself_only_while_its_first_node_is_alive() -> None:
    lines = [
        a_line(1, "begin"),
        a_line(5, "begin", attempt=2),
        a_line(5.5, "still"),
        a_line(6, "end", attempt=2),
    ]
    account = an_account([a_job(attempt=2, rescues=1)], lines)
    assert work_of(account) == []  # it was cut off
    (said,) = work_of(account, worker_1=[2.0])  # its node was killed, and what it ran goes on
    assert "began 0.50 s before attempt 1 of j1 was over (taken over, on worker 1)" in said
    assert work_of(account, worker_1=[5.2], worker_2=[2.0]) == []
    assert len(work_of(replace(account, allowing={"u"}), worker_1=[2.0])) == 1


def test_a_job_that_was_cancelled_is_over_before_the_next_one_begins() -> None:
    lines = [a_line(1, "begin"), a_line(2, "begin", "j2"), a_line(2.5, "cancelled"), a_line(4, "end", "j2")]
    account = an_account([a_job(status="cancelled", node="n1"), a_job("j2")], lines)
    (said,) = work_of(account)
    assert said.endswith("(cancelled, on worker 1)")
    assert work_of(replace(account, lost_nodes=frozenset({"n1"}))) == []
    taken_over = a_job(status="cancelled", rescues=1, node=None)
    assert work_of(an_account([taken_over, a_job("j2")], lines)) == []


def test_a_limit_that_was_passed_is_named() -> None:
    peaks = Peaks({"guarded:poll": 2}, {"crowded": 3}, {})
    (said,) = work_of(replace(an_account([a_job()], RUN), peaks=peaks))
    assert said == "limit: 3 jobs of crowded ran at once, 2 may"


def test_recovery_is_counted_from_the_healing_and_silence_from_the_work_before() -> None:
    strike = Strike(4, "kill PostgreSQL", 1, 2, 0)
    diary = Diary(0, [Struck(strike, 4, 6), Struck(strike, 11, 12)], 20)
    lines = [a_line(at, "begin") for at in (1.0, 3.5, 7.0, 10.0)]
    first, second = recoveries(lines, diary)
    assert (first.silence, first.seconds) == (3.5, 1.0)
    assert (second.silence, second.seconds) == (2.0, None)
    assert longest_gap(lines, diary) == 3.5


def test_a_silence_is_reported_with_the_faults_and_the_absences_around_it() -> None:
    kill, freeze = Strike(4, "kill a worker", 1, 2, 0), Strike(30, "freeze a worker", 2, 1, 0)
    diary = Diary(0, [Struck(kill, 4, 6), Struck(freeze, 30, 31)], 40)
    worker, other = (Supervised(name, (), {}, Path("log"), "") for name in ("worker 1", "worker 2"))
    worker.absences = [Absence(4, 8), Absence(20)]
    lines = [a_line(at, "begin") for at in (1.0, 3.5, 7.0, 10.0, 29.0)]
    first, second = silences(lines, diary, [worker, other], at_least=3.5)
    assert (first.began, first.ended, first.faults) == (3.5, 7.0, [str(kill)])
    assert first.absent == ["worker 1 for 3.0 s"]
    assert (second.faults, second.absent) == ([], ["worker 1 for 9.0 s"])
