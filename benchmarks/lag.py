"""B6, B14: how late jobs are committed, on a calm day and behind an outage."""

from benchmarks.model import APSCHEDULER_3, EVERWHEN, Benchmark, Contestant, Goal, Limit

APSCHEDULER = "APScheduler (WAL)"
NONE_MISSED = Limit(amount="slots missed", at_most=0, unit="slots", over="worst")

BENCHMARKS = (
    Benchmark(
        number="B6",
        what="lag p99, due_at to commit, 1,000 schedules every second, SQLite, 12 s a round (quick: 2 s)",
        contestants=(
            Contestant(EVERWHEN, "benchmarks.workers.lag", ("steady",)),
            Contestant(APSCHEDULER, "benchmarks.workers.apscheduler_lag", (), APSCHEDULER_3),
        ),
        goals=(Goal(against=APSCHEDULER, at_most=0.2),),
        limits=(NONE_MISSED,),
        most_rounds=5,
    ),
    Benchmark(
        number="B14",
        what="lag of 1,000 schedules every second beside 100,000 (quick: 10,000) that are 60 slots behind, SQLite",
        contestants=(Contestant(EVERWHEN, "benchmarks.workers.lag", ("backlog",)),),
        limits=(Limit(amount="lag p99", at_most=1, unit="s"), NONE_MISSED),
        most_rounds=5,
    ),
)
