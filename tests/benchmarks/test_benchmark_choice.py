"""The command line chooses benchmarks by number, and the catalogue holds together."""

from pathlib import Path

import pytest

from benchmarks.__main__ import parse
from benchmarks.catalog import BENCHMARKS
from benchmarks.comparison import beside
from benchmarks.model import Benchmark, Goal
from benchmarks.workers.cron_cases import EVERYDAY, STEPS_OF_RARE, cases


def test_numbers_are_chosen_in_any_case_and_with_blanks() -> None:
    options = parse(["--only", "b17, B1"])
    assert {benchmark.number for benchmark in options.only} == {"B1", "B17"}


def test_everything_is_chosen_when_nothing_is_named() -> None:
    assert parse([]).only == BENCHMARKS


@pytest.mark.parametrize("arguments", [["--only", "B99"], ["--rounds", "4"], ["--rounds", "many"]])
def test_what_cannot_be_measured_is_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(arguments)
    assert "error: argument" in capsys.readouterr().err


@pytest.mark.parametrize("benchmark", BENCHMARKS, ids=lambda benchmark: benchmark.what)
def test_every_goal_names_contestants_that_take_part(benchmark: Benchmark) -> None:
    names = {contestant.name for contestant in benchmark.contestants}
    assert {name for goal in benchmark.goals for name in (goal.subject, goal.against)} <= names
    assert {
        name for limit in benchmark.limits for name in (limit.subject, limit.above or limit.subject)
    } <= names


def test_the_catalogue_is_in_the_order_of_the_table() -> None:
    numbers = [int(benchmark.number[1:]) for benchmark in BENCHMARKS]
    assert numbers == sorted(numbers)


def test_beside_another_checkout_everwhen_alone_is_measured_twice() -> None:
    bulk = next(benchmark for benchmark in BENCHMARKS if benchmark.number == "B2")
    compared = beside(bulk, Path("before"))
    assert [(one.name, one.checkout) for one in compared.contestants] == [
        ("everwhen", None),
        ("everwhen, before", Path("before")),
        ("everwhen, REST batch", None),
        ("everwhen, REST batch, before", Path("before")),
    ]
    assert [goal.text for goal in compared.goals] == [
        "≥ 0.95 × everwhen, before",
        "≥ 0.95 × everwhen, REST batch, before",
    ]


def test_a_checkout_without_an_environment_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parse(["--against", str(tmp_path)])
    assert "has no environment" in capsys.readouterr().err


def test_long_work_has_a_bound_on_its_rounds() -> None:
    benchmark = Benchmark(number="B0", what="nothing", contestants=(), most_rounds=5)
    assert (benchmark.rounds_of(15), benchmark.rounds_of(3)) == (5, 3)


def test_a_goal_with_two_bounds_is_refused() -> None:
    with pytest.raises(ValueError, match="two bounds"):
        Goal(against="peer", at_least=1, at_most=2)


def test_thirty_expressions_are_walked_in_three_zones() -> None:
    assert len({*EVERYDAY, *STEPS_OF_RARE}) == 30
    assert len(list(cases())) == 90
