"""The data that the verdict uses, read once: the ledger check, the jobs and events, and the lines of the work."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from everwhen.model.events import EventType
from everwhen.model.job import Job
from everwhen.model.queries import EventFilter
from everwhen.operations.maintenance import prove
from everwhen.runtime import Runtime
from everwhen.store.opened import store_of
from everwhen.verify.ledger import LedgerReport
from tests.crash.witness import Peaks, witnessed_peaks
from tests.proof.oracle import OracleVerdict, consult
from tests.proof.watchers import Mark, WatchRecord, record_of
from tests.proof.work import Line, read_lines
from tests.proof.worlds import World

MOST = 100_000
_OF_NODES: tuple[EventType, ...] = ("node.lost", "scheduler.started", "scheduler.clock_stepped")


@dataclass
class Account:
    """Everything that is recorded about one run."""

    ledger: LedgerReport
    lines: list[Line]
    jobs: dict[str, Job] = field(default_factory=dict)
    events: Counter[str] = field(default_factory=Counter)
    slots: Counter[str] = field(default_factory=Counter)  # by result and reason
    allowing: set[str] = field(default_factory=set)  # schedules that ever allowed overlapping jobs
    only_once: set[str] = field(default_factory=set)  # schedules whose lost jobs are not repeated
    peaks: Peaks | None = None
    oracle: OracleVerdict = field(default_factory=OracleVerdict)
    lost_nodes: frozenset[str] = frozenset()
    names: dict[str, str] = field(default_factory=dict)  # of schedules, by id
    owned: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))  # schedules, by owner
    watches: WatchRecord | None = None


def gather(world: World, mark: Mark) -> Account:
    runtime = world.stack.runtime
    account = account_of(runtime, world.runs)
    account.watches = record_of(runtime, mark, account.jobs, world.runs, world.receiver.arrivals)
    if world.postgres is not None:
        account.peaks = witnessed_peaks(world.url)
    return account


def account_of(open_runtime: Runtime, runs: Path) -> Account:
    """Return what one database records, and what the work wrote in the folder `runs`."""
    runtime = store_of(open_runtime)
    account = Account(prove(runtime), read_lines(runs))
    with runtime.ledger.history() as record:
        account.oracle = consult(record.histories, record.system, runtime.clock.now())
    with runtime.ledger.history() as record:
        for history in record.histories:
            for job in history.jobs:
                account.jobs[job.job_id] = job
                if job.origin in ("schedule", "catch_up"):
                    account.slots[f"fired ({job.origin})"] += 1
            for _, event in history.events:
                account.events[event.type] += 1
                if event.type in ("schedule.skipped", "schedule.missed"):
                    what = event.type.removeprefix("schedule.")
                    account.slots[f"{what}: {event.reason}"] += event.slot_count
            for revision in history.revisions:
                policy = revision.plan.definition
                account.names[history.schedule_id] = policy.name
                if policy.owner is not None:
                    account.owned[policy.owner].add(history.uid)
                if policy.if_running == "allow":
                    account.allowing.add(history.uid)
                if policy.on_lost == "fail":
                    account.only_once.add(history.uid)
    lost = runtime.ledger.events(EventFilter(types=["node.lost"]), limit=MOST)
    account.lost_nodes = frozenset(str(one.event.detail.get("node")) for one in lost)
    for kind in _OF_NODES:
        account.events[kind] = runtime.ledger.count_events(EventFilter(types=[kind]), most=MOST)
    return account
