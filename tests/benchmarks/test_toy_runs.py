"""Every worker of the benchmarks does its work, at toy size: a figure that cannot be measured is noticed here."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace

import pytest

from benchmarks.catalog import BENCHMARKS
from benchmarks.children import Child, plain_environment
from benchmarks.environments import ROOT, python_in
from benchmarks.model import APSCHEDULER_3, APSCHEDULER_3_SERVED, OWN, Contestant
from benchmarks.postgres import SERVER, a_server

# What the development environment has as well; the other peers need an environment of their own.
AT_HAND = (OWN, APSCHEDULER_3, APSCHEDULER_3_SERVED)
# Words of which one is enough: they change a number, and no path.
ALIKE = (
    {"few", "many"},
    {"default", "tuned"},
    {"8", "32"},
    {"month", "day"},
    {"B5", "B24", "command"},
    {"indexed", "scanned", "dashboard"},
    {"schedules-list", "why", "jobs-list", "system-status"},
    {"bulk", "single"},
    {"grown", "empty"},
    {"held", "free"},
    {"fired", "fresh"},
    {"here", "file"},
    {"version", "help"},
    {"limits", "alone"},
    {"1", "2"},
)


def form_of(contestant: Contestant) -> tuple[str, ...]:
    """Return what the runs of a worker that do the same have in common."""
    words = (min(next((group for group in ALIKE if word in group), {word})) for word in contestant.arguments)
    return contestant.worker, *words


def toys() -> Iterator[tuple[Contestant, bool]]:
    """Yield a contestant of each form, and whether it needs PostgreSQL: on SQLite where it is measured there."""
    found: dict[tuple[str, ...], tuple[Contestant, bool]] = {}
    for benchmark in sorted(BENCHMARKS, key=lambda benchmark: benchmark.database == "PostgreSQL"):
        for contestant in benchmark.contestants:
            if contestant.environment in AT_HAND:
                found.setdefault(form_of(contestant), (contestant, benchmark.database == "PostgreSQL"))
    for form, toy in found.items():
        if not any(other[: len(form)] == form for other in found.keys() - {form}):  # another does more
            yield toy


@pytest.mark.timeout(900)  # it starts sixty workers, and some of them nodes
def test_each_worker_works_at_toy_size() -> None:
    with a_server() as url:
        wanted = [[one.worker, one.arguments, url if is_served else None] for one, is_served in toys()]
        done = subprocess.run(
            [sys.executable, "-m", "tests.benchmarks.forked_workers"],
            check=False,
            input=json.dumps(wanted),
            capture_output=True,
            text=True,
            cwd=ROOT,
            env=plain_environment(),
        )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, done.stderr
    assert len(answers) == len(wanted)
    assert {f"{worker} {words}": complaint for worker, words, complaint, _ in answers if complaint} == {}


def peers() -> Iterator[tuple[Contestant, bool]]:
    """Yield a contestant of each environment that only a run of the benchmarks makes."""
    seen = set(AT_HAND)
    for benchmark in BENCHMARKS:
        for contestant in benchmark.contestants:
            if contestant.environment not in seen:
                seen.add(contestant.environment)
                yield contestant, benchmark.database == "PostgreSQL"


@pytest.mark.parametrize(
    ("contestant", "is_served"), list(peers()), ids=[contestant.environment.name for contestant, _ in peers()]
)
def test_each_peer_works_at_toy_size_where_its_environment_is(
    contestant: Contestant, is_served: bool
) -> None:
    python = python_in(contestant.environment)
    if python is None:
        where = f".bench/{contestant.environment.name}"
        pytest.skip(f"NOT RUN: {contestant.name}: there is no {where}, which python -m benchmarks makes")
    toy = replace(contestant, arguments=(*contestant.arguments, "--toy"))
    with a_server() if is_served else nullcontext("") as url:
        rules = {SERVER: url} if is_served else {}
        with Child(toy, python, is_quick=False, rules=rules) as child:
            child.check()
            assert child.run(0, 1).timings
