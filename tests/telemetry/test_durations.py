"""How long jobs took: counted per status, in buckets that hold all that took at most that long."""

from __future__ import annotations

from everwhen.model.outcome import SUCCEEDED, Outcome
from everwhen.target import Run
from everwhen.telemetry.durations import BOUNDS, JobDurations
from everwhen.testing import ManualClock


def a_run(job_id: str) -> Run:
    return Run(job_id, "a", "a", 0, 1, "schedule", 0, {}, None, None)


def test_a_job_is_in_every_bucket_from_its_own_on() -> None:
    clock = ManualClock()
    durations = JobDurations(clock.monotonic)
    for number, seconds in enumerate((1, 5, 6)):
        durations.started(a_run(f"job-{number}"))
        clock.advance(f"{seconds}s")
        durations.ended(a_run(f"job-{number}"), SUCCEEDED)
    found = {status: (dict(buckets), total) for status, buckets, total in durations.histograms()}
    buckets, took = found["succeeded"]
    assert took == 12.0
    assert [buckets[bound] for bound in ("0.5", "1.0", "5.0", "10.0", "+Inf")] == [0, 1, 2, 3, 3]
    assert len(buckets) == len(BOUNDS) + 1
    assert found["failed"][0]["+Inf"] == 0


def test_an_end_without_a_start_and_an_end_that_is_none_count_nothing() -> None:
    durations = JobDurations(ManualClock().monotonic)
    durations.ended(a_run("unknown"), SUCCEEDED)
    durations.started(a_run("elsewhere"))
    durations.ended(a_run("elsewhere"), Outcome("running"))  # type: ignore[arg-type]
    assert {dict(buckets)["+Inf"] for _, buckets, _ in durations.histograms()} == {0.0}
