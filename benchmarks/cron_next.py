"""B1: the next cron instant, compared with every library in common use. B18: the public function, given the text."""

from benchmarks.model import APSCHEDULER_4, EVERWHEN, OWN, PEERS, Benchmark, Contestant, Environment, Goal

EPOCH = "everwhen (epoch seconds)"


def contestant(task: str, engine: str, *, name: str = "", environment: Environment = PEERS) -> Contestant:
    return Contestant(name or engine, "benchmarks.workers.cron", (task, engine), environment)


def everwhen(task: str) -> Contestant:
    return contestant(task, EVERWHEN, environment=OWN)


BENCHMARKS = (
    Benchmark(
        number="B1",
        what="next cron instant, 30 expressions × 3 zones",
        parts=9,
        contestants=(
            everwhen("walk"),
            contestant("walk", "everwhen-epoch", name=EPOCH, environment=OWN),
            contestant("walk", "cronsim"),
            contestant("walk", "croniter"),
            contestant("walk", "apscheduler-3", name="APScheduler"),
            contestant("walk", "apscheduler-4", name="APScheduler pre-release", environment=APSCHEDULER_4),
            contestant("walk", "celery", name="Celery crontab"),
        ),
        goals=(
            Goal(against="cronsim", at_least=12),
            Goal(against="croniter", at_least=35),
            Goal(against="APScheduler", at_least=20),
            Goal(against="croniter", at_least=3, over="each"),
            Goal(subject=EPOCH, against="cronsim", at_least=18),
            Goal(against="APScheduler pre-release"),
            Goal(against="Celery crontab"),
        ),
    ),
    Benchmark(
        number="B1",
        what="parse and first next, nothing remembered",
        parts=9,
        contestants=(
            everwhen("parse"),
            contestant("parse", "croniter"),
            contestant("parse", "cronsim"),
            contestant("parse", "apscheduler-3", name="APScheduler"),
        ),
        goals=(
            Goal(against="croniter", at_most=1),
            Goal(against="cronsim"),
            Goal(against="APScheduler"),
        ),
    ),
    Benchmark(
        number="B1",
        what="every instant of a year of `*/5 * * * *`, 3 zones",
        parts=3,
        contestants=(everwhen("span"), contestant("span", "cronsim")),
        goals=(Goal(against="cronsim", at_least=30),),
    ),
    Benchmark(
        number="B18",
        what="`calculate_next_cron_trigger` again and again, 10 expressions; a step of cronsim, parsed before",
        parts=2,
        contestants=(
            contestant("ask", "everwhen-calls", name=EVERWHEN, environment=OWN),
            contestant("ask", "cronsim"),
        ),
        goals=(Goal(against="cronsim", at_least=8),),
    ),
)
