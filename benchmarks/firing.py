"""B4, B5, B7, B13, B15: slots fired, whole cycles, a herd, a long history, and evaluations with held slots.

B4's raw limit is "the same claim, job insert with its unique index, schedule update and limits update": the
statements of the product on its own tables, with all their columns and indexes, without a scheduler. A minimal
schema, which could not hold what the ledger promises, is also shown, without a goal.
"""

from benchmarks.model import (
    APSCHEDULER_3,
    APSCHEDULER_3_SERVED,
    APSCHEDULER_4_SERVED,
    DATABASES,
    EVERWHEN,
    Benchmark,
    Contestant,
    Database,
    Goal,
    Limit,
)

RAW, NARROW = "raw, everwhen's tables", "raw, a minimal schema"
WAL, DEFAULT = "APScheduler (WAL)", "APScheduler (default journal)"
APSCHEDULER, PRE_RELEASE = "APScheduler", "APScheduler pre-release"
TEN_THOUSAND = "everwhen, 10,000 due"
NONE_HELD = "everwhen, none held"
EMPTY = "everwhen, no ledger"
UP, SCHEDULER, TUNED = "everwhen up", "Scheduler", "Scheduler, collector set"
NO_FUNCTION = "everwhen, no function"


def contestant(name: str, task: str) -> Contestant:
    return Contestant(name, "benchmarks.workers.firing", (task,))


def apscheduler(name: str, journal: str) -> Contestant:
    return Contestant(name, "benchmarks.workers.apscheduler_cycle", (journal,), APSCHEDULER_3)


def slots(database: Database) -> Benchmark:
    """Define the benchmark of fired slots; the minimal schema is measured only on SQLite."""
    is_sqlite = database == "SQLite"
    return Benchmark(
        number="B4",
        what="10,000 (quick: 5,000) slots due at once, claim to committed job and next time, "
        f"{database}, batches of 500, per slot",
        contestants=(
            contestant(EVERWHEN, "fire"),
            contestant(RAW, "raw"),
            *([contestant(NARROW, "raw-narrow")] if is_sqlite else []),
        ),
        goals=(Goal(against=RAW, at_least=0.5), *([Goal(against=NARROW)] if is_sqlite else [])),
        parts=5,
        database=database,
    )


CYCLE = Benchmark(
    number="B5",
    what="fire, no-op, settle, 10,000 due (quick: 2,000), SQLite, 500 jobs at a time, per slot; "
    "APScheduler 2,000 due (500)",
    contestants=(contestant(EVERWHEN, "cycle"), apscheduler(WAL, "wal"), apscheduler(DEFAULT, "default")),
    goals=(Goal(against=WAL, at_least=10), Goal(against=DEFAULT, at_least=25)),
    most_rounds=5,
)
CYCLE_SERVED = Benchmark(
    number="B5",
    what="fire, no-op, settle, 10,000 due (quick: 2,000), PostgreSQL, 500 jobs at a time, per slot; "
    "APScheduler 2,000 due (500), its pre-release 300 (100)",
    contestants=(
        contestant(EVERWHEN, "cycle"),
        Contestant(APSCHEDULER, "benchmarks.workers.apscheduler_cycle", ("default",), APSCHEDULER_3_SERVED),
        Contestant(PRE_RELEASE, "benchmarks.workers.apscheduler4_cycle", (), APSCHEDULER_4_SERVED),
    ),
    goals=(Goal(against=APSCHEDULER, at_least=8), Goal(against=PRE_RELEASE, at_least=30)),
    most_rounds=5,
    database="PostgreSQL",
)


# The same function in both, and CPU time as a case of its own. On PostgreSQL the server decides about the wall time.
PYTHON_CYCLE = Benchmark(
    number="B5",
    what="fire, a Python function that does nothing, settle, 10,000 due (quick: 2,000), SQLite, 500 jobs at a time, "
    "per slot; wall and CPU time",
    contestants=(
        contestant(UP, "up"),
        contestant(SCHEDULER, "scheduler"),
        contestant(TUNED, "tuned"),
        contestant(NO_FUNCTION, "cycle-cpu"),
    ),
    goals=(
        Goal(subject=SCHEDULER, against=UP, at_most=1.2, over="each"),
        Goal(subject=TUNED, against=UP, at_most=1.2, over="each"),
        Goal(subject=SCHEDULER, against=NO_FUNCTION),
        Goal(subject=TUNED, against=NO_FUNCTION),
    ),
    most_rounds=5,
)


def herd(database: Database) -> Benchmark:
    return Benchmark(
        number="B7",
        what=f"herd: 100,000 (quick: 20,000) due at one instant, {database}, its last tenth, per slot",
        contestants=(contestant(EVERWHEN, "herd"), contestant(TEN_THOUSAND, "fire")),
        goals=(Goal(against=TEN_THOUSAND, at_least=0.7),),
        limits=(Limit(amount="slots missed", at_most=0, unit="slots", over="worst"),),
        most_rounds=5,
        database=database,
    )


def growth(database: Database) -> Benchmark:
    return Benchmark(
        number="B13",
        what=f"5,000 slots due at once beside 1,000,000 (quick: 100,000) old jobs, {database}, per slot",
        contestants=(contestant(EVERWHEN, "grown"), contestant(EMPTY, "empty")),
        goals=(Goal(against=EMPTY, at_least=0.8),),
        most_rounds=5,
        database=database,
    )


def holds(database: Database) -> Benchmark:
    return Benchmark(
        number="B15",
        what=f"an evaluation beside 10,000 schedules held by one guard, {database}",
        contestants=(contestant(EVERWHEN, "held"), contestant(NONE_HELD, "free")),
        goals=(Goal(against=NONE_HELD, at_most=1.5, over="each"),),
        database=database,
    )


BENCHMARKS = (
    *[slots(database) for database in DATABASES],
    *(CYCLE, CYCLE_SERVED, PYTHON_CYCLE),
    *[herd(database) for database in DATABASES],
    *[growth(database) for database in DATABASES],
    *[holds(database) for database in DATABASES],
)
