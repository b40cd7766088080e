"""B8 and B9: jobs fetched, run and settled: no-ops, processes, requests."""

from benchmarks.model import DRIVER, EVERWHEN, Benchmark, Contestant, Environment, Goal

HUEY = Environment("huey", ("huey==3.5.4",))
PGQUEUER = Environment("pgqueuer", ("pgqueuer==1.6.0", "asyncpg==0.32.0", "uvloop==0.23.0", DRIVER))
PROCRASTINATE = Environment("procrastinate", ("procrastinate==3.10.0", "psycopg-pool==3.3.3", DRIVER))
BARE = "bare asyncio"
BARE_CLIENT = "bare aiohttp"
PEER = "Huey (SQLite)"
BATCHED_PEER = "PgQueuer (batch 100)"
SINGLE_PEER = "Procrastinate"


def contestant(name: str, task: str) -> Contestant:
    return Contestant(name, "benchmarks.workers.working", (task,))


NO_OPS = Benchmark(
    number="B8",
    what="no-op jobs, fetch to settled, 5,000 queued (quick: 1,000), SQLite, 100 at a time, per job",
    contestants=(
        contestant(EVERWHEN, "no-op"),
        Contestant(PEER, "benchmarks.workers.huey_jobs", (), HUEY),
    ),
    goals=(Goal(against=PEER, at_least=4),),
    most_rounds=5,
)
NO_OPS_SERVED = Benchmark(
    number="B8",
    what="no-op jobs, fetch to settled, 5,000 queued (quick: 1,000), PostgreSQL, 100 at a time, per job; "
    "Procrastinate 500 (200), one at a time as is its default",
    contestants=(
        contestant(EVERWHEN, "no-op"),
        Contestant(BATCHED_PEER, "benchmarks.workers.pgqueuer_jobs", (), PGQUEUER),
        Contestant(SINGLE_PEER, "benchmarks.workers.procrastinate_jobs", (), PROCRASTINATE),
    ),
    goals=(Goal(against=BATCHED_PEER, at_least=1), Goal(against=SINGLE_PEER, at_least=15)),
    most_rounds=5,
    database="PostgreSQL",
)
COMMANDS = Benchmark(
    number="B9",
    what="command jobs, claim to settled, 400 (quick: 100) of /bin/true, 8 in flight, SQLite, per job",
    contestants=(contestant(EVERWHEN, "command"), contestant(BARE, "bare-command")),
    goals=(Goal(against=BARE, at_least=0.8),),
    most_rounds=5,
)
REQUESTS = Benchmark(
    number="B9",
    what="http jobs, claim to settled, 2,000 (quick: 400) POSTs to loopback, 32 in flight, SQLite, per job",
    contestants=(contestant(EVERWHEN, "http"), contestant(BARE_CLIENT, "bare-http")),
    goals=(Goal(against=BARE_CLIENT, at_least=0.6),),
    most_rounds=5,
)

BENCHMARKS = (NO_OPS, NO_OPS_SERVED, COMMANDS, REQUESTS)
