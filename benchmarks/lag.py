"""B6, B14: how late jobs are committed, in normal operation and after an outage."""

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

ALONE = "everwhen, nobody calls"
NONE_MISSED = Limit(amount="slots missed", at_most=0, unit="slots", over="worst")


def steady(database: Database, task: str = "steady", of_what: str = "") -> Benchmark:
    is_sqlite = database == "SQLite"
    peer = "APScheduler (WAL)" if is_sqlite else "APScheduler"
    environment = APSCHEDULER_3 if is_sqlite else APSCHEDULER_3_SERVED
    return Benchmark(
        number="B6",
        what=f"lag p99, due_at to commit, 1,000 schedules {of_what}every second, {database}, 12 s a round (quick: 2 s)",
        contestants=(
            Contestant(EVERWHEN, "benchmarks.workers.lag", (task,)),
            Contestant(peer, "benchmarks.workers.apscheduler_lag", (), environment),
        ),
        goals=(Goal(against=peer, at_most=0.2 if is_sqlite else 0.1),),
        limits=(NONE_MISSED,),
        most_rounds=5,
        database=database,
    )


def runaway(database: Database) -> Benchmark:
    return Benchmark(
        number="B6",
        what="lag p99, 1,000 schedules every second, while a token creates and triggers beyond its limits on the API "
        f"of the same process, {database}, 12 s a round (quick: 2 s)",
        contestants=(
            Contestant(EVERWHEN, "benchmarks.workers.lag", ("runaway",)),
            Contestant(ALONE, "benchmarks.workers.lag", ("steady",)),
        ),
        goals=(Goal(against=ALONE, at_most=2),),
        limits=(NONE_MISSED,),
        most_rounds=5,
        database=database,
    )


def backlog(database: Database) -> Benchmark:
    return Benchmark(
        number="B14",
        what="lag of 1,000 schedules every second beside 100,000 (quick: 10,000) that are 60 slots behind, "
        f"{database}",
        contestants=(Contestant(EVERWHEN, "benchmarks.workers.lag", ("backlog",)),),
        limits=(Limit(amount="lag p99", at_most=1, unit="s"), NONE_MISSED),
        most_rounds=5,
        database=database,
    )


BENCHMARKS = (
    *[steady(database) for database in DATABASES],
    # The transaction that fires a message also writes it and settles its job: more work before the commit.
    *[steady(database, "messages", "of messages ") for database in DATABASES],
    *[runaway(database) for database in DATABASES],
    *[backlog(database) for database in DATABASES],
)
