"""What the pictures of the policies show: schedules with their policies, how their runs go, and when nothing is alive.

A scene says nothing about what becomes of a slot. That is what `everwhen simulate` finds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Runs = Sequence[tuple[int, str]]
"""Minutes and outcome of the first run of a schedule, the second, and so on; the last one stands for all others."""


@dataclass(frozen=True, slots=True)
class Row:
    """One schedule of a picture. `notes` stand below its label."""

    label: str
    fields: Mapping[str, Any]
    notes: Sequence[str] = ()
    runs: Runs = ((8, "succeeded"),)
    agent: str | None = None


@dataclass(frozen=True, slots=True)
class Scene:
    name: str
    title: str
    description: str
    start: str
    end: str
    tick: int  # minutes between two labels of the axis
    rows: Sequence[Row]
    zone: str = "UTC"
    sections: Mapping[str, Any] = field(default_factory=dict)
    outages: Sequence[tuple[str, str]] = ()
    clock_change: tuple[str, str] | None = None  # its instant, and what is written there


_HOURLY = {"cron": "0 * * * *"}
_HALF_PAST = {"cron": "30 * * * *"}
_EVERY_20 = {"cron": "*/20 * * * *"}
_NIGHTS = {"timezone": "UTC", "windows": [{"between": "22:00-07:00"}]}
_FAILS_TWICE: Runs = ((1, "failed"), (1, "failed"), (1, "succeeded"))
_FAILS: Runs = ((1, "failed"),)

SCENES = (
    Scene(
        "catch-up",
        "What happens to slots that passed while no scheduler was running",
        "An hourly schedule, and an outage from 08:30 to 11:20 in which the slots of 09:00, 10:00 and 11:00 pass.",
        "2026-01-05T06:30Z",
        "2026-01-05T13:40Z",
        60,
        (
            Row("catch_up: skip", {**_HOURLY, "catch_up": "skip"}, ["the default: they are on record"]),
            Row("catch_up: run_once", {**_HOURLY, "catch_up": "run_once"}, ["one job for all of them"]),
            Row("catch_up: run_all", {**_HOURLY, "catch_up": "run_all"}, ["one job each, oldest first"]),
            Row(
                "catch_up: run_all",
                {**_HOURLY, "catch_up": "run_all", "catch_up_limit": 2},
                ["catch_up_limit: 2, the newest"],
            ),
        ),
        outages=(("2026-01-05T08:30Z", "2026-01-05T11:20Z"),),
    ),
    Scene(
        "overlap",
        "What happens to a slot that is due while the last job still runs",
        "A schedule every 20 minutes; its second run takes 50 minutes instead of 8.",
        "2026-01-05T08:50Z",
        "2026-01-05T11:10Z",
        20,
        tuple(
            Row(
                f"if_running: {value}",
                {**_EVERY_20, "if_running": value},
                [note],
                runs=((8, "succeeded"), (50, "succeeded"), (8, "succeeded")),
            )
            for value, note in (
                ("skip", "the default"),
                ("queue", "one after another, in order"),
                ("cancel", "the newest counts"),
                ("allow", "side by side"),
            )
        ),
    ),
    Scene(
        "quiet-hours",
        "What happens to slots in quiet hours, and outside the hours of a schedule",
        "A schedule at half past every hour. Quiet hours are from 22:00 to 07:00; the third fires from 08:00 to 21:00.",
        "2026-01-05T20:00Z",
        "2026-01-06T10:00Z",
        120,
        (
            Row("action: skip", {**_HALF_PAST, "quiet_hours": "nights"}, ["quiet hours, 22:00-07:00"]),
            Row(
                "action: defer",
                {**_HALF_PAST, "quiet_hours": "calls"},
                ["the newest one waits", "for the morning"],
            ),
            Row(
                "only_between",
                {**_HALF_PAST, "only_between": "08:00-21:00"},
                ["08:00-21:00, the default", "outside_window: skip"],
            ),
        ),
        sections={
            "quiet_hours": {"nights": {**_NIGHTS, "action": "skip"}, "calls": {**_NIGHTS, "action": "defer"}}
        },
    ),
    Scene(
        "holds",
        "What happens to a slot that finds its agent busy",
        "Two schedules of an agent that runs one job at a time: a long review at 09:00, a check every 20 minutes.",
        "2026-01-05T08:30Z",
        "2026-01-05T10:50Z",
        20,
        (
            Row(
                "review",
                {"type": "cron", "cron": "0 9 * * *"},
                ["at 09:00"],
                ((54, "succeeded"),),
                agent="ada",
            ),
            Row(
                "check",
                {"type": "cron", "cron": "*/20 * * * *"},
                ["every 20 minutes", "max_concurrent: 1 for both"],
                ((5, "succeeded"),),
                agent="ada",
            ),
        ),
    ),
    Scene(
        "retries",
        "What happens to a slot whose job fails",
        "Three schedules with max_retries: 3 and retry_delay: 2m. The first fails twice, the others always.",
        "2026-01-05T08:55Z",
        "2026-01-05T09:45Z",
        5,
        (
            Row(
                "max_retries: 3",
                {"cron": "*/30 * * * *", "max_retries": 3, "retry_delay": "2m"},
                ["2 min, 4 min, 8 min …"],
                _FAILS_TWICE,
            ),
            Row(
                "on_exhausted: continue",
                {"cron": "*/30 * * * *", "max_retries": 3, "retry_delay": "2m"},
                ["the default: on to the next slot"],
                _FAILS,
            ),
            Row(
                "on_exhausted: stop",
                {"cron": "*/30 * * * *", "max_retries": 3, "retry_delay": "2m", "on_exhausted": "stop"},
                ["it waits for a person"],
                _FAILS,
            ),
        ),
    ),
    Scene(
        "breaker",
        "What a circuit breaker does",
        "A schedule every 5 minutes whose breaker opens after 3 failures in a row and tries again after 20 minutes.",
        "2026-01-05T08:57Z",
        "2026-01-05T10:20Z",
        10,
        (
            Row(
                "circuit_breaker",
                {"cron": "*/5 * * * *", "circuit_breaker": {"threshold": 3, "reset_after": "20m"}},
                ["threshold: 3", "reset_after: 20m"],
                (
                    (2, "succeeded"),
                    (2, "failed"),
                    (2, "failed"),
                    (2, "failed"),
                    (2, "failed"),
                    (2, "succeeded"),
                ),
            ),
        ),
    ),
    Scene(
        "completion",
        "From where an interval is counted",
        "Two schedules every 20 minutes. The second run takes 32 minutes, the others 10.",
        "2026-01-05T09:00Z",
        "2026-01-05T11:30Z",
        20,
        tuple(
            Row(
                f"interval_from: {value}",
                {"every": "20m", "interval_from": value},
                notes,
                ((10, "succeeded"), (32, "succeeded"), (10, "succeeded")),
            )
            for value, notes in (
                ("slot", ["a grid that does not drift"]),
                ("completion", ["20 minutes between the end", "and the next start"]),
            )
        ),
    ),
    Scene(
        "jitter",
        "How jitter spreads schedules that are due at once",
        "Three schedules at every full hour with jitter: 20m. The delay follows from the schedule's id and the slot.",
        "2026-01-05T08:50Z",
        "2026-01-05T11:40Z",
        20,
        tuple(
            Row(name, {**_HOURLY, "jitter": "20m"}, ["jitter: 20m"], ((4, "succeeded"),))
            for name in ("north", "south", "west")
        ),
    ),
    Scene(
        "clock-forward",
        "What happens to times that do not exist",
        "The night of 29 March 2026 in Berlin, when the clock goes from 02:00 to 03:00.",
        "2026-03-28T23:45Z",
        "2026-03-29T03:15Z",
        30,
        (
            Row("30 2 * * *", {"cron": "30 2 * * *"}, ["gap: shift, the default"]),
            Row("30 2 * * *", {"cron": "30 2 * * *", "dst": {"gap": "skip"}}, ["dst: {gap: skip}"]),
            Row("*/30 * * * *", {"cron": "*/30 * * * *"}, ["it goes by elapsed time"]),
        ),
        zone="Europe/Berlin",
        clock_change=("2026-03-29T01:00Z", "02:00 → 03:00"),
    ),
    Scene(
        "clock-back",
        "What happens to times that exist twice",
        "The night of 25 October 2026 in Berlin, when the clock goes from 03:00 back to 02:00.",
        "2026-10-24T22:45Z",
        "2026-10-25T03:15Z",
        30,
        (
            Row("30 2 * * *", {"cron": "30 2 * * *"}, ["fold: first, the default"]),
            Row("30 2 * * *", {"cron": "30 2 * * *", "dst": {"fold": "second"}}, ["dst: {fold: second}"]),
            Row("30 2 * * *", {"cron": "30 2 * * *", "dst": {"fold": "both"}}, ["dst: {fold: both}"]),
            Row("*/30 * * * *", {"cron": "*/30 * * * *"}, ["it goes by elapsed time"]),
        ),
        zone="Europe/Berlin",
        clock_change=("2026-10-25T01:00Z", "03:00 → 02:00"),
    ),
)
