"""B16: ready jobs handed over to RQ, marked in the database and sent, compared with RQ's own enqueue, a call per
job."""

from benchmarks.model import EVERWHEN, Benchmark, Contestant, Goal

SINGLE = "RQ, single enqueue"
MANY = "RQ, enqueue_many"


def contestant(name: str, task: str) -> Contestant:
    return Contestant(name, "benchmarks.workers.handing_over", (task,))


HAND_OVER = Benchmark(
    number="B16",
    what="jobs handed over to RQ, ready to queued in Valkey, 5,000 (quick: 1,000), SQLite, batches of 500, per job; "
    "RQ's own calls write no database",
    contestants=(contestant(EVERWHEN, "hand-over"), contestant(SINGLE, "single"), contestant(MANY, "many")),
    goals=(Goal(against=SINGLE, at_least=4), Goal(against=MANY)),
    most_rounds=5,
)

BENCHMARKS = (HAND_OVER,)
