"""One adapter per cron library, each in the fastest form that its documentation offers.

Libraries are loaded by name, inside functions: each environment has only some of them.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from importlib import import_module
from itertools import takewhile
from typing import Any

from benchmarks.workers.cron_cases import timezone_of

# Advances that many instants and returns the last: an aware datetime, or epoch seconds.
Walk = Callable[[int], Any]


@dataclass(frozen=True, slots=True)
class Engine:
    """`walk` parses anew at each call; `span` lists the instants from start to end."""

    distribution: str
    walk: Callable[[str, str, datetime], Walk]
    span: Callable[[str, str, datetime, datetime], Iterable[Any]] | None = None
    forget: Callable[[], None] = lambda: None


def everwhen() -> Engine:
    series_of = everwhen_series()

    def walk(text: str, zone_name: str, start: datetime) -> Walk:
        return repeated(series_of(text, zone_name).next_datetime, start)

    def span(text: str, zone_name: str, start: datetime, end: datetime) -> Iterable[Any]:
        slots = series_of(text, zone_name).between(int(start.timestamp()), int(end.timestamp()), 1_000_000)
        return list(slots)

    return Engine("everwhen", walk, span, forget_everwhen)


def everwhen_epoch() -> Engine:
    series_of = everwhen_series()

    def walk(text: str, zone_name: str, start: datetime) -> Walk:
        return repeated(series_of(text, zone_name).next_after, int(start.timestamp()))

    return Engine("everwhen", walk)


def everwhen_calls() -> Engine:
    """The public function, which is given the text at each call."""
    following = import_module("everwhen").calculate_next_cron_trigger

    def walk(text: str, zone_name: str, start: datetime) -> Walk:
        return repeated(lambda instant: following(text, instant, zone_name), start)

    return Engine("everwhen", walk)


def everwhen_series() -> Callable[[str, str], Any]:
    parse = import_module("everwhen.timetable.cron").parse_cron
    series = import_module("everwhen.timetable.cron_series").CronSeries
    zone = import_module("everwhen.timetable.civil_time").zone
    return lambda text, zone_name: series(parse(text), zone(zone_name))


def forget_everwhen() -> None:
    """Empty the parse caches, so that every parse is a fresh one; zones stay cached, as zoneinfo's do."""
    for value in vars(import_module("everwhen.timetable.cron")).values():
        if hasattr(value, "cache_clear"):
            value.cache_clear()


def cronsim() -> Engine:
    simulator = import_module("cronsim").CronSim

    def walk(text: str, _zone_name: str, start: datetime) -> Walk:
        return iterated(simulator(text, start).__next__)

    def span(text: str, _zone_name: str, start: datetime, end: datetime) -> Iterable[Any]:
        return list(takewhile(lambda slot: slot < end, simulator(text, start)))

    return Engine("cronsim", walk, span)


def croniter() -> Engine:
    iterator = import_module("croniter").croniter

    def walk(text: str, _zone_name: str, start: datetime) -> Walk:
        get_next = iterator(text, start).get_next

        def advance(steps: int) -> Any:
            instant = None
            for _ in range(steps):
                instant = get_next(datetime)
            return instant

        return advance

    return Engine("croniter", walk)


def apscheduler_3() -> Engine:
    trigger = import_module("apscheduler.triggers.cron").CronTrigger

    def walk(text: str, zone_name: str, start: datetime) -> Walk:
        cron = trigger.from_crontab(with_named_weekdays(text), timezone=timezone_of(zone_name))
        next_fire_time = cron.get_next_fire_time
        previous, now = None, start

        def advance(steps: int) -> Any:
            nonlocal previous, now
            for _ in range(steps):
                previous = now = next_fire_time(previous, now)
            return now

        return advance

    return Engine("apscheduler", walk)


def apscheduler_4() -> Engine:
    trigger = import_module("apscheduler.triggers.cron").CronTrigger

    def walk(text: str, zone_name: str, start: datetime) -> Walk:
        text = with_named_weekdays(text)
        cron = trigger.from_crontab(text, start_time=start, timezone=timezone_of(zone_name))
        return iterated(cron.next)

    return Engine("apscheduler", walk)


def celery() -> Engine:
    crontab = import_module("celery.schedules").crontab

    def walk(text: str, zone_name: str, start: datetime) -> Walk:
        zone = timezone_of(zone_name)
        cron = crontab.from_string(text)
        # A fixed clock: Celery reads the time at every step, and the result does not matter here.
        cron.nowfun = lambda: start

        def following(instant: datetime) -> Any:
            last, delta, _now = cron.remaining_delta(instant, tz=zone)
            return last + delta

        return repeated(following, start)

    return Engine("celery", walk)


def repeated(following: Callable[[Any], Any], start: Any) -> Walk:
    """Adapt a library that takes an instant and returns the next."""
    instant = start

    def advance(steps: int) -> Any:
        nonlocal instant
        at = instant
        for _ in range(steps):
            at = following(at)
        instant = at
        return at

    return advance


def iterated(following: Callable[[], Any]) -> Walk:
    """Adapt a library that keeps its position."""

    def advance(steps: int) -> Any:
        at = None
        for _ in range(steps):
            at = following()
        return at

    return advance


def with_named_weekdays(text: str) -> str:
    """Replace weekday numbers by names: APScheduler 3 counts from Monday = 0; names mean the same to all.

    >>> with_named_weekdays("*/15 9-17 * * 1-5")
    '*/15 9-17 * * mon-fri'
    """
    fields = text.split()
    names = ("sun", "mon", "tue", "wed", "thu", "fri", "sat", "sun")
    fields[4] = re.sub(r"\d", lambda digit: names[int(digit[0])], fields[4])
    return " ".join(fields)


ENGINES: dict[str, Callable[[], Engine]] = {
    "everwhen": everwhen,
    "everwhen-epoch": everwhen_epoch,
    "everwhen-calls": everwhen_calls,
    "cronsim": cronsim,
    "croniter": croniter,
    "apscheduler-3": apscheduler_3,
    "apscheduler-4": apscheduler_4,
    "celery": celery,
}
