"""B20: `everwhen simulate`, by the slots that it decides a second, and by its memory."""

from benchmarks.model import EVERWHEN, Benchmark, Contestant, Goal, Limit

A_DAY = "everwhen, a day"
WORKER = "benchmarks.workers.simulating"

BENCHMARKS = (
    Benchmark(
        number="B20",
        what="`everwhen simulate` of 1,000 hourly schedules (quick: 200), a month, without the start of the process, "
        "per slot",
        contestants=(Contestant(EVERWHEN, WORKER, ("month",)), Contestant(A_DAY, WORKER, ("day",))),
        goals=(Goal(against=A_DAY),),
        limits=(
            Limit(amount="a slot", at_most=10, unit="µs"),
            Limit(amount="memory", at_most=20, unit="MB", above=A_DAY),
        ),
        most_rounds=5,
    ),
)
