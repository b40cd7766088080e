"""`metrics.md`: the metrics for Prometheus."""

from __future__ import annotations

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from everwhen.telemetry.metrics import METRICS, PREFIX, MetricKind
from tools.reference.markdown import code, prose, table
from tools.reference.markdown import page as make_page

INTRODUCTION = """`GET /metrics` answers them in the format of Prometheus or OpenMetrics; it needs no token.
Counts of slots, jobs and schedules cover the whole database; what only one process has (its loop, the durations
of its jobs) is its own. [Monitoring](../guide/monitoring.md) explains them, and
[Monitor and alert](../how-to/monitor-and-alert.md#probes-and-prometheus) has alert rules."""


def page() -> str:
    rows = (
        (code(full_name(name, kind)), _type(kind), prose(kind.about), _labels(kind))
        for name, kind in METRICS.items()
    )
    return make_page("Metrics", INTRODUCTION, table(("metric", "type", "meaning", "labels"), rows))


def full_name(name: str, kind: MetricKind) -> str:
    """Return the name as Prometheus shows it."""
    return f"{PREFIX}{name}{'_total' if kind.type is CounterMetricFamily else ''}"


def _type(kind: MetricKind) -> str:
    if kind.type is CounterMetricFamily:
        return "counter"
    return "gauge" if kind.type is GaugeMetricFamily else "histogram"


def _labels(kind: MetricKind) -> str:
    return "<br>".join(
        f"{code(label)}: {', '.join(code(value) for value in values)}" if values else code(label)
        for label, values in kind.labels.items()
    )
