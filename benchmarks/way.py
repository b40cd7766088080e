"""B26: the way of one due slot through the package: files, functions, and changes from one package to another."""

from benchmarks.model import APSCHEDULER_3, EVERWHEN, Benchmark, Contestant, Limit

THREADS = "everwhen, with its threads"
PEER = "APScheduler, with its threads"
WORKER = "benchmarks.workers.way"


def passes(amount: str, at_most: float) -> Limit:
    return Limit(amount=amount, at_most=at_most, unit="")


BENCHMARKS = (
    Benchmark(
        number="B26",
        what="the way of one due slot, by a profiler: stepped by `manual_scheduler`, or in a running `Scheduler`",
        contestants=(
            Contestant(EVERWHEN, WORKER, ("stepped",)),
            Contestant(THREADS, WORKER, ("threads",)),
            Contestant(PEER, "benchmarks.workers.apscheduler_way", (), APSCHEDULER_3),
        ),
        limits=(
            passes("files", 22),
            passes("functions", 90),
            passes("changes of package", 60),
            *(
                Limit(amount=amount, unit="", subject=subject)
                for subject in (THREADS, PEER)
                for amount in ("files", "functions", "changes of package")
            ),
        ),
        most_rounds=5,
    ),
)
