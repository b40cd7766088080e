"""Definitions of every kind, drawn at random: small intervals and tight limits, so that rules conflict.

`Luck` is the source of randomness: hypothesis, which can shrink what it drew, or a seeded generator.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, Protocol, TypeVar

from hypothesis import strategies as st

from everwhen.model.instants import MINUTE, SECOND
from everwhen.model.policy import BreakerRule, Budget, Capacity, Guard
from everwhen.model.schedule import Definition, QuietHoursPolicy, Target
from everwhen.timetable.civil_time import zone
from everwhen.timetable.cron import parse_cron
from everwhen.timetable.trigger import Cron, Every, EveryMonth, Once, OnRequest, Trigger
from everwhen.timetable.windows import QuietHours, QuietWindow, Window

T = TypeVar("T")

ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe")
CRONS = (
    "* * * * *",
    "*/7 * * * *",
    "30 2 * * *",
    "0 * * * *",
    "15 1,2,3 * * *",
    "5-50/15 0-23/2 * * 0,6",
    "*/20 2 * * *",
)
INTERVALS = ((7, "7s"), (30, "30s"), (60, "1m"), (300, "5m"), (3_600, "1h"), (86_400, "24h"))
KEYS = ("a", "b")
WINDOWS = (Window(8 * 60, 18 * 60), Window(22 * 60, 6 * 60), Window(60, 180), Window(0, 1_440))


class Luck(Protocol):
    """The source of randomness."""

    def choice(self, options: Sequence[T], /) -> T: ...

    def randint(self, low: int, high: int, /) -> int: ...


class HypothesisLuck:
    """Drawn by hypothesis; the first option is the simplest."""

    def __init__(self, data: st.DataObject) -> None:
        self._data = data

    def choice(self, options: Sequence[T], /) -> T:
        return self._data.draw(st.sampled_from(options))

    def randint(self, low: int, high: int, /) -> int:
        return self._data.draw(st.integers(low, high))


def seeded(seed: int | str) -> Luck:
    return Random(seed)


def a_trigger(luck: Luck, now: int) -> Trigger:
    match luck.choice(["every", "cron", "every", "at", "after", "monthly", "request"]):
        case "every":
            return Every(*luck.choice(INTERVALS))
        case "cron":
            return Cron(parse_cron(luck.choice(CRONS)))
        case "at":
            within = luck.choice([7_200 * SECOND, 90 * SECOND, SECOND])
            second, fraction = divmod(now + luck.randint(1, within), SECOND)
            return Once(
                second,
                "at",
                "at",
                luck.choice([fraction, fraction, 0] if second * SECOND > now else [fraction]),
            )
        case "after":
            second, fraction = divmod(now + luck.randint(1, 90) * SECOND, SECOND)
            return Once(second, "after", "after", fraction)
        case "request":
            return OnRequest(luck.choice(["webhook", "chat"]))
        case _:
            return EveryMonth()


def a_definition(luck: Luck, now: int) -> Definition:
    """Draw any definition that could have been declared now."""
    trigger = a_trigger(luck, now)
    fields: dict[str, Any] = {}
    second = -(-now // SECOND)
    if isinstance(trigger, Every):
        fields["interval_from"] = luck.choice(["slot", "slot", "completion"])
        if fields["interval_from"] == "slot" and luck.choice([False, True]):
            fields["jitter_ms"] = luck.randint(1, trigger.seconds * 999)
    elif isinstance(trigger, Cron) and luck.choice([False, True]):
        fields["jitter_ms"] = luck.randint(1, 90_000)
    if isinstance(trigger, Every | EveryMonth):
        start_at = luck.choice([None, None, -50, 30])
        if start_at is not None:
            fields["start_at"] = second + start_at
        else:
            fields["first_run"] = luck.choice([None, "immediately", "after_interval"])
    if not isinstance(trigger, Once | OnRequest) and luck.choice([False, False, False, True]):
        fields["end_at"] = second + luck.randint(60, 7_200)
    where = zone(luck.choice(ZONES))
    return Definition(trigger, where, Target("command"), **fields, **some_policies(luck))


def some_policies(luck: Luck) -> dict[str, Any]:
    """Draw everything about a definition except its times; each rule is rare enough for the others to take effect."""
    key = luck.choice(KEYS)
    rare: dict[str, Any] = {
        "only_between": luck.choice(WINDOWS),
        "not_on": luck.choice([0b1000001, 0b0000001]),
        "outside_window": "defer",
        "quiet_hours_id": "night",
        "misfire_grace": luck.choice([SECOND, 10 * MINUTE]),
        "catch_up_limit": luck.choice([1, 3]),
        "queue_limit": 2,
        "guard": Guard(key, luck.randint(1, 2)),
        "capacity": Capacity(f"group {key}", luck.randint(1, 2)),
        "breaker": BreakerRule(key, luck.randint(1, 2), 90 * SECOND),
        "budgets": (
            Budget(
                "budget:team",
                5,
                20,
                cost_per_day=9_000_000,
                unit="USD",
                on_reached=luck.choice(["skip", "pause"]),
            ),
        ),
        "total_repeats": luck.randint(1, 3),
        "max_retries": luck.randint(0, 2),
        "retry_delay": 20 * SECOND,
        "on_exhausted": "stop",
        "on_lost": "fail",
    }
    chosen = {name: value for name, value in rare.items() if luck.choice([False, False, False, True])}
    return {
        "catch_up": luck.choice([None, "skip", "run_once", "run_all"]),
        "if_running": luck.choice(["skip", "queue", "cancel", "allow"]),
        **chosen,
    }


def some_quiet_hours(luck: Luck) -> QuietHoursPolicy:
    hours = QuietHours(zone(luck.choice(ZONES)), (QuietWindow(luck.choice(WINDOWS)),))
    return QuietHoursPolicy("night", "night", hours, luck.choice(["skip", "defer"]))
