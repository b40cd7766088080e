"""B21: how long REST takes with 100,000 schedules in the database, and a single create."""

from benchmarks.loading import RAW
from benchmarks.loading import contestant as loading
from benchmarks.model import DATABASES, EVERWHEN, Benchmark, Contestant, Database, Goal, Limit

A_THOUSAND = "everwhen, 1,000 schedules"


def reading(database: Database, calls: str, at_most: float | None) -> Benchmark:
    what = "GET requests" if calls == "indexed" else "filters without an index"
    return Benchmark(
        number="B21",
        what=f"p99 of {what} with 100,000 schedules (quick: 10,000), {database}",
        contestants=(
            Contestant(EVERWHEN, "benchmarks.workers.rest", ("many", calls)),
            Contestant(A_THOUSAND, "benchmarks.workers.rest", ("few", calls)),
        ),
        goals=(Goal(against=A_THOUSAND, at_most=at_most, over="each"),),
        parts=5,
        most_rounds=5,
        database=database,
    )


def creating(database: Database) -> Benchmark:
    return Benchmark(
        number="B21",
        what=f"a single durable create over REST, one client, {database}, per schedule",
        contestants=(loading(EVERWHEN, "everwhen-rest", "single"), loading(RAW, RAW, "single")),
        goals=(Goal(against=RAW, at_least=0.2),),
        parts=5,
        most_rounds=5,
        database=database,
    )


def showing(database: Database) -> Benchmark:
    return Benchmark(
        number="B21",
        what=f"p99 of the dashboard's calls with 100,000 schedules (quick: 10,000), {database}",
        contestants=(Contestant(EVERWHEN, "benchmarks.workers.rest", ("many", "dashboard")),),
        limits=(
            Limit(amount="slowest call of the first page, ms", at_most=1_000, unit="ms"),
            Limit(amount="slowest call of the list, ms", at_most=300, unit="ms"),
        ),
        parts=5,
        most_rounds=5,
        database=database,
    )


BENCHMARKS = (
    *[reading(database, "indexed", 2) for database in DATABASES],
    *[reading(database, "scanned", None) for database in DATABASES],
    *[showing(database) for database in DATABASES],
    *[creating(database) for database in DATABASES],
)
