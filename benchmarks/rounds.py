"""Interleaved rounds: every contestant does its work once per round, and each round begins with another one.

Machines change speed within a second. A round is therefore divided into parts: each contestant does a part of its
work, then all do the next, so that a change affects all of them equally.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import geometric_mean, median
from typing import Protocol, TypeVar

from benchmarks.model import Benchmark

FEWEST_ROUNDS = 5

T = TypeVar("T")

# Seconds and number of operations, by the name of the case.
Timings = dict[str, tuple[float, int]]
# Seconds per operation, by the name of the case.
Costs = dict[str, float]
# Amounts that are not a duration per operation (megabytes, slots missed), by name.
Amounts = dict[str, float]


class ContestantFailedError(Exception):
    """A contestant that cannot be measured; the message goes into the table."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One part of one contestant's work, and the calibration loop right before it."""

    calibration: float
    timings: Timings
    amounts: Amounts = field(default_factory=dict)


class Runner(Protocol):
    """A contestant that is ready to run."""

    @property
    def name(self) -> str: ...

    @property
    def label(self) -> str:
        """The name with the version, for the table."""

    def check(self) -> dict[str, str]:
        """Return a digest of the results per case: contestants that do the same work give the same digests."""

    def run(self, part: int, parts: int) -> Turn: ...


class Watcher(Protocol):
    """An observer of the rounds."""

    def turn(self, benchmark: Benchmark, at_round: int, rounds: int, name: str) -> None: ...

    def round_done(
        self, benchmark: Benchmark, at_round: int, rounds: int, calibration: float, costs: dict[str, float]
    ) -> None: ...


@dataclass(slots=True)
class Measurements:
    """The measurements of one benchmark, round by round."""

    benchmark: Benchmark
    labels: dict[str, str] = field(default_factory=dict)
    digests: dict[str, dict[str, str]] = field(default_factory=dict)
    costs: dict[str, list[Costs]] = field(default_factory=dict)
    amounts: dict[str, list[Amounts]] = field(default_factory=dict)
    calibrations: list[list[float]] = field(default_factory=list)
    absent: dict[str, str] = field(default_factory=dict)

    def drop(self, name: str, reason: str) -> None:
        self.absent[name] = reason
        self.costs.pop(name, None)
        self.amounts.pop(name, None)
        self.digests.pop(name, None)


def run_rounds(
    measurements: Measurements, runners: Sequence[Runner], *, rounds: int, watcher: Watcher
) -> None:
    """Run all rounds and fill in the measurements. A contestant that fails is dropped with its reason; the others
    continue."""
    for runner in runners:
        check(measurements, runner)
    for at_round in range(rounds):
        turns = run_round(measurements, runners, at_round=at_round, rounds=rounds, watcher=watcher)
        for name, costs in costs_of(turns).items():
            measurements.costs[name].append(costs)
            measurements.amounts[name].append(largest_amounts(turns[name]))
        measurements.calibrations.append([turn.calibration for taken in turns.values() for turn in taken])
        watcher.round_done(
            measurements.benchmark,
            at_round,
            rounds,
            median(measurements.calibrations[-1] or [0.0]),
            {name: geometric_mean(costs[-1].values()) for name, costs in measurements.costs.items()},
        )


def check(measurements: Measurements, runner: Runner) -> None:
    """Make the untimed first run: it fills caches, and its digests show whether all contestants do the same work."""
    try:
        measurements.digests[runner.name] = runner.check()
    except ContestantFailedError as failure:
        measurements.drop(runner.name, str(failure))
        return
    measurements.labels[runner.name] = runner.label
    measurements.costs[runner.name] = []
    measurements.amounts[runner.name] = []


def run_round(
    measurements: Measurements, runners: Sequence[Runner], *, at_round: int, rounds: int, watcher: Watcher
) -> dict[str, list[Turn]]:
    """Return the turns of one round by contestant, without those that failed in it."""
    turns: dict[str, list[Turn]] = {name: [] for name in measurements.costs}
    parts = measurements.benchmark.parts
    for part in range(parts):
        running = [runner for runner in runners if runner.name in turns]
        for runner in rotated(running, at_round + part):
            watcher.turn(measurements.benchmark, at_round, rounds, runner.name)
            try:
                turns[runner.name].append(runner.run(part, parts))
            except ContestantFailedError as failure:
                measurements.drop(runner.name, str(failure))
                del turns[runner.name]
    return turns


def costs_of(turns: dict[str, list[Turn]]) -> dict[str, Costs]:
    return {name: cost_by_case(taken) for name, taken in turns.items()}


def cost_by_case(turns: Sequence[Turn]) -> Costs:
    """Return the cost per case; a case in several parts counts with all of them."""
    seconds: dict[str, float] = {}
    count: dict[str, int] = {}
    for turn in turns:
        for case, (elapsed, operations) in turn.timings.items():
            seconds[case] = seconds.get(case, 0.0) + elapsed
            count[case] = count.get(case, 0) + operations
    return {case: seconds[case] / count[case] for case in seconds}


def largest_amounts(turns: Sequence[Turn]) -> Amounts:
    """Return the amounts; an amount in several parts counts with its largest value."""
    largest: Amounts = {}
    for turn in turns:
        for name, amount in turn.amounts.items():
            largest[name] = max(amount, largest.get(name, amount))
    return largest


def rotated(items: Sequence[T], by: int) -> list[T]:
    if not items:
        return []
    start = by % len(items)
    return [*items[start:], *items[:start]]
