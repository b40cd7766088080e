"""Medians, spreads, ratios and marks come out right, and the table says so."""

import json
from datetime import UTC, datetime

import pytest

from benchmarks.model import Benchmark, Contestant, Goal, Limit
from benchmarks.report import Run, as_json, as_markdown
from benchmarks.rounds import Amounts, Costs, Measurements
from benchmarks.summary import Spread, Summary, summarize

RUN = Run(started_at=datetime(2026, 11, 15, tzinfo=UTC), rounds=3, is_quick=False)


def a_summary(
    *goals: Goal,
    costs: dict[str, list[Costs]],
    limits: tuple[Limit, ...] = (),
    amounts: dict[str, list[Amounts]] | None = None,
    absent: dict[str, str] | None = None,
    digests: dict[str, dict[str, str]] | None = None,
) -> Summary:
    contestants = tuple(Contestant(name, "no.worker", ()) for name in costs)
    return summarize(
        Measurements(
            Benchmark(number="B0", what="counting", contestants=contestants, goals=goals, limits=limits),
            labels={name: f"{name} 1.0" for name in costs},
            digests=digests or {},
            costs=costs,
            amounts=amounts or {},
            calibrations=[[0.004, 0.006], [0.005]],
            absent=absent or {},
        )
    )


def rounds_of(*costs: float) -> list[Costs]:
    return [{"only": cost} for cost in costs]


def test_a_spread_is_a_median_between_extremes() -> None:
    assert Spread.of([3.0, 1.0, 2.0, 10.0]) == Spread(median=2.5, low=1.0, high=10.0)


def test_costs_are_the_geometric_mean_over_cases_then_the_median_over_rounds() -> None:
    summary = a_summary(
        costs={"everwhen": [{"a": 1.0, "b": 4.0}, {"a": 2.0, "b": 8.0}, {"a": 9.0, "b": 9.0}]}
    )
    spread = summary.costs["everwhen"]
    assert (spread.median, spread.low, spread.high) == pytest.approx((4.0, 2.0, 9.0))
    assert summary.case_medians["everwhen"] == {"a": 2.0, "b": 8.0}


def test_ratios_are_taken_within_a_round_before_the_median() -> None:
    # The machine slowed down for one side in the second round, for both in the third: the ratio of the
    # medians would be 8, though two of three rounds say 16.
    costs = {"everwhen": rounds_of(1.0, 2.0, 4.0), "peer": rounds_of(16.0, 16.0, 64.0)}
    (verdict,) = a_summary(Goal(against="peer", at_least=12), costs=costs).verdicts
    assert verdict.ratio is not None
    ratios = (verdict.ratio.median, verdict.ratio.low, verdict.ratio.high)
    assert ratios == pytest.approx((16.0, 8.0, 16.0))
    assert verdict.is_met is True


@pytest.mark.parametrize(
    ("goal", "ratio", "is_met"),
    [
        (Goal(against="peer", at_least=4), 4.0, True),
        (Goal(against="peer", at_least=4.1), 4.0, False),
        (Goal(against="peer", at_most=0.25), 0.25, True),
        (Goal(against="peer", at_most=0.2), 0.25, False),
        (Goal(against="everwhen", subject="peer", at_most=3), 4.0, False),
        (Goal(against="peer"), 4.0, None),
    ],
)
def test_a_goal_is_marked_by_its_own_bound(goal: Goal, ratio: float, is_met: bool | None) -> None:
    costs = {"everwhen": rounds_of(1.0, 1.0, 1.0), "peer": rounds_of(4.0, 4.0, 4.0)}
    (verdict,) = a_summary(goal, costs=costs).verdicts
    assert verdict.ratio is not None
    assert verdict.ratio.median == pytest.approx(ratio)
    assert verdict.is_met is is_met


def test_a_goal_for_each_case_is_judged_by_the_worst_one() -> None:
    costs = {"everwhen": [{"good": 1.0, "bad": 1.0}], "peer": [{"good": 100.0, "bad": 2.0}]}
    (verdict,) = a_summary(Goal(against="peer", at_least=3, over="each"), costs=costs).verdicts
    assert (verdict.case, verdict.is_met) == ("bad", False)


def test_a_goal_for_some_cases_leaves_the_others_out() -> None:
    costs = {"everwhen": [{"median": 1.0, "p99": 9.0}], "peer": [{"median": 2.0, "p99": 1.0}]}
    (verdict,) = a_summary(Goal(against="peer", at_least=2, cases="median"), costs=costs).verdicts
    assert verdict.ratio is not None and verdict.ratio.median == pytest.approx(2.0)
    assert verdict.goal.text == "median: ≥ 2 × peer"


def test_a_goal_against_an_absent_contestant_is_neither_met_nor_missed() -> None:
    summary = a_summary(
        Goal(against="peer", at_least=2),
        costs={"everwhen": rounds_of(1.0)},
        absent={"peer": "could not be installed"},
    )
    assert summary.verdicts[0].is_met is None
    assert summary.notes == ("peer was not measured: could not be installed",)
    assert "| — | not measured |" in as_markdown(RUN, [summary])


def test_cases_that_only_one_side_knows_stay_out_of_the_ratio_and_are_noted() -> None:
    summary = a_summary(
        Goal(against="peer", at_least=2),
        costs={"everwhen": [{"a": 1.0, "b": 50.0}], "peer": [{"a": 4.0}]},
        digests={"everwhen": {"a": "x", "b": "y"}, "peer": {"a": "x"}},
    )
    ratio = summary.verdicts[0].ratio
    assert ratio is not None and ratio.median == pytest.approx(4.0)
    assert summary.notes == ("peer 1.0 cannot do `b`, left out of its mean",)


def test_contestants_that_find_other_results_are_noted() -> None:
    summary = a_summary(
        costs={"everwhen": rounds_of(1.0), "peer": rounds_of(1.0)},
        digests={"everwhen": {"a": "x", "b": "y"}, "peer": {"a": "x", "b": "z"}},
    )
    assert summary.notes == ("peer 1.0 finds other instants in 1 of 2: `b`",)


def test_the_table_has_a_row_per_goal_with_its_mark() -> None:
    costs = {"everwhen": rounds_of(2e-6, 2e-6, 4e-6), "peer": rounds_of(24e-6, 24e-6, 24e-6)}
    markdown = as_markdown(RUN, [a_summary(Goal(against="peer", at_least=12), costs=costs)])
    assert (
        "| B0 | counting | ≥ 12 × peer | everwhen 1.0 2 µs (2 µs–4 µs), peer 1.0 24 µs (24 µs–24 µs) "
        "| 12.00 × (6.00–12.00) | met |" in markdown.splitlines()
    )
    assert "Goals met: 1 of 1; missed: 0; not measured: 0." in markdown
    assert "- B0, counting: 5.0, 5.0" in markdown


def test_a_missed_goal_stands_out_in_the_table() -> None:
    costs = {"everwhen": rounds_of(1.0), "peer": rounds_of(1.0)}
    markdown = as_markdown(RUN, [a_summary(Goal(against="peer", at_least=12), costs=costs)])
    assert "| **missed** |" in markdown


@pytest.mark.parametrize(
    ("limit", "is_met"),
    [
        (Limit(amount="memory", at_most=50, unit="MB"), False),
        (Limit(amount="memory", at_most=50, unit="MB", above="peer"), True),
        (Limit(amount="memory", at_most=21, unit="MB", above="peer"), True),
        (Limit(amount="memory", at_most=20, unit="MB", above="peer"), False),
        (Limit(amount="memory", at_most=21, unit="MB", above="peer", over="worst"), False),
        (Limit(amount="memory", at_most=40, unit="MB", subject="peer", over="worst"), True),
        (Limit(amount="memory", at_least=61, unit="MB"), True),
        (Limit(amount="memory", at_least=61, unit="MB", over="worst"), False),
        (Limit(amount="memory", unit="MB"), None),
    ],
)
def test_a_limit_is_judged_by_the_median_or_by_the_worst_round(limit: Limit, is_met: bool | None) -> None:
    summary = a_summary(
        costs={"everwhen": rounds_of(1.0, 1.0, 1.0), "peer": rounds_of(1.0, 1.0, 1.0)},
        limits=(limit,),
        amounts={
            "everwhen": [{"memory": 60.0}, {"memory": 61.0}, {"memory": 70.0}],
            "peer": [{"memory": 40.0}, {"memory": 40.0}, {"memory": 40.0}],
        },
    )
    assert summary.limit_verdicts[0].is_met is is_met


def test_a_limit_of_an_absent_contestant_is_neither_met_nor_missed() -> None:
    limit = Limit(amount="memory", at_most=50, unit="MB", above="peer")
    costs = {"everwhen": rounds_of(1.0)}
    summary = a_summary(costs=costs, limits=(limit,), amounts={"everwhen": [{"memory": 1.0}]})
    assert summary.limit_verdicts[0].is_met is None
    assert "| memory ≤ 50 MB above peer | — | — | not measured |" in as_markdown(RUN, [summary])


def test_limits_have_their_rows_and_count_in_the_tally() -> None:
    limits = (
        Limit(amount="lag", at_most=1, unit="s"),
        Limit(amount="missed", at_most=0, unit="slots", over="worst"),
    )
    amounts = {"everwhen": [{"lag": 0.25, "missed": 0.0}, {"lag": 0.5, "missed": 2.0}]}
    summary = a_summary(costs={"everwhen": rounds_of(1.0, 1.0)}, limits=limits, amounts=amounts)
    markdown = as_markdown(RUN, [summary])
    assert "| B0 | counting | lag ≤ 1 s | everwhen 1.0 0.375 (0.25–0.5) s | — | met |" in markdown
    assert "| B0 | counting | missed ≤ 0 slots | everwhen 1.0 1 (0–2) slots | — | **missed** |" in markdown
    assert "Goals met: 1 of 2; missed: 1; not measured: 0." in markdown
    (first, second) = json.loads(as_json(RUN, [summary]))["benchmarks"][0]["limits"]
    assert (first["met"], second["met"], second["amount"]["high"]) == (True, False, 2.0)


def test_an_amount_without_a_bound_is_shown_and_does_not_count_in_the_tally() -> None:
    limits = (Limit(amount="memory", unit="MB"), Limit(amount="space", at_least=50, unit="%"))
    amounts = {"everwhen": [{"memory": 45.6, "space": 80.0}]}
    summary = a_summary(costs={"everwhen": rounds_of(1.0)}, limits=limits, amounts=amounts)
    markdown = as_markdown(RUN, [summary])
    assert "| B0 | counting | memory | everwhen 1.0 45.6 (45.6–45.6) MB | — | — |" in markdown
    assert "| B0 | counting | space ≥ 50 % | everwhen 1.0 80 (80–80) % | — | met |" in markdown
    assert "Goals met: 1 of 1; missed: 0; not measured: 0." in markdown


def test_the_json_says_the_same_as_the_table() -> None:
    costs = {"everwhen": rounds_of(1.0), "peer": rounds_of(4.0)}
    document = json.loads(as_json(RUN, [a_summary(Goal(against="peer", at_least=2), costs=costs)]))
    (goal,) = document["benchmarks"][0]["goals"]
    assert (goal["text"], goal["met"]) == ("≥ 2 × peer", True)
    assert goal["ratio"]["median"] == pytest.approx(4.0)
