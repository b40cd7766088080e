"""Rounds are interleaved, rotate, and survive a contestant that fails."""

from dataclasses import dataclass, field

import pytest

from benchmarks.__main__ import failures_of
from benchmarks.model import Benchmark, Contestant
from benchmarks.rounds import ContestantFailedError, Measurements, Turn, largest_amounts, rotated, run_rounds


@dataclass
class ScriptedRunner:
    """A contestant whose every turn costs the same, and which writes its turns into a shared diary."""

    name: str
    diary: list[str]
    cost: float = 1.0
    fails_in_turn: int | None = None
    turns: int = field(default=0, init=False)

    @property
    def label(self) -> str:
        return f"{self.name} 1.0"

    def check(self) -> dict[str, str]:
        if self.fails_in_turn == 0:
            raise ContestantFailedError("it would not start")
        return {"case": "digest"}

    def run(self, part: int, parts: int) -> Turn:
        self.turns += 1
        if self.turns == self.fails_in_turn:
            raise ContestantFailedError("it fell over")
        self.diary.append(self.name)
        return Turn(calibration=0.005, timings={f"case {part}": (self.cost * 10, 10)})


class SilentWatcher:
    def turn(self, benchmark: Benchmark, at_round: int, rounds: int, name: str) -> None:
        pass

    def round_done(
        self, benchmark: Benchmark, at_round: int, rounds: int, calibration: float, costs: dict[str, float]
    ) -> None:
        pass


def a_benchmark(*names: str, parts: int = 1) -> Benchmark:
    contestants = tuple(Contestant(name, "no.worker", ()) for name in names)
    return Benchmark(number="B0", what="nothing", contestants=contestants, goals=(), parts=parts)


def measured(*runners: ScriptedRunner, rounds: int, parts: int = 1) -> Measurements:
    measurements = Measurements(a_benchmark(*(runner.name for runner in runners), parts=parts))
    run_rounds(measurements, runners, rounds=rounds, watcher=SilentWatcher())
    return measurements


@pytest.mark.parametrize(("by", "expected"), [(0, "abc"), (1, "bca"), (2, "cab"), (3, "abc"), (7, "bca")])
def test_rotation_moves_the_first_to_the_end(by: int, expected: str) -> None:
    assert "".join(rotated("abc", by)) == expected


def test_rotating_nothing_gives_nothing() -> None:
    assert rotated([], 3) == []


def test_each_round_begins_with_another_contestant() -> None:
    diary: list[str] = []
    measured(ScriptedRunner("a", diary), ScriptedRunner("b", diary), ScriptedRunner("c", diary), rounds=3)
    assert "".join(diary) == "abcbcacab"


def test_the_parts_of_a_round_are_interleaved_too() -> None:
    diary: list[str] = []
    measured(ScriptedRunner("a", diary), ScriptedRunner("b", diary), rounds=2, parts=3)
    assert "".join(diary) == "abbaab" + "baabba"


def test_a_round_gathers_the_cases_of_its_parts_as_cost_per_operation() -> None:
    measurements = measured(ScriptedRunner("a", [], cost=2.0), rounds=2, parts=2)
    assert measurements.costs == {"a": [{"case 0": 2.0, "case 1": 2.0}] * 2}
    assert measurements.calibrations == [[0.005, 0.005]] * 2


def test_an_amount_counts_where_it_was_largest_in_the_round() -> None:
    turns = [Turn(0.005, {}, {"memory": 3.0}), Turn(0.005, {}, {"memory": 5.0, "missed": 0.0})]
    assert largest_amounts(turns) == {"memory": 5.0, "missed": 0.0}


def test_a_contestant_that_cannot_start_is_named_and_the_others_run() -> None:
    measurements = measured(ScriptedRunner("a", []), ScriptedRunner("b", [], fails_in_turn=0), rounds=2)
    assert measurements.absent == {"b": "it would not start"}
    assert len(measurements.costs["a"]) == 2


def test_a_contestant_that_fails_midway_leaves_no_half_measured_round() -> None:
    measurements = measured(
        ScriptedRunner("a", []), ScriptedRunner("b", [], fails_in_turn=4), rounds=3, parts=2
    )
    assert measurements.absent == {"b": "it fell over"}
    assert list(measurements.costs) == ["a"]
    assert len(measurements.costs["a"]) == 3


def test_a_contestant_that_failed_is_a_failure_of_the_run() -> None:
    measurements = measured(ScriptedRunner("a", []), ScriptedRunner("b", [], fails_in_turn=0), rounds=2)
    assert failures_of(measurements) == ["B0: b failed: it would not start"]
    assert failures_of(measured(ScriptedRunner("a", []), rounds=1)) == []
