"""B6, B14, B23: how late jobs begin, in normal operation, after an outage, and one at a time."""

from dataclasses import replace

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
from benchmarks.working import HOSTS

ALONE = "everwhen, nobody calls"
ON_FILE = "everwhen, SQLite"
NONE_MISSED = Limit(amount="slots missed", at_most=0, unit="slots", over="worst")


def peer(database: Database) -> Contestant:
    is_sqlite = database == "SQLite"
    environment = APSCHEDULER_3 if is_sqlite else APSCHEDULER_3_SERVED
    return Contestant(
        "APScheduler (WAL)" if is_sqlite else "APScheduler",
        "benchmarks.workers.apscheduler_lag",
        (),
        environment,
    )


def steady(database: Database) -> Benchmark:
    """Define B6; the peer's collector is set, as that of everything but our default `Scheduler`."""
    beside, at_most = peer(database), 0.2 if database == "SQLite" else 0.1
    return Benchmark(
        number="B6",
        what="lag p99, due_at to the start of a Python function, 1,000 schedules every second, `Scheduler` and "
        f"`everwhen up` with 8 workers, tuned with 100, {database}, 12 s a round (quick: 2 s)",
        contestants=(
            *[Contestant(name, "benchmarks.workers.every_second", HOSTS[name]) for name in HOSTS],
            beside,
        ),
        goals=tuple(Goal(subject=name, against=beside.name, at_most=at_most) for name in HOSTS),
        limits=tuple(replace(NONE_MISSED, subject=name) for name in HOSTS),
        most_rounds=5,
        database=database,
    )


def messages(database: Database) -> Benchmark:
    beside, at_most = peer(database), 0.2 if database == "SQLite" else 0.1
    return Benchmark(
        number="B6",
        what=f"lag p99, due_at to commit, 1,000 schedules of messages every second, {database}, 12 s a round "
        "(quick: 2 s), by the engine's own node",
        contestants=(Contestant(EVERWHEN, "benchmarks.workers.lag", ("messages",)), beside),
        goals=(Goal(against=beside.name, at_most=at_most),),
        limits=(NONE_MISSED,),
        most_rounds=5,
        database=database,
    )


def runaway(database: Database) -> Benchmark:
    up = ("up", "tuned")
    return Benchmark(
        number="B6",
        what="lag p99, 1,000 Python functions every second in `everwhen up` with 100 workers, while a token creates "
        f"and triggers beyond its limits on its API, {database}, 12 s a round (quick: 2 s)",
        contestants=(
            Contestant(EVERWHEN, "benchmarks.workers.every_second", (*up, "runaway")),
            Contestant(ALONE, "benchmarks.workers.every_second", up),
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


def single_events(database: Database) -> Benchmark:
    """Define B23; on PostgreSQL beside the same on SQLite, and beside the peer on SQLite for both."""
    events, is_sqlite = "benchmarks.workers.single_events", database == "SQLite"
    on_file = Contestant("APScheduler (SQLite)", "benchmarks.workers.apscheduler_events", (), APSCHEDULER_3)
    ours = Contestant(ON_FILE, events, ("file",))
    return Benchmark(
        number="B23",
        what="a single event, from the requested instant to the start of its function: 200 over 10 s (quick: 60 over "
        f"3 s), and 20 at once ten times (3), `Scheduler`, {database}; median and p99",
        contestants=(Contestant(EVERWHEN, events, ("here",)), *([] if is_sqlite else [ours]), on_file),
        goals=(
            Goal(against=on_file.name, at_most=1.5 if is_sqlite else None, over="each"),
            *([] if is_sqlite else [Goal(against=ON_FILE, at_most=2, cases="median")]),
        ),
        most_rounds=5,
        database=database,
    )


BENCHMARKS = (
    *[steady(database) for database in DATABASES],
    # The transaction that fires a message also writes it and settles its job: more work before the commit.
    *[messages(database) for database in DATABASES],
    *[runaway(database) for database in DATABASES],
    *[backlog(database) for database in DATABASES],
    *[single_events(database) for database in DATABASES],
)
