"""The worker of B1 and B18: walks instants, parses, or lists a year, with the library named on its command line."""

import argparse
import hashlib
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import cached_property
from importlib.metadata import version
from time import perf_counter
from typing import Any

from benchmarks.workers.answering import Task, Timings, answer_until_end
from benchmarks.workers.cron_cases import ZONES, Case, asked_cases, cases, timezone_of
from benchmarks.workers.cron_engines import ENGINES, Engine
from benchmarks.workers.sizes import Size, accept_sizes, size_of


class CronTask:
    def __init__(self, engine: Engine, *, size: Size) -> None:
        self.engine = engine
        self.size = size

    @property
    def version(self) -> str:
        return version(self.engine.distribution)

    @cached_property
    def cases(self) -> list[Case]:
        """Return the cases that the library can parse; the harness notes the others."""
        chosen = list(cases())[:: self.size.of(1, 1, 15)]
        return [case for case in chosen if can_parse(self.engine, case)]


class Walking(CronTask):
    """Successive instants; the expressions are parsed before the timer starts."""

    def check(self) -> dict[str, str]:
        return {case.name: digest(self.instants(case)) for case in self.cases}

    def run(self, part: int, parts: int) -> Timings:
        return {case.name: (self.seconds(case), case.steps * case.laps) for case in self.cases[part::parts]}

    def seconds(self, case: Case) -> float:
        walks = [self.engine.walk(case.text, case.zone_name, case.start) for _ in range(case.laps)]
        began = perf_counter()
        for walk in walks:
            walk(case.steps)
        return perf_counter() - began

    def instants(self, case: Case) -> list[Any]:
        walk = self.engine.walk(case.text, case.zone_name, case.start)
        return [walk(1) for _ in range(case.steps)]


class Asking(Walking):
    """The same of ten expressions, for a program that keeps nothing but the text."""

    @cached_property
    def cases(self) -> list[Case]:
        return list(asked_cases())


class Parsing(CronTask):
    """From text to the first instant, with empty caches."""

    def check(self) -> dict[str, str]:
        return {case.name: digest([self.first(case)]) for case in self.cases}

    def run(self, part: int, parts: int) -> Timings:
        repetitions = self.size.of(10, 3, 1)
        return {
            case.name: (sum(self.seconds(case) for _ in range(repetitions)), repetitions)
            for case in self.cases[part::parts]
        }

    def seconds(self, case: Case) -> float:
        self.engine.forget()
        text, zone_name, start = case.text, case.zone_name, case.start
        began = perf_counter()
        self.engine.walk(text, zone_name, start)(1)
        return perf_counter() - began

    def first(self, case: Case) -> Any:
        return self.engine.walk(case.text, case.zone_name, case.start)(1)


class Spanning(CronTask):
    """Every instant of a year (of a month, when quick) of `*/5 * * * *`, as a list."""

    def check(self) -> dict[str, str]:
        return {zone_name: digest(self.instants(zone_name)) for zone_name in ZONES}

    def run(self, part: int, parts: int) -> Timings:
        timings = {}
        for zone_name in ZONES[part::parts]:
            began = perf_counter()
            found = self.instants(zone_name)
            timings[zone_name] = (perf_counter() - began, len(found))
        return timings

    def instants(self, zone_name: str) -> list[Any]:
        assert self.engine.span is not None, "this library is only walked"
        zone = timezone_of(zone_name)
        # Between two slots at both ends, because the libraries differ on whether the start itself counts.
        start = datetime(2026, 1, 1, 0, 1, tzinfo=UTC).astimezone(zone)
        a_month_later = datetime(2026, 2, 1, 0, 1, tzinfo=UTC)
        end = self.size.of(start.replace(year=2027), a_month_later, a_month_later)
        return list(self.engine.span("*/5 * * * *", zone_name, start, end))


def can_parse(engine: Engine, case: Case) -> bool:
    try:
        engine.walk(case.text, case.zone_name, case.start)
    except Exception:  # each library has its own error for text that it cannot parse
        return False
    return True


def digest(instants: Iterable[Any]) -> str:
    seconds = ",".join(str(epoch_seconds(instant)) for instant in instants)
    return hashlib.sha256(seconds.encode()).hexdigest()[:16]


def epoch_seconds(instant: Any) -> int:
    return int(instant.timestamp()) if isinstance(instant, datetime) else int(instant)


TASKS: dict[str, Callable[..., Task]] = {
    "walk": Walking,
    "ask": Asking,
    "parse": Parsing,
    "span": Spanning,
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("task", choices=TASKS)
    parser.add_argument("engine", choices=ENGINES)
    accept_sizes(parser)
    options = parser.parse_args()
    answer_until_end(TASKS[options.task](ENGINES[options.engine](), size=size_of(options)))


if __name__ == "__main__":
    main()
