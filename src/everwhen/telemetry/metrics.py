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
from functools import partial
from typing import NamedTuple, get_args

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from everwhen.errors import StoreError
from everwhen.model.instants import SECOND
from everwhen.model.job import Origin
from everwhen.model.limits import BreakerState
from everwhen.model.reasons import HOLD_REASONS, MISS_REASONS, SKIP_REASONS
from everwhen.model.schedule import Status
from everwhen.model.vitals import Signs, Tally
from everwhen.operations.system import LoopFigures, current_condition, start_of_count, tally_since
from everwhen.runtime import Runtime
from everwhen.telemetry.durations import JobDurations
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


class _Look(NamedTuple):
    """The result of one query of the database; empty when the database did not answer."""

    signs: Signs | None = None
    lag: float = 0.0
    heartbeat_at: int | None = None


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
        self._fired: Counter[str] = Counter(dict.fromkeys(get_args(Origin), 0))
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
        yield _gauge("build_info", "Which release this is, of which service.", release, "version", "service")
        yield _gauge("database_up", "Whether the database answers.", {(): int(look.signs is not None)})
        yield _counter("slots", "Decided slots, by outcome and reason.", slots, "outcome", "reason")
        yield _counter("jobs", "Firings, by their origin.", fired, "origin")
        if look.signs is not None:
            yield from _state_metrics(look.signs, look)
        yield from self._own()

    def _own(self) -> Iterator[Metric]:
        """Yield the metrics that only this process has."""
        loop = None if self._loop is None else self._loop()
        if loop is not None:
            yield _counter("loop_checks", "Evaluations of the loop of this process.", {(): loop.check_count})
            if loop.last_check_at is not None:
                at = loop.last_check_at / SECOND
                name, about = "loop_last_tick_timestamp_seconds", "When the loop last ended an evaluation."
                yield _gauge(name, about, {(): at})
        if self._durations is not None:
            about = "How long the jobs of this process took, by how they ended."
            family = HistogramMetricFamily("everwhen_job_duration_seconds", about, labels=["status"])
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
        """Count the skips that are gathered on rows at once (L5), and not again when their event is written.

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
        return _Look(found.signs, found.lag / SECOND, found.last_heartbeat_at)

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
    yield _gauge("schedules", "Schedules, by status.", _each(get_args(Status), signs.schedules), "status")
    yield _gauge("held_slots", "Slots that wait, by reason.", _each(HOLD_REASONS, signs.held), "reason")
    yield _gauge("jobs_running", "Jobs that run.", {(): signs.jobs.get("running", 0)})
    yield _gauge("jobs_queued", "Jobs that wait for a worker.", {(): signs.jobs.get("queued", 0)})
    states = _each(get_args(BreakerState), signs.breakers)
    yield _gauge("breaker_state", "Circuit breakers, by state.", states, "state")
    yield _gauge("overdue_schedules", "Schedules overdue by more than a minute.", {(): signs.overdue})
    yield _gauge("lag_seconds", "How long the earliest undecided slot has been due.", {(): look.lag})
    yield _gauge("system_paused", "Whether the system switch is on.", {(): int(signs.is_paused)})
    if look.heartbeat_at is not None:
        name, about = "scheduler_last_heartbeat_timestamp_seconds", "When any scheduler was last seen alive."
        yield _gauge(name, about, {(): look.heartbeat_at / SECOND})


def _each(labels: tuple[str, ...], counts: Mapping[str, int]) -> Values:
    """Return a count for every label value, so that no series appears or disappears."""
    return {(word,): counts.get(word, 0) for word in labels}


def _family(
    kind: type[GaugeMetricFamily | CounterMetricFamily],
    name: str,
    about: str,
    values: Values,
    *labels: str,
) -> Metric:
    family = kind(f"everwhen_{name}", about, labels=labels)
    for label_values, value in values.items():
        family.add_metric(label_values, value)
    return family


_gauge = partial(_family, GaugeMetricFamily)
_counter = partial(_family, CounterMetricFamily)
