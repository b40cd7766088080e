"""B4, B5, B7, B15: slots fired, whole cycles, a herd, and evaluations beside held slots.

B4's raw limit is "the same claim, job insert with its unique index, schedule update and limits update": the
statements of the product on its own tables, with all their columns and indexes, and no scheduler around them. A
minimal schema, which could not hold what the ledger promises, is shown beside it without a goal.
"""

from benchmarks.model import APSCHEDULER_3, EVERWHEN, Benchmark, Contestant, Goal, Limit

RAW, NARROW = "raw, everwhen's tables", "raw, a minimal schema"
WAL, DEFAULT = "APScheduler (WAL)", "APScheduler (default journal)"
TEN_THOUSAND = "everwhen, 10,000 due"
NONE_HELD = "everwhen, none held"


def contestant(name: str, task: str) -> Contestant:
    return Contestant(name, "benchmarks.workers.firing", (task,))


def apscheduler(name: str, journal: str) -> Contestant:
    return Contestant(name, "benchmarks.workers.apscheduler_cycle", (journal,), APSCHEDULER_3)


SLOTS = Benchmark(
    number="B4",
    what="10,000 slots due at once, claim to committed job and next time, SQLite, batches of 500, per slot",
    contestants=(
        contestant(EVERWHEN, "fire"),
        contestant(RAW, "raw"),
        contestant(NARROW, "raw-narrow"),
    ),
    goals=(Goal(against=RAW, at_least=0.5), Goal(against=NARROW)),
    parts=5,
)
CYCLE = Benchmark(
    number="B5",
    what="fire, no-op, settle, 10,000 due (quick: 2,000), SQLite, 500 jobs at a time, per slot; "
    "APScheduler 2,000 due (500)",
    contestants=(contestant(EVERWHEN, "cycle"), apscheduler(WAL, "wal"), apscheduler(DEFAULT, "default")),
    goals=(Goal(against=WAL, at_least=10), Goal(against=DEFAULT, at_least=25)),
    most_rounds=5,
)
HERD = Benchmark(
    number="B7",
    what="herd: 100,000 (quick: 25,000) due at one instant, SQLite, its last tenth, per slot",
    contestants=(contestant(EVERWHEN, "herd"), contestant(TEN_THOUSAND, "fire")),
    goals=(Goal(against=TEN_THOUSAND, at_least=0.7),),
    limits=(Limit(amount="slots missed", at_most=0, unit="slots", over="worst"),),
    most_rounds=5,
)
HOLDS = Benchmark(
    number="B15",
    what="an evaluation beside 10,000 schedules held by one guard, SQLite",
    contestants=(contestant(EVERWHEN, "held"), contestant(NONE_HELD, "free")),
    goals=(Goal(against=NONE_HELD, at_most=1.5, over="each"),),
)

BENCHMARKS = (SLOTS, CYCLE, HERD, HOLDS)
