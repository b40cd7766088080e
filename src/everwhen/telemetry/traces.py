"""Traces by OpenTelemetry (an extra): one CONSUMER span per attempt, linked to the first attempt of its slot.

A span belongs to the trace of its job, which requests, events and messages name already (`traceparent`, `trace_id`).
Which exporter gets it is the business of the program or of `opentelemetry-instrument`: everwhen uses the API alone.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from everwhen.model.cost import NOTHING, amount_number
from everwhen.model.instants import to_datetime
from everwhen.model.job import trace_id_of
from everwhen.model.outcome import Outcome, summary_of
from everwhen.target import Observer, Run

_RETRY = re.compile(r"-rc[0-9]+$")
MOST_OPEN = 100_000  # spans; more jobs cannot run

log = logging.getLogger("everwhen")


def observer_of_traces(environ: Mapping[str, str]) -> Observer | None:
    """Return the observer that makes spans; None where nobody asked for traces, or the extra is not installed.

    The variables of OpenTelemetry (`OTEL_…`) are the switch: without one nothing is imported. They may be there for
    other programs, so that a missing package is a warning.
    """
    is_wanted = any(name.startswith("OTEL_") for name in environ)
    if not is_wanted or environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    try:
        return JobTraces(import_module("opentelemetry.trace"))
    except ImportError:
        log.warning(
            "variables OTEL_… are set, and there are no traces: OpenTelemetry is not installed; "
            "install it with: pip install 'everwhen[otel]'"
        )
        return None


class JobTraces:
    """Makes a span of each attempt that this process runs. `trace` is the module `opentelemetry.trace`."""

    def __init__(self, trace: Any, provider: Any = None) -> None:
        self._trace = trace
        self._tracer = trace.get_tracer("everwhen", tracer_provider=provider)
        self._lock = threading.Lock()
        self._open: dict[str, Any] = {}

    def started(self, run: Run) -> None:
        trace = self._trace
        parent = trace.set_span_in_context(trace.NonRecordingSpan(self._root(run.job_id)))
        first = _RETRY.sub("-rc0", run.job_id)
        is_first = run.attempt == 1 and first == run.job_id
        span = self._tracer.start_span(
            f"everwhen {run.schedule_id}",
            context=parent,
            kind=trace.SpanKind.CONSUMER,
            links=[] if is_first else [trace.Link(self._root(first))],
            attributes={
                "everwhen.schedule": run.schedule_id,
                "everwhen.job_id": run.job_id,
                "everwhen.slot_at": to_datetime(run.slot_at).isoformat(),
                "everwhen.origin": run.origin,
                "everwhen.attempt": run.attempt,
            },
        )
        with self._lock:
            if len(self._open) >= MOST_OPEN:  # the oldest is of a run whose end another process saw
                del self._open[next(iter(self._open))]
            self._open[run.job_id] = span

    def ended(self, run: Run, outcome: Outcome) -> None:
        with self._lock:
            span = self._open.pop(run.job_id, None)
        if span is None:
            return
        span.set_attribute("everwhen.status", outcome.status)
        if outcome.cost not in (None, NOTHING):
            span.set_attribute("everwhen.cost", amount_number(outcome.cost.amount))
            span.set_attribute("everwhen.cost_unit", outcome.cost.unit)
        if outcome.is_failure:
            said = summary_of(outcome.error or outcome.status, outcome.error_type)
            span.set_status(self._trace.Status(self._trace.StatusCode.ERROR, said))
        span.end()

    def _root(self, job_id: str) -> Any:
        """Return the context that all attempts of a job have in common: its trace, and a span that it implies."""
        trace_id = trace_id_of(job_id)
        return self._trace.SpanContext(
            trace_id=int(trace_id, 16),
            span_id=int(trace_id[:16], 16) or 1,
            is_remote=True,
            trace_flags=self._trace.TraceFlags(self._trace.TraceFlags.SAMPLED),
        )
