"""B27: what the record takes on SQLite: bytes for each fired slot, and how fast retention removes them again.

A service removes old rows by itself: the first pass begins ten minutes after its start, and only then can its rate be
seen. `everwhen db prune` removes the same rows at once. Both are compared with the rate at which `everwhen up` fires.
"""

from benchmarks.model import EVERWHEN, Benchmark, Contestant, Goal, Limit
from benchmarks.working import HOSTS, UP

WORKER = "benchmarks.workers.storage"
PRUNE, RETENTION = "everwhen db prune", "everwhen up, retention"

BENCHMARKS = (
    Benchmark(
        number="B27",
        what="bytes of an SQLite file per fired slot, 5,000 (quick: 2,000) Python functions through `Scheduler`; a "
        "bare row has its id, schedule, three instants and outcome; time of filling that bare table, per row",
        contestants=(Contestant(EVERWHEN, WORKER, ("size",)),),
        limits=(
            Limit(amount="times a bare row", at_most=2, unit="×"),
            Limit(amount="bytes a slot", unit="B"),
            Limit(amount="bytes of a bare row", unit="B"),
        ),
        most_rounds=5,
    ),
    Benchmark(
        number="B27",
        what="old jobs that retention removes, SQLite, per job: 5 s of a pass of `everwhen up`, and 200,000 (quick: "
        "50,000) by `everwhen db prune`; beside jobs that `everwhen up` fires and runs, 10,000 (2,000) due at once",
        contestants=(
            Contestant(RETENTION, WORKER, ("retention",)),
            Contestant(PRUNE, WORKER, ("prune",)),
            Contestant(UP, "benchmarks.workers.due_at_once", ("B5", *HOSTS[UP])),
        ),
        goals=(
            Goal(subject=RETENTION, against=UP, at_least=1.2),
            Goal(subject=PRUNE, against=UP, at_least=1.2),
        ),
        limits=(Limit(subject=PRUNE, amount="space given back", at_least=50, unit="%"),),
        most_rounds=5,
    ),
)
