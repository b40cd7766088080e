"""B3, B10, B13: the cost of schedules that are not due: a million of them, and dead rows that vacuum cannot remove."""

from benchmarks.model import DATABASES, EVERWHEN, Benchmark, Contestant, Database, Goal, Limit

A_THOUSAND = "everwhen, 1,000 schedules"
SELECT = "SELECT 1"
FRESH = "everwhen, nothing fired"


def contestants(task: str) -> tuple[Contestant, ...]:
    return (
        Contestant(EVERWHEN, "benchmarks.workers.idle", (task, "many")),
        Contestant(A_THOUSAND, "benchmarks.workers.idle", (task, "few")),
    )


def evaluation(database: Database) -> Benchmark:
    is_served = database == "PostgreSQL"
    select = Contestant(SELECT, "benchmarks.workers.idle", ("select", "few"))
    return Benchmark(
        number="B3",
        what=f"an evaluation with 1,000,000 schedules (quick: 100,000), none due, {database}",
        contestants=(*contestants("evaluate"), *([select] if is_served else [])),
        goals=(
            Goal(against=A_THOUSAND, at_most=1.2),
            *([Goal(against=SELECT, at_most=1.5)] if is_served else []),
        ),
        parts=5,
        database=database,
    )


MEMORY = Benchmark(
    number="B10",
    what="resident memory of a node with 1,000,000 idle schedules (quick: 100,000), SQLite",
    contestants=contestants("remember"),
    limits=(Limit(amount="memory", at_most=50, unit="MB", above=A_THOUSAND),),
    most_rounds=5,
)
UNVACUUMED = Benchmark(
    number="B13",
    what="an evaluation, none due, a minute after 200,000 (quick: 20,000) firings that an old snapshot keeps "
    "from being vacuumed, PostgreSQL",
    contestants=(
        Contestant(EVERWHEN, "benchmarks.workers.unvacuumed", ("fired",)),
        Contestant(FRESH, "benchmarks.workers.unvacuumed", ("fresh",)),
    ),
    goals=(Goal(against=FRESH, at_most=2),),
    parts=5,
    database="PostgreSQL",
)

BENCHMARKS = (*[evaluation(database) for database in DATABASES], MEMORY, UNVACUUMED)
