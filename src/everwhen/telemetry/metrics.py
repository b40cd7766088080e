"""Metrics for Prometheus: the database is queried at a scrape, and nothing is counted while a slot is decided.

Counts of slots, jobs and schedules cover the whole database, also where the API runs alone; each process counts slots
from its own start. Data that only one process has (its loop, the durations of its jobs) is exported by that process.
The values of a label are those of the closed lists of reasons and states: a million schedules have no more series than
one.

A scrape needs no token. So all scrapes within a second share one query, and after a slow query the next one waits
twenty times its duration: metrics cost the database at most a twentieth of its time.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, get_args

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from everwhen.errors import StoreError
from everwhen.model.alerts import SEVERITIES
from everwhen.model.cost import MILLION
from everwhen.model.instants import SECOND
from everwhen.model.job import Origin
from everwhen.model.limits import BreakerState
from everwhen.model.reasons import HOLD_REASONS, MISS_REASONS, SKIP_REASONS
from everwhen.model.schedule import Status
from everwhen.model.vitals import FeedDelay, Signs, Tally
from everwhen.operations.budgets import CostSum, costs_by_budget
from everwhen.operations.system import (
    LoopFigures,
    current_condition,
    feed_delay,
    start_of_count,
    tally_since,
)
from everwhen.runtime import Runtime
from everwhen.telemetry.durations import STATUSES, JobDurations
from everwhen.version import __version__

OVERDUE_AFTER = 60 * SECOND
MOST_OVERDUE = 100_000
SHARED, RATIO = 1.0, 20.0  # how long a result is reused: seconds at least, and times the query's duration
_SLOT_ORIGINS = ("schedule", "catch_up")
_OUTCOMES = {"schedule.skipped": "skipped", "schedule.missed": "missed", "schedule.caught_up": "caught_up"}
_SLOTS = [
    *(("fired", origin) for origin in _SLOT_ORIGINS),
    *(("skipped", reason) for reason in SKIP_REASONS),
    *(("missed", reason) for reason in MISS_REASONS),
    ("caught_up", ""),
]
Values = dict[tuple[str, ...], float]  # by the values of the labels


class MetricKind(NamedTuple):
    """One metric: its type, a line about it, and its labels, with their values where those are a closed list."""

    type: type[GaugeMetricFamily | CounterMetricFamily | HistogramMetricFamily]
    about: str
    labels: Mapping[str, tuple[str, ...]] = {}


PREFIX = "everwhen_"
_FIRINGS = tuple(origin for origin in get_args(Origin) if origin != "retry")
_Gauge, _Counter = GaugeMetricFamily, CounterMetricFamily
METRICS: Mapping[str, MetricKind] = {
    "build_info": MetricKind(
        _Gauge, "Which release this is, of which service.", {"version": (), "service": ()}
    ),
    "database_up": MetricKind(_Gauge, "Whether the database answers; 0: what it counts is left out."),
    "slots": MetricKind(
        _Counter,
        "Decided slots, by outcome and reason; caught_up: slots that one job replaced.",
        {
            "outcome": tuple(dict.fromkeys(outcome for outcome, _ in _SLOTS)),
            "reason": tuple(dict.fromkeys(reason for _, reason in _SLOTS if reason)),
        },
    ),
    "jobs": MetricKind(
        _Counter, "Firings, by their origin; a retry does not count again.", {"origin": _FIRINGS}
    ),
    "schedules": MetricKind(_Gauge, "Schedules, by status.", {"status": get_args(Status)}),
    "held_slots": MetricKind(_Gauge, "Slots that wait, by reason.", {"reason": HOLD_REASONS}),
    "jobs_running": MetricKind(_Gauge, "Jobs that run."),
    "jobs_queued": MetricKind(_Gauge, "Jobs that wait for a worker."),
    "breaker_state": MetricKind(_Gauge, "Circuit breakers, by state.", {"state": get_args(BreakerState)}),
    "overdue_schedules": MetricKind(
        _Gauge, "Schedules overdue by more than a minute, counted up to 100,000."
    ),
    "lag_seconds": MetricKind(
        _Gauge, "How long the earliest undecided slot has been due; 0 when all is well."
    ),
    "alerts_open": MetricKind(
        _Gauge, "Open alerts, by severity, while a rule reports them.", {"severity": SEVERITIES}
    ),
    "alert_deliveries_pending": MetricKind(_Gauge, "Messages of alerts and pings that are yet to be sent."),
    "feed_delay_seconds": MetricKind(
        _Gauge, "How long a transaction that delays the event feed has been open; 0 when none does."
    ),
    "feed_delay_info": MetricKind(
        _Gauge,
        "The transaction that delays the event feed; none when none does.",
        {"pid": (), "application": ()},
    ),
    "system_paused": MetricKind(_Gauge, "Whether the system is paused; nothing counts as late then."),
    "scheduler_last_heartbeat_timestamp_seconds": MetricKind(
        _Gauge, "When any scheduler was last seen alive."
    ),
    "cost": MetricKind(
        _Counter,
        "What runs cost, reported and estimated, by budget (a group, owner:NAME, or token for all tokens together) and "
        "currency.",
        {"budget": (), "currency": ()},
    ),
    "estimated_cost": MetricKind(
        _Counter,
        "What of everwhen_cost_total is estimated, for runs that reported nothing.",
        {"budget": (), "currency": ()},
    ),
    "loop_checks": MetricKind(_Counter, "Evaluations of the loop of this process."),
    "loop_last_tick_timestamp_seconds": MetricKind(_Gauge, "When the loop last ended an evaluation."),
    "job_duration_seconds": MetricKind(
        HistogramMetricFamily,
        "How long the jobs of this process took, by how they ended.",
        {"status": STATUSES},
    ),
}


class _Look(NamedTuple):
    """The result of one query of the database; empty when the database did not answer."""

    signs: Signs | None = None
    lag: float = 0.0
    heartbeat_at: int | None = None
    costs: Mapping[tuple[str, str], CostSum] = {}
    feed_delay: FeedDelay | None = None


class Metrics(Collector):
    """The Prometheus collector of this process."""

    def __init__(
        self,
        runtime: Runtime,
        *,
        loop: Callable[[], LoopFigures | None] | None = None,
        durations: JobDurations | None = None,
        service: str = "everwhen",
    ) -> None:
        self._runtime = runtime
        self._service = service
        self._loop = loop
        self._durations = durations
        self._lock = threading.Lock()
        # Every series exists from the start, so that rates work from the first count.
        self._slots = Counter(dict.fromkeys(_SLOTS, 0))
        self._shown: Counter[tuple[str, str]] = Counter(self._slots)  # with gathered skips; never decreases
        self._fired: Counter[str] = Counter(dict.fromkeys(_FIRINGS, 0))
        self._mark, self._gathered_before = start_of_count(runtime)
        self._look, self._good_until = _Look(), float("-inf")
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def text(self, accept: str = "") -> tuple[bytes, str]:
        """Return all metrics in the format that `accept` requests, and its media type; waits for the database."""
        encode, media_type = choose_encoder(accept)
        return encode(self._registry), media_type

    def describe(self) -> Iterator[Metric]:
        """Return nothing, so that registering the collector does not query the database."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        with self._lock:
            look = self._looked()
            slots: Values = {(outcome, reason): number for (outcome, reason), number in self._shown.items()}
            fired: Values = {(origin,): number for origin, number in self._fired.items()}
        release: Values = {(__version__, self._service): 1}
        yield _metric("build_info", release)
        yield _metric("database_up", {(): int(look.signs is not None)})
        yield _metric("slots", slots)
        yield _metric("jobs", fired)
        if look.signs is not None:
            yield from _state_metrics(look.signs, look)
            costs = look.costs.items()
            yield _metric("cost", {labels: cost.amount / MILLION for labels, cost in costs})
            yield _metric("estimated_cost", {labels: cost.estimated / MILLION for labels, cost in costs})
        yield from self._own()

    def _own(self) -> Iterator[Metric]:
        """Yield the metrics that only this process has."""
        loop = None if self._loop is None else self._loop()
        if loop is not None:
            yield _metric("loop_checks", {(): loop.check_count})
            if loop.last_check_at is not None:
                yield _metric("loop_last_tick_timestamp_seconds", {(): loop.last_check_at / SECOND})
        if self._durations is not None:
            family = _family("job_duration_seconds")
            for status, buckets, seconds in self._durations.histograms():
                family.add_metric([status], buckets, seconds)
            yield family

    # -- querying the database --

    def _looked(self) -> _Look:
        clock = self._runtime.clock
        began = clock.monotonic()
        if began < self._good_until:
            return self._look
        try:
            self._count(tally_since(self._runtime, self._mark))
            self._look = self._ask()
            self._show_slots(self._look)
        except StoreError:
            self._look = _Look()
        ended = clock.monotonic()
        self._good_until = ended + max(SHARED, RATIO * (ended - began))
        return self._look

    def _show_slots(self, look: _Look) -> None:
        """Count the skips that are gathered on rows at once, and not again when their event is written.

        Rows and events are read by two queries: a skip that moved between them must not decrease a counter.
        """
        gathered = look.signs.gathered if look.signs is not None else {}
        for key, number in self._slots.items():
            outcome, reason = key
            waiting = 0
            if (
                outcome == "skipped"
            ):  # what was gathered before the start is on its row, or in an event since then
                waiting = gathered.get(reason, 0) - self._gathered_before.get(reason, 0)
            self._shown[key] = max(self._shown[key], number + waiting)

    def _ask(self) -> _Look:
        found = current_condition(self._runtime, overdue_after=OVERDUE_AFTER, most_overdue=MOST_OVERDUE)
        return _Look(
            found.signs,
            found.lag / SECOND,
            found.last_heartbeat_at,
            costs_by_budget(self._runtime),
            feed_delay(self._runtime),
        )

    def _count(self, tally: Tally) -> None:
        self._mark = tally.mark
        for (kind, reason), number in tally.slots.items():
            self._slots[_OUTCOMES[kind], reason] += number
        for origin, number in tally.fired.items():
            self._fired[origin] += number
            if origin in _SLOT_ORIGINS:
                self._slots["fired", origin] += number


def _state_metrics(signs: Signs, look: _Look) -> Iterator[Metric]:
    """Yield the metrics of the database's current state."""
    yield _metric("schedules", _each(get_args(Status), signs.schedules))
    yield _metric("held_slots", _each(HOLD_REASONS, signs.held))
    yield _metric("jobs_running", {(): signs.jobs.get("running", 0)})
    yield _metric("jobs_queued", {(): signs.jobs.get("queued", 0)})
    yield _metric("breaker_state", _each(get_args(BreakerState), signs.breakers))
    yield _metric("overdue_schedules", {(): signs.overdue})
    yield _metric("lag_seconds", {(): look.lag})
    yield _metric("alerts_open", _each(SEVERITIES, signs.alerts))
    yield _metric("alert_deliveries_pending", {(): signs.undelivered})
    delay = look.feed_delay
    yield _metric("feed_delay_seconds", {(): 0 if delay is None else delay.seconds})
    yield _metric("feed_delay_info", {} if delay is None else {(str(delay.pid or ""), delay.application): 1})
    yield _metric("system_paused", {(): int(signs.is_paused)})
    if look.heartbeat_at is not None:
        yield _metric("scheduler_last_heartbeat_timestamp_seconds", {(): look.heartbeat_at / SECOND})


def _each(labels: tuple[str, ...], counts: Mapping[str, int]) -> Values:
    """Return a count for every label value, so that no series appears or disappears."""
    return {(word,): counts.get(word, 0) for word in labels}


def _metric(name: str, values: Values) -> Metric:
    """Return a metric of the table with its values."""
    family = _family(name)
    for label_values, value in values.items():
        family.add_metric(label_values, value)
    found: Metric = family
    return found


def _family(name: str) -> Any:
    """Return a metric of the table without values."""
    kind = METRICS[name]
    return kind.type(f"{PREFIX}{name}", kind.about, labels=tuple(kind.labels))
