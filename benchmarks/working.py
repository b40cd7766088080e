"""B8 and B9: jobs that are ready, run and settled; commands, and HTTP requests."""

from benchmarks.model import DRIVER, EVERWHEN, Benchmark, Contestant, Environment, Goal

HUEY = Environment("huey", ("huey==3.5.4",))
PGQUEUER = Environment("pgqueuer", ("pgqueuer==1.6.0", "asyncpg==0.32.0", "uvloop==0.23.0", DRIVER))
PROCRASTINATE = Environment("procrastinate", ("procrastinate==3.10.0", "psycopg-pool==3.3.3", DRIVER))
PEER = "Huey (SQLite)"
BATCHED_PEER = "PgQueuer (batch 100)"
SINGLE_PEER = "Procrastinate"
TUNED, UP, UP_TUNED = "everwhen, tuned", "everwhen up", "everwhen up, tuned"
HOSTS = {
    EVERWHEN: ("scheduler", "default"),
    TUNED: ("scheduler", "tuned"),
    UP: ("up", "default"),
    UP_TUNED: ("up", "tuned"),
}
READY = "jobs of a Python function that does nothing, ready to settled, 5,000 queued (quick: 1,000)"


def ready(name: str) -> Contestant:
    return Contestant(name, "benchmarks.workers.draining", HOSTS[name])


def on_bare(in_flight: int, what: str) -> str:
    return f"bare {what}, {in_flight} at a time"


def targets(work: str, bare: str, what: str, at_least: float) -> Benchmark:
    """Define a benchmark of B9: with 8 workers, the default, and with 32, beside as many without a scheduler."""
    few, many = on_bare(8, bare), on_bare(32, bare)
    contestants = [Contestant(name, "benchmarks.workers.due_at_once", (work, *HOSTS[name])) for name in HOSTS]
    alone = [
        Contestant(on_bare(number, bare), "benchmarks.workers.bare", (work, str(number)))
        for number in (8, 32)
    ]
    return Benchmark(
        number="B9",
        what=f"{what}, due at once, `Scheduler` and `everwhen up` with 8 workers, tuned with 32, SQLite, fired to "
        "settled, per job",
        contestants=(*contestants, *alone),
        goals=(
            Goal(against=few, at_least=at_least),
            Goal(subject=TUNED, against=many, at_least=at_least),
            Goal(subject=UP, against=few, at_least=at_least),
            Goal(subject=UP_TUNED, against=many, at_least=at_least),
        ),
        most_rounds=5,
    )


NO_OPS = Benchmark(
    number="B8",
    what=f"{READY}, 8 workers, tuned 100, SQLite, per job",
    contestants=(
        *[ready(name) for name in HOSTS],
        Contestant(PEER, "benchmarks.workers.huey_jobs", (), HUEY),
    ),
    goals=tuple(Goal(subject=name, against=PEER, at_least=4) for name in HOSTS),
    most_rounds=5,
)
NO_OPS_SERVED = Benchmark(
    number="B8",
    what=f"{READY}, 8 workers, tuned 100, PostgreSQL, per job; Procrastinate 500 (200)",
    contestants=(
        *[ready(name) for name in HOSTS],
        Contestant(BATCHED_PEER, "benchmarks.workers.pgqueuer_jobs", (), PGQUEUER),
        Contestant(SINGLE_PEER, "benchmarks.workers.procrastinate_jobs", (), PROCRASTINATE),
    ),
    goals=(
        *[Goal(subject=name, against=BATCHED_PEER, at_least=1) for name in HOSTS],
        *[Goal(subject=name, against=SINGLE_PEER, at_least=15) for name in HOSTS],
    ),
    most_rounds=5,
    database="PostgreSQL",
)
COMMANDS = targets("command", "asyncio", "commands, 400 (quick: 100) of /bin/true", 0.95)
REQUESTS = targets("http", "aiohttp", "HTTP requests, 2,000 (quick: 400) POSTs to loopback", 0.6)

BENCHMARKS = (NO_OPS, NO_OPS_SERVED, COMMANDS, REQUESTS)
