"""Traces: one span per attempt, in the trace of its job, linked to the first attempt of its slot."""

from __future__ import annotations

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from everwhen.model.cost import parse_cost
from everwhen.model.job import Origin, trace_id_of
from everwhen.model.outcome import SUCCEEDED, Outcome
from everwhen.target import Run
from everwhen.telemetry import traces as traces_module
from everwhen.telemetry.traces import JobTraces, observer_of_traces


def a_run(job_id: str, origin: Origin = "schedule", attempt: int = 1) -> Run:
    return Run(
        job_id,
        "nightly",
        "nightly",
        slot_at=1_767_600_000_000_000,
        attempt=attempt,
        origin=origin,
        repeat_number=0,
        payload={},
        deadline_at=None,
        seconds_left=None,
    )


def test_an_attempt_is_a_span_of_the_trace_of_its_job_and_a_retry_is_linked_to_the_first() -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    traces = JobTraces(trace, provider)
    first, retry = a_run("sched-u-n5-rc0"), a_run("sched-u-n5-rc1", "retry", 2)
    traces.started(first)
    traces.ended(first, Outcome("failed", error="boom", cost=parse_cost("0.42 USD")))
    traces.ended(first, SUCCEEDED)  # it has ended already
    traces.started(retry)
    traces.ended(retry, SUCCEEDED)
    failed, succeeded = exporter.get_finished_spans()
    assert f"{failed.context.trace_id:032x}" == trace_id_of("sched-u-n5-rc0")
    assert failed.kind is trace.SpanKind.CONSUMER
    assert failed.status.status_code is trace.StatusCode.ERROR
    assert failed.status.description == "boom"
    assert failed.links == ()
    assert dict(failed.attributes or {}) == {
        "everwhen.schedule": "nightly",
        "everwhen.job_id": "sched-u-n5-rc0",
        "everwhen.slot_at": "2026-01-05T08:00:00+00:00",
        "everwhen.origin": "schedule",
        "everwhen.attempt": 1,
        "everwhen.status": "failed",
        "everwhen.cost": 0.42,
        "everwhen.cost_unit": "USD",
    }
    assert "everwhen.cost" not in (succeeded.attributes or {})
    (link,) = succeeded.links
    assert link.context.trace_id == failed.context.trace_id
    assert succeeded.status.status_code is trace.StatusCode.UNSET


def test_nobody_traces_unless_a_variable_asks_for_it() -> None:
    assert observer_of_traces({"PATH": "/bin"}) is None
    assert observer_of_traces({"OTEL_SERVICE_NAME": "x", "OTEL_SDK_DISABLED": "true"}) is None
    observer = observer_of_traces({"OTEL_SERVICE_NAME": "x"})
    assert observer is not None
    observer.started(a_run("sched-u-n6-rc0"))  # without an SDK it costs next to nothing
    observer.ended(a_run("sched-u-n6-rc0"), SUCCEEDED)


def test_runs_whose_end_is_never_seen_give_way_to_new_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces_module, "MOST_OPEN", 2)
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    traces = JobTraces(trace, provider)
    runs = [a_run(f"sched-u-n{number}-rc0") for number in range(3)]
    for run in runs:
        traces.started(run)
    for run in runs:
        traces.ended(run, SUCCEEDED)
    assert [(span.attributes or {})["everwhen.job_id"] for span in exporter.get_finished_spans()] == [
        "sched-u-n1-rc0",
        "sched-u-n2-rc0",
    ]
