"""B11: how soon a node that was killed fires again."""

from benchmarks.model import DATABASES, EVERWHEN, Benchmark, Contestant, Database, Goal, Limit

A_THOUSAND = "everwhen, 1,000 schedules"


def restart(database: Database) -> Benchmark:
    return Benchmark(
        number="B11",
        what="start of the process to its first firing after kill -9, 100,000 schedules (quick: 20,000), "
        f"{database}",
        contestants=(
            Contestant(EVERWHEN, "benchmarks.workers.restart", ("many",)),
            Contestant(A_THOUSAND, "benchmarks.workers.restart", ("few",)),
        ),
        goals=(Goal(against=A_THOUSAND, at_most=2),),
        limits=(Limit(amount="first firing", at_most=3, unit="s"),),
        most_rounds=5,
        database=database,
    )


BENCHMARKS = tuple(restart(database) for database in DATABASES)
