"""Metrics: counts of the whole database, what only the process knows, and no series for a schedule."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from everwhen.model.instants import SECOND
from everwhen.model.outcome import SUCCEEDED, JobEnd
from everwhen.model.schedule import Target
from everwhen.operations.system import LoopFigures
from everwhen.store.opened import store_of
from everwhen.target import Run
from everwhen.telemetry.durations import JobDurations
from everwhen.telemetry.metrics import Metrics
from everwhen.testing import ManualClock
from everwhen.wiring import Stack, open_stack
from tests.submissions import Submission, create_schedule

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def stack(clock: ManualClock) -> Iterator[Stack]:
    opened = open_stack("sqlite://", clock=clock)
    yield opened
    opened.close()


def add(stack: Stack, name: str, **fields: object) -> None:
    create_schedule(stack.runtime, Submission(name, {"every": "1m", **fields}, Target("command", "{}")))


def tick(stack: Stack) -> None:
    for behind in (False, True):
        store_of(stack.runtime).slots.tick(stack.runtime.clock.now(), limit=500, behind=behind)


def samples(metrics: Metrics) -> Samples:
    text = metrics.text()[0].decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(metrics: Metrics, name: str, **labels: str) -> float:
    return samples(metrics)[f"everwhen_{name}", tuple(sorted(labels.items()))]


def test_slots_are_counted_by_what_became_of_them(stack: Stack, clock: ManualClock) -> None:
    metrics = Metrics(stack.runtime)
    assert value(metrics, "slots_total", outcome="fired", reason="schedule") == 0
    add(stack, "a")
    tick(stack)
    clock.advance("1m")
    tick(stack)
    assert value(metrics, "slots_total", outcome="fired", reason="schedule") == 1
    assert value(metrics, "slots_total", outcome="skipped", reason="already_running") == 1
    assert value(metrics, "jobs_total", origin="schedule") == 1
    assert ("everwhen_jobs_total", (("origin", "retry"),)) not in samples(metrics)  # it would always be 0
    assert value(metrics, "jobs_queued") == 1
    clock.advance("2s")
    assert value(metrics, "slots_total", outcome="fired", reason="schedule") == 1  # and not once more


def test_each_process_counts_from_its_own_start(stack: Stack) -> None:
    add(stack, "a")
    tick(stack)
    assert value(Metrics(stack.runtime), "slots_total", outcome="fired", reason="schedule") == 0


def test_a_look_is_shared_by_all_who_ask_within_a_second(stack: Stack, clock: ManualClock) -> None:
    metrics = Metrics(stack.runtime)
    assert value(metrics, "schedules", status="active") == 0
    add(stack, "a")
    assert value(metrics, "schedules", status="active") == 0
    clock.advance("1s")
    assert value(metrics, "schedules", status="active") == 1


def test_a_million_schedules_make_no_more_series_than_one(stack: Stack, clock: ManualClock) -> None:
    metrics = Metrics(
        stack.runtime,
        loop=lambda: LoopFigures("running", 0, 1, 0, 1),
        durations=JobDurations(clock.monotonic),
    )
    before = set(samples(metrics))
    for number in range(50):
        add(stack, f"s{number}", circuit_breaker={"threshold": 1, "reset_after": "1m"})
    tick(stack)
    clock.advance("5m")
    tick(stack)
    store_of(stack.runtime).slots.heartbeat(clock.now(), node="n", version="1", is_scheduler=True)
    after = set(samples(metrics))
    assert after - before == {("everwhen_scheduler_last_heartbeat_timestamp_seconds", ())}


def test_what_is_late_is_reported_unless_the_switch_is_on(stack: Stack, clock: ManualClock) -> None:
    metrics = Metrics(stack.runtime)
    add(stack, "a", first_run="after_interval")
    clock.advance("3m")
    assert (value(metrics, "lag_seconds"), value(metrics, "overdue_schedules")) == (120, 1)
    store_of(stack.runtime).catalogue.set_system_paused(clock.now(), True)
    clock.advance("1m")
    assert (value(metrics, "lag_seconds"), value(metrics, "overdue_schedules")) == (0, 0)
    assert value(metrics, "system_paused") == 1


def test_a_process_with_a_node_tells_of_its_loop_and_its_jobs(stack: Stack, clock: ManualClock) -> None:
    durations = JobDurations(clock.monotonic)
    metrics = Metrics(
        stack.runtime, loop=lambda: LoopFigures("running", 0, 7, 0, 90 * SECOND), durations=durations
    )
    run = Run("job", "a", "a", 0, 1, "schedule", 0, {}, None, None)
    durations.started(run)
    clock.advance("3s")
    durations.ended(run, SUCCEEDED)
    assert value(metrics, "loop_last_tick_timestamp_seconds") == 90
    assert value(metrics, "loop_checks_total") == 7
    assert value(metrics, "job_duration_seconds_bucket", status="succeeded", le="5.0") == 1
    assert value(metrics, "job_duration_seconds_sum", status="succeeded") == 3
    alone = samples(Metrics(stack.runtime))
    assert not [name for name, _ in alone if "loop" in name or "duration" in name]


def test_a_database_that_is_away_is_reported_and_what_the_process_knows(
    stack: Stack, clock: ManualClock
) -> None:
    metrics = Metrics(stack.runtime, loop=lambda: LoopFigures("running", 0, 1, 0, SECOND))
    stack.database.close()
    found = samples(metrics)
    assert found["everwhen_database_up", ()] == 0
    assert found["everwhen_loop_last_tick_timestamp_seconds", ()] == 1
    assert ("everwhen_jobs_running", ()) not in found


def test_the_format_is_the_one_that_is_asked_for(stack: Stack) -> None:
    metrics = Metrics(stack.runtime)
    text, kind = metrics.text("application/openmetrics-text; version=1.0.0")
    assert kind.startswith("application/openmetrics-text") and text.endswith(b"# EOF\n")
    assert metrics.text()[1].startswith("text/plain")


def test_skips_that_are_gathered_on_a_row_are_counted_at_once_and_not_twice(
    stack: Stack, clock: ManualClock
) -> None:
    metrics = Metrics(stack.runtime)
    add(stack, "a", every="10s")
    for slots in range(1, 8):  # the first fires, and runs on
        tick(stack)
        assert value(metrics, "slots_total", outcome="skipped", reason="already_running") == slots - 1
        clock.advance("10s")
    (job,) = store_of(stack.runtime).slots.claim_jobs(clock.now(), node="n", limit=1)
    store_of(stack.runtime).slots.settle(clock.now(), [JobEnd(job.job.job_id, job.job.fence, SUCCEEDED)])
    tick(stack)  # it fires, which writes what was gathered
    clock.advance("10s")
    assert value(metrics, "slots_total", outcome="skipped", reason="already_running") == 6


def test_skips_that_were_gathered_before_the_start_are_not_counted(stack: Stack, clock: ManualClock) -> None:
    add(stack, "a", every="10s")
    for _ in range(5):  # the first fires, the second is skipped at once, three are gathered
        tick(stack)
        clock.advance("10s")
    metrics = Metrics(stack.runtime)
    assert value(metrics, "slots_total", outcome="skipped", reason="already_running") == 0
    tick(stack)
    clock.advance("10s")
    assert value(metrics, "slots_total", outcome="skipped", reason="already_running") == 1
    (job,) = store_of(stack.runtime).slots.claim_jobs(clock.now(), node="n", limit=1)
    store_of(stack.runtime).slots.settle(clock.now(), [JobEnd(job.job.job_id, job.job.fence, SUCCEEDED)])
    tick(stack)  # it fires, which writes what was gathered before the start and after it
    clock.advance("10s")
    assert value(metrics, "slots_total", outcome="skipped", reason="already_running") == 1
