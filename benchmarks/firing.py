"""B4, B7, B13, B15: slots fired, a herd, a long history, and evaluations with held slots.

B4's raw limit is "the same claim, job insert with its unique index, schedule update and limits update": the
statements of the product on its own tables, with all their columns and indexes, without a scheduler. A minimal
schema, which could not hold what the ledger promises, is also shown, without a goal.
"""

from benchmarks.model import (
    DATABASES,
    EVERWHEN,
    Benchmark,
    Contestant,
    Database,
    Goal,
    Limit,
)

RAW, NARROW = "raw, everwhen's tables", "raw, a minimal schema"
TEN_THOUSAND = "everwhen, 10,000 due"
NONE_HELD = "everwhen, none held"
EMPTY = "everwhen, no ledger"


def contestant(name: str, task: str) -> Contestant:
    return Contestant(name, "benchmarks.workers.firing", (task,))


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
    *[herd(database) for database in DATABASES],
    *[growth(database) for database in DATABASES],
    *[holds(database) for database in DATABASES],
)
