"""B3, B10: what a million schedules cost that are not due."""

from benchmarks.model import EVERWHEN, Benchmark, Contestant, Goal, Limit

A_THOUSAND = "everwhen, 1,000 schedules"


def contestants(task: str) -> tuple[Contestant, ...]:
    return (
        Contestant(EVERWHEN, "benchmarks.workers.idle", (task, "many")),
        Contestant(A_THOUSAND, "benchmarks.workers.idle", (task, "few")),
    )


BENCHMARKS = (
    Benchmark(
        number="B3",
        what="an evaluation with 1,000,000 schedules (quick: 100,000), none due, SQLite",
        contestants=contestants("evaluate"),
        goals=(Goal(against=A_THOUSAND, at_most=1.2),),
        parts=5,
    ),
    Benchmark(
        number="B10",
        what="resident memory of a node with 1,000,000 idle schedules (quick: 100,000), SQLite",
        contestants=contestants("remember"),
        limits=(Limit(amount="memory", at_most=50, unit="MB", above=A_THOUSAND),),
        most_rounds=5,
    ),
)
