"""Medians, spreads and ratios from the rounds, and whether each goal is met. Pure arithmetic."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import geometric_mean, median

from benchmarks.model import EVERWHEN, Benchmark, Goal, Limit
from benchmarks.rounds import Amounts, Costs, Measurements


@dataclass(frozen=True, slots=True)
class Spread:
    """A median with the minimum and the maximum of its values."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float]) -> "Spread":
        ordered = sorted(values)
        return cls(median(ordered), ordered[0], ordered[-1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The result of one goal. `ratio` is None when either side could not be measured."""

    goal: Goal
    ratio: Spread | None
    is_met: bool | None
    case: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitVerdict:
    """The result of one limit. `amount` is None when it could not be measured."""

    limit: Limit
    amount: Spread | None
    is_met: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    benchmark: Benchmark
    labels: dict[str, str]
    costs: dict[str, Spread]
    case_medians: dict[str, Costs]
    verdicts: tuple[Verdict, ...]
    limit_verdicts: tuple[LimitVerdict, ...]
    calibrations: tuple[Spread, ...]
    notes: tuple[str, ...]


def summarize(measurements: Measurements) -> Summary:
    return Summary(
        benchmark=measurements.benchmark,
        labels=measurements.labels,
        costs={
            name: Spread.of(geometric_mean(costs.values()) for costs in turns)
            for name, turns in measurements.costs.items()
        },
        case_medians={name: case_medians(turns) for name, turns in measurements.costs.items()},
        verdicts=tuple(judge(goal, measurements.costs) for goal in measurements.benchmark.goals),
        limit_verdicts=tuple(
            judge_limit(limit, measurements.amounts) for limit in measurements.benchmark.limits
        ),
        calibrations=tuple(Spread.of(turns) for turns in measurements.calibrations if turns),
        notes=(*absences(measurements), *disagreements(measurements)),
    )


def case_medians(turns: Sequence[Costs]) -> Costs:
    return {case: median(costs[case] for costs in turns) for case in turns[0]}


def judge(goal: Goal, costs: dict[str, list[Costs]]) -> Verdict:
    if goal.subject not in costs or goal.against not in costs:
        return Verdict(goal=goal, ratio=None, is_met=None)
    ratios = round_ratios(goal, costs[goal.subject], costs[goal.against])
    if goal.over == "each":
        return judge_worst_case(goal, ratios)
    ratio = Spread.of(geometric_mean(by_case.values()) for by_case in ratios)
    return Verdict(goal=goal, ratio=ratio, is_met=goal.is_met_by(ratio.median))


def judge_worst_case(goal: Goal, ratios: list[dict[str, float]]) -> Verdict:
    spreads = {case: Spread.of(by_case[case] for by_case in ratios) for case in ratios[0]}
    # A speed-up is worst where it is smallest, a cost where it is largest.
    worst = max if goal.at_most is not None else min
    case = worst(spreads, key=lambda name: spreads[name].median)
    return Verdict(goal=goal, ratio=spreads[case], is_met=goal.is_met_by(spreads[case].median), case=case)


def judge_limit(limit: Limit, amounts: dict[str, list[Amounts]]) -> LimitVerdict:
    needed = {limit.subject, limit.above or limit.subject}
    if not needed <= {name for name, rounds in amounts.items() if rounds}:
        return LimitVerdict(limit=limit, amount=None, is_met=None)
    ours = [by_name[limit.amount] for by_name in amounts[limit.subject]]
    if limit.above:
        theirs = [by_name[limit.amount] for by_name in amounts[limit.above]]
        ours = [our - their for our, their in zip(ours, theirs, strict=True)]
    spread = Spread.of(ours)
    worst = spread.low if limit.at_least is not None else spread.high
    judged = worst if limit.over == "worst" else spread.median
    return LimitVerdict(limit=limit, amount=spread, is_met=limit.is_met_by(judged))


def round_ratios(goal: Goal, subject: list[Costs], against: list[Costs]) -> list[dict[str, float]]:
    """Return the ratios per round and case; within a round both sides ran under the same conditions."""
    return [
        {
            case: ratio(goal, ours[case], theirs[case])
            for case in ours
            if case in theirs and goal.cases in case
        }
        for ours, theirs in zip(subject, against, strict=True)
    ]


def ratio(goal: Goal, ours: float, theirs: float) -> float:
    return ours / theirs if goal.at_most is not None else theirs / ours


def absences(measurements: Measurements) -> list[str]:
    return [f"{name} was not measured: {reason}" for name, reason in measurements.absent.items()]


def disagreements(measurements: Measurements) -> list[str]:
    """Return which contestants did other work than everwhen, and where: the ratio needs this remark."""
    ours = measurements.digests.get(EVERWHEN, {})
    notes = []
    for name, theirs in measurements.digests.items():
        label = measurements.labels[name]
        if missing := [case for case in ours if case not in theirs]:
            notes.append(f"{label} cannot do {listed(missing)}, left out of its mean")
        if different := [case for case in ours if case in theirs and theirs[case] != ours[case]]:
            shared = sum(case in theirs for case in ours)
            notes.append(f"{label} finds other instants in {len(different)} of {shared}: {listed(different)}")
    return notes


def listed(cases: Sequence[str], most: int = 8) -> str:
    shown = ", ".join(f"`{case}`" for case in cases[:most])
    return f"{shown} and {len(cases) - most} more" if len(cases) > most else shown
