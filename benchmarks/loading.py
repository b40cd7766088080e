"""B2: creating schedules, in bulk and one by one."""

from benchmarks.model import APSCHEDULER_3, EVERWHEN, OWN, Benchmark, Contestant, Environment, Goal

APSCHEDULER = "APScheduler (WAL)"
RAW = "raw"


def contestant(name: str, engine: str, way: str, environment: Environment = OWN) -> Contestant:
    return Contestant(name, "benchmarks.workers.loading", (engine, way), environment)


BENCHMARKS = (
    Benchmark(
        number="B2",
        what="load 100,000 schedules (quick: 10,000) in batches of 1,000, SQLite, per schedule; "
        "APScheduler 1,000 `add_job` (500)",
        contestants=(
            contestant(EVERWHEN, EVERWHEN, "bulk"),
            contestant(APSCHEDULER, "apscheduler", "bulk", APSCHEDULER_3),
            contestant(RAW, RAW, "bulk"),
        ),
        goals=(Goal(against=APSCHEDULER, at_least=25), Goal(against=RAW)),
        parts=10,
        most_rounds=5,
    ),
    Benchmark(
        number="B2",
        what="a single durable create, SQLite, per schedule",
        contestants=(contestant(EVERWHEN, EVERWHEN, "single"), contestant(RAW, RAW, "single")),
        goals=(Goal(against=RAW, at_least=0.5),),
        parts=5,
        most_rounds=5,
    ),
)
