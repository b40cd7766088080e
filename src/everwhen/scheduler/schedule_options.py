"""The keys of a schedule, for type checkers and readers.

`python -m tools.reference` writes this file from `model/fields.py`; do not edit it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, tzinfo
from typing import Any, Literal, Required, TypedDict

Duration = str | timedelta
Instant = str | datetime
TimeZone = str | tzinfo


class Dst(TypedDict, total=False):
    """What happens to a slot when the clocks change."""

    gap: Literal["shift", "skip"]
    fold: Literal["first", "second", "both"]


class CircuitBreaker(TypedDict, total=False):
    """Stop firing after several failures in a row; false turns this off."""

    threshold: int
    reset_after: Duration | int


class Expect(TypedDict, total=False):
    """Raise an alert when no run succeeds in time."""

    each: Literal["slot"]
    within: Duration | int
    grace: Duration | int


class Ping(TypedDict, total=False):
    """A URL to call at the start and the end of each run, for a monitoring service."""

    url: Required[str]
    format: Literal["healthchecks", "sentry"]
    output: str


class ScheduleOptions(TypedDict, total=False):
    """The keys of a schedule beside its trigger and what it runs; the same as in a configuration file."""

    name: str
    description: str
    owner: str
    enabled: bool
    timezone: TimeZone
    dst: Dst
    start_at: Instant
    end_at: Instant
    first_run: Literal["immediately", "after_interval"]
    interval_from: Literal["slot", "completion"]
    jitter: Duration
    only_between: str
    not_on: str | int | Sequence[str | int]
    outside_window: Literal["skip", "defer"]
    quiet_hours: str
    misfire_grace: Duration | int
    catch_up: Literal["skip", "run_once", "run_all", "run_all_capped"]
    catch_up_limit: int
    if_running: Literal["skip", "queue", "cancel", "allow"]
    queue_limit: int
    max_outstanding: int
    max_concurrent: int
    total_repeats: int
    max_retries: int
    retry_delay: Duration | int
    on_exhausted: Literal["continue", "stop"]
    on_lost: Literal["rerun", "fail"]
    timeout: Duration | int
    circuit_breaker: CircuitBreaker | Literal[False]
    queue: str
    payload: Mapping[str, Any]
    expect: Expect | Literal[True]
    ping: Ping


class TriggerOptions(ScheduleOptions, total=False):
    """The keys of `add`: exactly one trigger."""

    every: Duration
    cron: str
    at: Instant
    after: Duration
    run: Mapping[str, Any]


class ScheduleChanges(TypedDict, total=False):
    """The keys of a change: those that are given; None clears a key."""

    name: str | None
    description: str | None
    owner: str | None
    enabled: bool | None
    timezone: TimeZone | None
    dst: Dst | None
    start_at: Instant | None
    end_at: Instant | None
    first_run: Literal["immediately", "after_interval"] | None
    interval_from: Literal["slot", "completion"] | None
    jitter: Duration | None
    only_between: str | None
    not_on: str | int | Sequence[str | int] | None
    outside_window: Literal["skip", "defer"] | None
    quiet_hours: str | None
    misfire_grace: Duration | int | None
    catch_up: Literal["skip", "run_once", "run_all", "run_all_capped"] | None
    catch_up_limit: int | None
    if_running: Literal["skip", "queue", "cancel", "allow"] | None
    queue_limit: int | None
    max_outstanding: int | None
    max_concurrent: int | None
    total_repeats: int | None
    max_retries: int | None
    retry_delay: Duration | int | None
    on_exhausted: Literal["continue", "stop"] | None
    on_lost: Literal["rerun", "fail"] | None
    timeout: Duration | int | None
    circuit_breaker: CircuitBreaker | Literal[False] | None
    queue: str | None
    payload: Mapping[str, Any] | None
    expect: Expect | Literal[True] | None
    ping: Ping | None
    every: Duration
    cron: str
    at: Instant
    after: Duration
    run: Mapping[str, Any]
