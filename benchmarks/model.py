"""The definition of a benchmark: contestants and goals, as data. It measures nothing itself."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

EVERWHEN = "everwhen"
Database = Literal["SQLite", "PostgreSQL"]
DATABASES: tuple[Database, ...] = ("SQLite", "PostgreSQL")


@dataclass(frozen=True, slots=True)
class Environment:
    """A set of pinned packages in a separate virtual environment; without packages, everwhen's own environment."""

    name: str
    requirements: tuple[str, ...] = ()


OWN = Environment("everwhen")
PEERS = Environment(
    "peers",
    ("cronsim==2.8", "croniter==6.2.4", "apscheduler==3.11.3", "celery==5.7.0", "tzdata==2026.6"),
)
# The job store on SQL, for benchmarks of more than cron arithmetic.
APSCHEDULER_3 = Environment("apscheduler3", ("apscheduler==3.11.3", "sqlalchemy==2.1.8", "tzdata==2026.6"))
# The two major versions of APScheduler share one package name, so they need two environments.
APSCHEDULER_4 = Environment("apscheduler4", ("apscheduler==4.0.0a6", "tzdata==2026.6"))
DRIVER = "psycopg[binary]==3.3.8"
SQL_TOOLS = ("sqlalchemy==2.1.8", DRIVER, "tzdata==2026.6")
APSCHEDULER_3_SERVED = Environment("apscheduler3-postgresql", ("apscheduler==3.11.3", *SQL_TOOLS))
# It imports sniffio and greenlet, but declares neither.
APSCHEDULER_4_SERVED = Environment(
    "apscheduler4-postgresql", ("apscheduler==4.0.0a6", "sniffio==1.3.1", "greenlet==3.5.6", *SQL_TOOLS)
)


@dataclass(frozen=True, slots=True)
class Contestant:
    """One thing measured: a worker module that runs with these arguments in that environment.

    With a `checkout` it is the worker of that checkout of the repository, in the environment that `make` made there.
    """

    name: str
    worker: str
    arguments: tuple[str, ...]
    environment: Environment = OWN
    checkout: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """How the subject must compare with another contestant; without a bound the ratio is only shown.

    `at_least` is how many times as fast the subject is, `at_most` how many times as costly. "each" uses the worst
    single case, "mean" the geometric mean over all cases; with `cases` only those count whose name contains that text.
    """

    against: str
    at_least: float | None = None
    at_most: float | None = None
    subject: str = EVERWHEN
    over: Literal["mean", "each"] = "mean"
    cases: str = ""

    def __post_init__(self) -> None:
        if self.at_least is not None and self.at_most is not None:
            raise ValueError(f"a goal against {self.against} has two bounds; give at_least or at_most")

    @property
    def text(self) -> str:
        where = "each case: " if self.over == "each" else f"{self.cases}: " if self.cases else ""
        if self.at_least is not None:
            return f"{where}≥ {self.at_least:g} × {self.against}"
        if self.at_most is not None:
            return f"{where}≤ {self.at_most:g} × {self.against}"
        return f"{where}— (beside {self.against})"

    def is_met_by(self, ratio: float) -> bool | None:
        if self.at_least is not None:
            return ratio >= self.at_least
        if self.at_most is not None:
            return ratio <= self.at_most
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """How much of something a contestant may need at most, in a unit: not a ratio; optionally a difference from
    another. Without a bound the amount is only shown; `at_least` is for what should be large.

    `amount` is the name under which its worker reports it; `above` is a contestant whose amount is subtracted.
    "worst" uses the largest of all rounds, for what must never happen; "median" the median of the rounds.
    """

    amount: str
    unit: str
    at_most: float | None = None
    at_least: float | None = None
    subject: str = EVERWHEN
    above: str = ""
    over: Literal["median", "worst"] = "median"

    @property
    def text(self) -> str:
        distance = f" above {self.above}" if self.above else ""
        if self.at_most is not None:
            return f"{self.amount} ≤ {self.at_most:g} {self.unit}".rstrip() + distance
        if self.at_least is not None:
            return f"{self.amount} ≥ {self.at_least:g} {self.unit}".rstrip() + distance
        return self.amount + distance

    def is_met_by(self, amount: float) -> bool | None:
        if self.at_most is not None:
            return amount <= self.at_most
        return None if self.at_least is None else amount >= self.at_least


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """Contestants that do the same work, and the goals for them. Several benchmarks may share a number.

    On PostgreSQL its contestants share a server that is started for this benchmark only. `parts` is the number of
    turns into which a round divides the work, so that turns stay short; `most_rounds` limits the rounds of long work.
    """

    number: str
    what: str
    contestants: tuple[Contestant, ...]
    goals: tuple[Goal, ...] = ()
    limits: tuple[Limit, ...] = ()
    parts: int = 1
    most_rounds: int | None = None
    database: Database = "SQLite"

    def rounds_of(self, wanted: int) -> int:
        return wanted if self.most_rounds is None else min(wanted, self.most_rounds)
