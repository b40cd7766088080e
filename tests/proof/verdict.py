"""The verdict: every fault is undone, all is quiet, and now every promise is checked against the record.

The ledger checker checks the record against itself. It cannot know whether the work was done: that is checked against
the lines that the work wrote outside of the database.
"""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from everwhen.errors import StatusError, StoreError
from everwhen.model.events import EventType
from everwhen.model.instants import HOUR
from everwhen.model.job import Job
from everwhen.model.queries import JobFilter
from everwhen.model.schedule import State
from everwhen.operations.schedules import list_schedules, pause_schedule
from everwhen.runtime import Runtime
from everwhen.store.opened import store_of
from tests.proof.account import Account
from tests.proof.callers import Callers, Given
from tests.proof.given import broken_answers, fired_unapproved, spent_too_much
from tests.proof.nemesis import Diary, Nemesis, Struck
from tests.proof.overlaps import Nodes, overlaps_of
from tests.proof.processes import Supervised
from tests.proof.receiver import ALERTS, EVENTS, INBOX, PING, WORK
from tests.proof.schedules import MOST_OUTSTANDING, MOST_RUNNING, OVER_INTERFACE, hushed, hushed_file
from tests.proof.users import Users
from tests.proof.watchers import Mark, broken_watches, undelivered
from tests.proof.work import Line, read_lines
from tests.proof.worlds import World
from tests.submissions import update_schedule

PATIENCE, LONGEST_REST = 60.0, 300.0
# A message that an RQ worker took, and died with before it claimed the job, counts as alive for RQ for 90 s.
PATIENCE_WITH_RQ = 150.0
LONG_ENOUGH = 150.0  # seconds, for everything to happen once
EXERCISED: frozenset[EventType] = frozenset(
    (
        "schedule.silent",
        "budget.reached",
        "schedule.approval_requested",
        "schedule.approved",
        "alert.sent",
        "node.lost",
        "job.rescued",
    )
)
GROUP_WAIT = 3.0  # seconds; alerts of a class wait one for each other
RECOVERY = 45.0  # seconds: leases, connection timeouts and retry pauses are all shorter
WAKES = 1.0  # seconds: a fault that ended at most so long before a silence may have caused it
NOTICED = 0.5  # seconds of a silence in which a node was absent
OUTSTANDING = JobFilter(statuses=["queued", "running"])


# -- quiet --


def bring_to_rest(world: World, nemesis: Nemesis, diary: Diary, callers: Callers) -> list[str]:
    """Let nothing fire any more, wait until every due slot is decided and every job is over, and stop the nodes;
    return what did not come to rest."""
    runtime = store_of(world.stack.runtime)
    rest = _Rest(world, nemesis)
    rest.wait("back at work", lambda: [p.name for p in world.processes if not p.is_at_work])
    healed = max((struck.healed for struck in diary.struck), default=diary.began)
    rest.wait("begun anew", lambda: _without_work(world, healed), every=0.5)
    rest.wait("answered", callers.without_answer, every=0.5)
    _hush(world, rest)
    rest.wait("settled", lambda: [_named(job) for job in runtime.ledger.jobs(OUTSTANDING, limit=20)])
    _await_watchers(world, rest)
    for process in world.processes:
        process.ask_to_leave()
    return [*rest.problems, *filter(None, (process.left(30) for process in world.processes))]


def _hush(world: World, rest: _Rest) -> None:
    runtime = store_of(world.stack.runtime)
    world.fields = hushed_file(world.fields)
    world.write_file()
    of_file = {fields["id"] for fields in world.fields["schedules"]}
    of_file |= {
        f"{name}.{key}" for name, agent in world.fields["agents"].items() for key in agent["schedules"]
    }

    def is_hushed() -> list[str]:
        for state in list_schedules(runtime, status="active", limit=500):
            if state.schedule_id.startswith(OVER_INTERFACE) and _is_soon(runtime, state.next_run_at):
                update_schedule(runtime, hushed(state.schedule_id))
            elif not state.schedule_id.startswith(OVER_INTERFACE) and state.schedule_id not in of_file:
                _pause_if_soon(runtime, state)
        if not _is_soon(runtime, runtime.slots.next_wake_at()):
            return []
        world.machines[0].scheduler.signal(signal.SIGHUP)
        return [s.schedule_id for s in list_schedules(runtime, limit=500) if _is_soon(runtime, s.next_run_at)]

    rest.wait("decided", is_hushed, every=0.5)


def _pause_if_soon(runtime: Runtime, state: State) -> None:
    """Pause what callers and programs have made."""
    if _is_soon(runtime, state.next_run_at):
        with suppress(StatusError):  # somebody was faster
            pause_schedule(runtime, state.schedule_id)


def _without_work(world: World, since: float) -> list[str]:
    """Return a sentence while no work has begun: the recovery from the last fault has to be seen, too."""
    has_begun = any(line.what == "begin" and line.at >= since for line in read_lines(world.runs))
    return [] if has_begun else ["nothing has begun since the last fault"]


def _await_watchers(world: World, rest: _Rest) -> None:
    """Wait until everything is delivered, and until nothing more comes of it: alerts wait a second for others."""
    mark = Mark.now(world.stack.runtime)
    rest.wait("delivered", lambda: undelivered(world.stack.runtime, mark), every=0.5)
    rest.nemesis.watch_until(time.monotonic() + GROUP_WAIT)
    rest.wait("delivered", lambda: undelivered(world.stack.runtime, mark), every=0.5)


def _is_soon(runtime: Runtime, due_at: int | None) -> bool:
    return due_at is not None and due_at < runtime.clock.now() + HOUR


def _named(job: Job) -> str:
    return f"{job.job_id} of {job.schedule_id} ({job.origin}, {job.status})"


@dataclass
class _Rest:
    """Waits until nothing is left; what remains is a problem."""

    world: World
    nemesis: Nemesis
    problems: list[str] = field(default_factory=list)

    def wait(self, what: str, left: Callable[[], list[str]], every: float = 0.1) -> None:
        self.nemesis.tell(f"healed; until all is {what}")
        patience = PATIENCE if self.world.valkey is None else PATIENCE_WITH_RQ
        began = changed = time.monotonic()
        found: list[str] = []
        # Backlogs are worked off in time; one that does not change any more is stuck.
        while time.monotonic() < min(changed + patience, began + LONGEST_REST):
            try:
                before, found = found, left()
            except StoreError as error:  # one of our connections, broken by the last fault
                self.nemesis.tell(f"not {what} yet: {error}")
            else:
                if not found:
                    return
                changed = changed if found == before else time.monotonic()
            self.nemesis.watch_until(time.monotonic() + every)
        seconds = time.monotonic() - began
        self.problems += [f"not {what} {seconds:.0f} s after the last fault: {one}" for one in found or ["?"]]


# -- promises --


def broken_promises(
    account: Account, world: World, diary: Diary, users: Users, callers: Callers
) -> list[str]:
    """Return everything that is not as promised; an empty list when all is well."""
    return [
        *(f"ledger: {f.kind} {f.schedule_id} {f.slot_at}: {f.sentence}" for f in account.ledger.faults),
        *account.oracle.faults,
        *broken_work(account, Nodes.of(world.processes, account.lost_nodes)),
        *(fields for process in world.processes for fields in process.ended_late),
        *(f"a user was told: {fields}" for fields in users.surprises),
        *broken_rules(account, callers.given),
        *_not_recovered(account, diary),
        *(_not_exercised(account, world) if diary.ended - diary.began >= LONG_ENOUGH else ()),
    ]


def _not_exercised(account: Account, world: World) -> Iterator[str]:
    """Yield what a run of minutes has to have seen, so that its verdict is about it."""
    assert account.watches is not None
    kinds = {one.event.type for one in account.watches.events}
    for kind in sorted(EXERCISED - kinds):
        yield f"proof: there was no event {kind} in a run of minutes"
    for path in (ALERTS, EVENTS, INBOX, PING, WORK):
        if not world.receiver.arrivals.taken[path]:
            yield f"proof: nothing arrived at {path} in a run of minutes"


def broken_rules(account: Account, given: Given) -> list[str]:
    """Return what watchers owe, what callers were told in vain, and what was fired beyond approvals and budgets."""
    assert account.watches is not None
    events, jobs = account.watches.events, account.jobs
    return [
        *broken_watches(account.watches),
        *broken_answers(given, account.names, jobs, events),
        *fired_unapproved(given, jobs, events),
        *spent_too_much(jobs, account.owned),
    ]


def broken_work(account: Account, nodes: Nodes) -> list[str]:
    """Return the contradictions between the work's lines and the record."""
    return [
        *_attempts_begun_twice(account),
        *_work_of_unknown_jobs(account),
        *_successes_without_work(account),
        *_repeats_of_what_must_not_be(account),
        *_side_by_side(account, nodes),
        *_limits_passed(account),
    ]


def _attempts_begun_twice(account: Account) -> Iterator[str]:
    begun = Counter((line.job_id, line.attempt) for line in account.lines if line.what == "begin")
    for (job_id, attempt), count in begun.items():
        if count > 1:
            yield f"doubled: attempt {attempt} of {job_id} began {count} times"


def _work_of_unknown_jobs(account: Account) -> Iterator[str]:
    for line in account.lines:
        job = account.jobs.get(line.job_id)
        if job is None:
            yield f"lost: {line.job_id} of {line.schedule_id} was run and is not on record"
        elif line.attempt > job.attempt:
            yield f"lost: attempt {line.attempt} of {line.job_id} was run, the record has {job.attempt}"


def _successes_without_work(account: Account) -> Iterator[str]:
    ended = {(line.job_id, line.attempt) for line in account.lines if line.what == "end"}
    for job in account.jobs.values():
        is_message = job.schedule_id == "message"  # settled by the commit that fires it
        if job.status == "succeeded" and not is_message and (job.job_id, job.attempt) not in ended:
            yield f"lost: {job.job_id} of {job.schedule_id} succeeded in attempt {job.attempt}, and nobody saw it run"


def _repeats_of_what_must_not_be(account: Account) -> Iterator[str]:
    begun = Counter(line.job_id for line in account.lines if line.what == "begin")
    for job_id, count in begun.items():
        job = account.jobs.get(job_id)
        if count > 1 and job is not None and job.uid in account.only_once:
            yield f"doubled: {job_id} of {job.schedule_id} ran {count} times, with on_lost: fail"


def _side_by_side(account: Account, nodes: Nodes) -> Iterator[str]:
    """Yield the runs of one schedule that were under way at once and that nothing excuses."""
    for overlap in overlaps_of(account.lines, account.jobs, account.allowing, nodes):
        if overlap.excuse is None:
            yield str(overlap)


def _limits_passed(account: Account) -> Iterator[str]:
    if account.peaks is None:
        return
    for key, peak in account.peaks.running.items():
        if "crowded" in key and peak > MOST_RUNNING:
            yield f"limit: {peak} jobs of {key} ran at once, {MOST_RUNNING} may"
    for key, peak in account.peaks.outstanding.items():
        if "guarded" in key and peak > MOST_OUTSTANDING:
            yield f"limit: {peak} jobs of {key} were outstanding at once, {MOST_OUTSTANDING} may be"


# -- recovery --


class Recovery(NamedTuple):
    """One fault: how long nothing began around it, and how long after its end something began again."""

    kind: str
    silence: float
    seconds: float | None


def recoveries(lines: Sequence[Line], diary: Diary) -> list[Recovery]:
    begun = [line.at for line in lines if line.what == "begin"]
    return [_recovery(begun, struck.strike.kind, struck.began, struck.healed) for struck in diary.struck]


def _recovery(begun: Sequence[float], kind: str, began: float, healed: float) -> Recovery:
    after = next((at for at in begun if at >= healed), None)
    before = max((at for at in begun if at < began), default=began)
    around = [before, *(at for at in begun if began <= at < healed), after or healed]
    silence = max(b - a for a, b in pairwise(around))
    return Recovery(kind, silence, None if after is None else after - healed)


class Silence(NamedTuple):
    """A time in which no work began, the faults of that time, and the nodes that were absent."""

    began: float
    ended: float
    faults: Sequence[str]
    absent: Sequence[str]


def silences(
    lines: Sequence[Line], diary: Diary, processes: Sequence[Supervised], at_least: float
) -> list[Silence]:
    """Return the silences of at least that length, in order of time."""
    begun = [line.at for line in lines if line.what == "begin" and line.at <= diary.ended]
    return [
        Silence(
            began,
            ended,
            [_as_it_was(one) for one in diary.struck if one.began < ended and one.healed > began - WAKES],
            list(_absent(processes, began, ended)),
        )
        for began, ended in pairwise(begun)
        if ended - began >= at_least
    ]


def _as_it_was(struck: Struck) -> str:
    """Describe a fault with its actual duration: a killed server is back when it has recovered, not when it is
    started."""
    return str(struck.strike._replace(lasts=struck.healed - struck.began))


def _absent(processes: Sequence[Supervised], began: float, ended: float) -> Iterator[str]:
    for process in processes:
        shares = (min(one.ended, ended) - max(one.began, began) for one in process.absences)
        seconds = sum(share for share in shares if share > 0)
        if seconds >= NOTICED:
            yield f"{process.name} for {seconds:.1f} s"


def longest_gap(lines: Sequence[Line], diary: Diary) -> float:
    begun = [line.at for line in lines if line.what == "begin" and line.at <= diary.ended]
    return max((b - a for a, b in pairwise(begun)), default=0.0)


def _not_recovered(account: Account, diary: Diary) -> Iterator[str]:
    for recovery in recoveries(account.lines, diary):
        if recovery.seconds is None or recovery.seconds > RECOVERY:
            yield f"stuck: nothing began within {RECOVERY:g} s after “{recovery.kind}”"
