"""B22: how soon work continues after a fault is over."""

from benchmarks.model import EVERWHEN, Benchmark, Contestant, Limit

NONE_LATE = Limit(amount="slots late within their grace", at_most=0, unit="slots", over="worst")
NONE_MISSED = Limit(amount="slots missed", at_most=0, unit="slots", over="worst")
WORKER = "benchmarks.workers.recovery"


def first_firing(at_most: float) -> tuple[Limit, Limit]:
    """Return limits for the first firing and for the first job that began: a firing that does not run is of no use."""
    return (
        Limit(amount="first firing", at_most=at_most, unit="s", over="worst"),
        Limit(amount="first start of a job", at_most=at_most, unit="s", over="worst"),
    )


RESTARTED = Benchmark(
    number="B22",
    what="PostgreSQL restarted (1.5 s away) under `everwhen up`: from its first answer to the first firing",
    contestants=(Contestant(EVERWHEN, WORKER, ("restarted",)),),
    limits=(*first_firing(3), NONE_LATE),
    most_rounds=5,
    database="PostgreSQL",
)
LOCKED = Benchmark(
    number="B22",
    what="SQLite locked for 60 s (quick: 12 s) under `everwhen up`: from the end of that to the first firing",
    contestants=(Contestant(EVERWHEN, WORKER, ("locked",)),),
    limits=(*first_firing(1), NONE_LATE),
    most_rounds=5,
)
KILLED = Benchmark(
    number="B22",
    what="one of two `everwhen scheduler` killed while it fires, PostgreSQL: lag of the worst of the next 5 seconds",
    contestants=(Contestant(EVERWHEN, WORKER, ("killed",)),),
    limits=(Limit(amount="worst lag", at_most=1, unit="s", over="worst"), NONE_MISSED),
    most_rounds=5,
    database="PostgreSQL",
)

BENCHMARKS = (LOCKED, RESTARTED, KILLED)
