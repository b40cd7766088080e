"""B11: how soon a node fires again that was killed."""

from benchmarks.model import EVERWHEN, Benchmark, Contestant, Goal, Limit

A_THOUSAND = "everwhen, 1,000 schedules"

BENCHMARKS = (
    Benchmark(
        number="B11",
        what="start of the process to its first firing after kill -9, 100,000 schedules (quick: 20,000), SQLite",
        contestants=(
            Contestant(EVERWHEN, "benchmarks.workers.restart", ("many",)),
            Contestant(A_THOUSAND, "benchmarks.workers.restart", ("few",)),
        ),
        goals=(Goal(against=A_THOUSAND, at_most=2),),
        limits=(Limit(amount="first firing", at_most=3, unit="s"),),
        most_rounds=5,
    ),
)
