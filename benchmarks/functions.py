"""B5, B24: schedules of Python functions that are due at one instant, until the last of them is settled.

The contestants of everwhen are those that users have: a `Scheduler` in a program and `everwhen up`, each with its
default settings and with those that the guide names, 100 workers and, in a program, the setting of the garbage
collector. The tuned ones, and `everwhen up`, which sets the collector itself, are compared with an APScheduler that has
it, too.
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
)
from benchmarks.working import BATCHED_PEER, HOSTS, PGQUEUER, TUNED, UP, UP_TUNED

WORKER = "benchmarks.workers.due_at_once"
WAL, WAL_TUNED = "APScheduler (WAL)", "APScheduler (WAL), collector set"
JOURNAL = "APScheduler (default journal)"
APSCHEDULER, APSCHEDULER_TUNED = "APScheduler", "APScheduler, collector set"
PRE_RELEASE = "APScheduler pre-release"


def everwhen(work: str, *names: str) -> tuple[Contestant, ...]:
    return tuple(Contestant(name, WORKER, (work, *HOSTS[name])) for name in names)


def apscheduler(name: str, *words: str) -> Contestant:
    environment = APSCHEDULER_3 if "(" in name else APSCHEDULER_3_SERVED
    return Contestant(name, "benchmarks.workers.apscheduler_cycle", words, environment)


CYCLE = Benchmark(
    number="B5",
    what="fire, a Python function that does nothing, settle: 10,000 due at once (quick: 2,000), SQLite, per slot; "
    "APScheduler 2,000 due (500)",
    contestants=(
        *everwhen("B5", *HOSTS),
        apscheduler(WAL, "wal", "default"),
        apscheduler(WAL_TUNED, "wal", "tuned"),
        apscheduler(JOURNAL, "default", "default"),
    ),
    goals=(
        Goal(against=WAL, at_least=10),
        Goal(against=JOURNAL, at_least=25),
        Goal(subject=TUNED, against=WAL_TUNED, at_least=10),
        Goal(subject=UP, against=WAL_TUNED, at_least=10),
        Goal(subject=UP_TUNED, against=WAL_TUNED, at_least=10),
    ),
    most_rounds=5,
)
CYCLE_SERVED = Benchmark(
    number="B5",
    what="fire, a Python function that does nothing, settle: 10,000 due at once (quick: 2,000), PostgreSQL, per slot; "
    "APScheduler 2,000 due (500), its pre-release 300 (100)",
    contestants=(
        *everwhen("B5", *HOSTS),
        apscheduler(APSCHEDULER, "default", "default"),
        apscheduler(APSCHEDULER_TUNED, "default", "tuned"),
        Contestant(PRE_RELEASE, "benchmarks.workers.apscheduler4_cycle", (), APSCHEDULER_4_SERVED),
    ),
    goals=(
        Goal(against=APSCHEDULER, at_least=10),
        Goal(against=PRE_RELEASE, at_least=30),
        Goal(subject=TUNED, against=APSCHEDULER_TUNED, at_least=10),
        Goal(subject=UP, against=APSCHEDULER_TUNED, at_least=10),
        Goal(subject=UP_TUNED, against=APSCHEDULER_TUNED, at_least=10),
    ),
    most_rounds=5,
    database="PostgreSQL",
)


def jobs(database: Database) -> Benchmark:
    """Define B24; jobs of PgQueuer are in its queue before the clock starts, those of everwhen are fired as well."""
    is_sqlite = database == "SQLite"
    queue = Contestant(BATCHED_PEER, "benchmarks.workers.pgqueuer_jobs", (), PGQUEUER)
    peers = (
        (apscheduler(WAL, "wal", "default"), apscheduler(WAL_TUNED, "wal", "tuned"))
        if is_sqlite
        else (queue,)
    )
    return Benchmark(
        number="B24",
        what="jobs of Python functions that do nothing, 5,000 (quick: 1,000) due at once, `Scheduler` with 8 workers, "
        f"tuned with 100, {database}, fired to settled, per job"
        + ("; APScheduler 2,000 due (500)" if is_sqlite else "; PgQueuer from its queue"),
        contestants=(*everwhen("B24", EVERWHEN, TUNED), *peers),
        goals=(
            Goal(against=peers[0].name, at_least=6 if is_sqlite else 0.5),
            Goal(subject=TUNED, against=peers[-1].name, at_least=10 if is_sqlite else 1),
        ),
        most_rounds=5,
        database=database,
    )


BENCHMARKS = (CYCLE, CYCLE_SERVED, *[jobs(database) for database in DATABASES])
