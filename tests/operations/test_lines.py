"""Which job of a schedule runs after which: catch-up, stagger, and order at the edge of a claim."""

from __future__ import annotations

from typing import Any

from everwhen.model.instants import SECOND
from everwhen.model.outcome import Outcome
from everwhen.store.opened import store_of
from everwhen.testing import ManualScheduler, manual_scheduler

FAILED = Outcome("failed", error="no luck")


def behind(*, stagger: int = 0, **fields: Any) -> ManualScheduler:
    """Back at 11:00:10 after three hours: nine and ten are missed, eleven is live."""
    s = manual_scheduler("2026-01-05T08:00:00Z", catch_up_stagger=stagger)
    s.add("a", every="1h", first_run="after_interval", catch_up="run_all", **fields)
    s.sleep("3h")
    s.sleep("10s")
    s.tick()
    return s


def hours(claimed: Any) -> list[int]:
    return [one.job.slot_at // 3_600_000_000 % 24 for one in claimed]


# -- catch-up runs one after another (C7) --


def test_catch_up_jobs_of_a_schedule_that_may_overlap_run_one_after_another() -> None:
    s = behind(if_running="allow")
    seen = []
    while claimed := s.claim():
        assert len(claimed) == 1
        seen += hours(claimed)
        s.settle(claimed[0])
    assert seen == [9, 10, 11]
    assert s.check().is_clean


def test_a_slot_after_the_live_one_runs_beside_the_catch_up_jobs_where_it_may() -> None:
    s = behind(if_running="allow")
    s.claim()
    s.sleep("1h")
    s.tick()
    assert hours(s.claim()) == [12]


def test_a_retry_of_a_catch_up_job_holds_the_next_one_not_back() -> None:
    s = behind(if_running="allow", max_retries=3, retry_delay="1m")
    (nine,) = s.claim()
    s.settle(nine, FAILED)
    (ten,) = s.claim()
    assert hours([ten]) == [10]
    s.sleep("1m")
    assert hours(s.claim()) == [9]  # its jobs may overlap
    assert s.check().is_clean


def test_a_cancelled_catch_up_job_calls_the_next() -> None:
    s = behind(if_running="allow")
    s.cancel_job(s.jobs("a")[0].job_id)
    assert hours(s.claim()) == [10]
    assert s.check().is_clean


# -- stagger (C4, C9) --


def test_a_live_slot_stays_behind_staggered_catch_up_jobs() -> None:
    s = behind(stagger=20 * SECOND, if_running="queue")
    (nine,) = s.claim()
    s.settle(nine)
    assert s.claim() == []
    s.sleep("20s")
    (ten,) = s.claim()
    assert hours([ten]) == [10]
    s.settle(ten)
    assert hours(s.claim()) == [11]
    assert s.check().is_clean


def test_a_live_slot_that_may_overlap_stays_behind_staggered_catch_up_jobs() -> None:
    s = behind(stagger=20 * SECOND, if_running="allow")
    (nine,) = s.claim()
    s.sleep("30s")
    assert s.claim() == []  # nine runs still
    s.settle(nine)
    (ten,) = s.claim()
    assert hours([ten]) == [10]
    s.settle(ten)
    assert hours(s.claim()) == [11]
    assert s.check().is_clean


def test_the_stagger_goes_on_from_portion_to_portion() -> None:
    s = manual_scheduler("2026-01-05T08:00:00Z", catch_up_stagger=10 * SECOND)
    for number in range(5):
        s.add(f"a{number}", every="1h", first_run="after_interval", catch_up="run_all")
    s.sleep("1h30m")
    for _ in range(3):
        store_of(s.runtime).slots.tick(s.clock.now(), limit=2, behind=True)
    waits = [job.not_before and (job.not_before - s.clock.now()) // SECOND for job in s.jobs()]
    assert waits == [None, 10, 20, 30, 40]


def test_the_stagger_of_a_backlog_that_has_begun_starts_anew() -> None:
    s = manual_scheduler("2026-01-05T08:00:00Z", catch_up_stagger=10 * SECOND)
    for number in range(2):
        s.add(f"a{number}", every="1h", first_run="after_interval", catch_up="run_once")
    for _ in range(2):
        s.sleep("1h40m")
        s.tick()
        s.work()
        s.sleep("10s")
        s.work()
    waits = [job.not_before is not None for job in s.jobs()]
    assert waits == [False, True, False, True]


# -- order at the claim --


def test_of_two_ready_jobs_of_one_schedule_the_earlier_slot_goes_first_across_the_edge_of_a_claim() -> None:
    s = manual_scheduler("2026-01-05T08:00:00Z")
    s.add("a", every="1m", if_running="queue", max_retries=3, retry_delay="1m10s")
    s.tick()
    (first,) = s.claim()
    s.settle(first, FAILED)  # its retry comes at 08:01:10
    s.clock.advance(60)
    s.tick()  # the slot of 08:01 is ready
    for number in range(30):
        s.add(f"x{number}", every="1h")  # thirty more, ready at 08:01, before the retry
    s.tick()
    s.clock.advance(10)
    claimed = s.claim(1)
    assert [(one.job.schedule_id, one.job.origin) for one in claimed] == [("a", "retry")]
    assert s.check().is_clean


# -- portions --


def test_a_chain_far_behind_says_that_there_is_more() -> None:
    s = manual_scheduler("2026-01-05T08:00:00Z")
    s.add("a", every="1s", interval_from="completion", catch_up="skip")
    s.step()
    s.sleep("1h")
    report = store_of(s.runtime).slots.tick(s.clock.now(), limit=500, behind=True)
    assert report.more
    while store_of(s.runtime).slots.tick(s.clock.now(), limit=500, behind=True).more:
        pass
    assert s.jobs("a")[-1].slot_at >= s.clock.now() - 2 * SECOND  # live within its grace
    assert s.check().is_clean
