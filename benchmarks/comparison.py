"""A benchmark of this checkout beside another one: what a change costs, with the peers left out."""

from dataclasses import replace
from pathlib import Path

from benchmarks.model import EVERWHEN, OWN, Benchmark, Contestant, Goal

BEFORE = ", before"
# A change is free if its speed is at least this share of the speed before.
AT_LEAST = 0.95


def beside(benchmark: Benchmark, checkout: Path) -> Benchmark:
    """Return the benchmark with everwhen's contestants only, each of them also run from the other checkout."""
    ours = [one for one in benchmark.contestants if one.environment == OWN and one.name.startswith(EVERWHEN)]
    return replace(
        benchmark,
        contestants=tuple(both for one in ours for both in (one, earlier(one, checkout))),
        goals=tuple(Goal(subject=one.name, against=one.name + BEFORE, at_least=AT_LEAST) for one in ours),
        limits=(),
    )


def earlier(contestant: Contestant, checkout: Path) -> Contestant:
    return replace(contestant, name=contestant.name + BEFORE, checkout=checkout)
