"""B2: creating schedules in bulk, through `Scheduler.add_many` and the REST batch, and one by one."""

from benchmarks.model import (
    APSCHEDULER_3,
    APSCHEDULER_3_SERVED,
    DATABASES,
    EVERWHEN,
    OWN,
    Benchmark,
    Contestant,
    Database,
    Environment,
    Goal,
)

RAW = "raw"
REST = "everwhen, REST batch"


def contestant(name: str, engine: str, way: str, environment: Environment = OWN) -> Contestant:
    return Contestant(name, "benchmarks.workers.loading", (engine, way), environment)


def bulk(database: Database) -> Benchmark:
    is_sqlite = database == "SQLite"
    peer = "APScheduler (WAL)" if is_sqlite else "APScheduler"
    environment = APSCHEDULER_3 if is_sqlite else APSCHEDULER_3_SERVED
    return Benchmark(
        number="B2",
        what=f"load 100,000 schedules (quick: 10,000) in batches of 1,000, {database}, per schedule; "
        "APScheduler 1,000 `add_job` (500)",
        contestants=(
            contestant(EVERWHEN, EVERWHEN, "bulk"),
            contestant(REST, "everwhen-rest", "bulk"),
            contestant(peer, "apscheduler", "bulk", environment),
            contestant(RAW, RAW, "bulk"),
        ),
        goals=(
            Goal(against=peer, at_least=25 if is_sqlite else 20),
            Goal(against=RAW, at_least=None if is_sqlite else 0.35),
            Goal(subject=REST, against=peer),
        ),
        parts=10,
        most_rounds=5,
        database=database,
    )


def single(database: Database) -> Benchmark:
    return Benchmark(
        number="B2",
        what=f"a single durable create, {database}, per schedule",
        contestants=(contestant(EVERWHEN, EVERWHEN, "single"), contestant(RAW, RAW, "single")),
        goals=(Goal(against=RAW, at_least=0.5),),
        parts=5,
        most_rounds=5,
        database=database,
    )


BENCHMARKS = (*[bulk(database) for database in DATABASES], *[single(database) for database in DATABASES])
