"""B3, B10, B13, B25: the cost of schedules that are not due: a million of them, dead rows that vacuum cannot remove,
and a process that waits."""

from benchmarks.model import (
    APSCHEDULER_3,
    APSCHEDULER_3_SERVED,
    DATABASES,
    EVERWHEN,
    Benchmark,
    Contestant,
    Database,
    Goal,
    Limit,
)
from benchmarks.working import UP

A_THOUSAND = "everwhen, 1,000 schedules"
SELECT = "SELECT 1"
FRESH = "everwhen, nothing fired"
PEER = "APScheduler"


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


def used(subject: str, megabytes: float | None, *, is_own: bool = True) -> tuple[Limit, ...]:
    return (
        Limit(amount="CPU a minute", at_most=0.06 if is_own else None, unit="s", subject=subject),
        Limit(amount="switches a second", at_most=4 if is_own else None, unit="", subject=subject),
        Limit(amount="memory", at_most=megabytes, unit="MB", subject=subject),
    )


def idling(database: Database) -> Benchmark:
    environment = APSCHEDULER_3 if database == "SQLite" else APSCHEDULER_3_SERVED
    return Benchmark(
        number="B25",
        what=f"a process with 1,000 schedules, none due, for a minute (quick: 10 s), {database}: CPU in a second",
        contestants=(
            Contestant(EVERWHEN, "benchmarks.workers.idling", ("scheduler",)),
            Contestant(UP, "benchmarks.workers.idling", ("up",)),
            Contestant(PEER, "benchmarks.workers.idling", ("apscheduler",), environment),
        ),
        limits=(*used(EVERWHEN, 40), *used(UP, 60), *used(PEER, None, is_own=False)),
        most_rounds=5,
        database=database,
    )


BENCHMARKS = (
    *[evaluation(database) for database in DATABASES],
    MEMORY,
    UNVACUUMED,
    *[idling(database) for database in DATABASES],
)
