"""Turning a backup into the live database: what must not continue as if no time had passed, in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from everwhen.decide import approval
from everwhen.decide.by_hand import cancel_orphan
from everwhen.decide.status import ACTOR, NUMBERS_SKIPPED, renumber_restored
from everwhen.errors import StoreError
from everwhen.model.changes import Decision
from everwhen.model.events import Event
from everwhen.model.instants import END, format_instant
from everwhen.model.job import Job
from everwhen.model.limits import FOR_EVER, Shared
from everwhen.model.message import Subscription
from everwhen.model.node import SILENT, Node
from everwhen.model.outcome import Outcome
from everwhen.model.schedule import Schedule
from everwhen.store.alerts import end_deliveries
from everwhen.store.commit import commit_decisions, write_shared
from everwhen.store.dialect import Statement
from everwhen.store.job_rows import JOB
from everwhen.store.labels import keeping_names
from everwhen.store.load import NUMBERS_SKIPPED as SKIPPED
from everwhen.store.load import add_shared, schedules_of, with_jobs
from everwhen.store.messages import SUBSCRIPTIONS, last_message_id, put_subscription
from everwhen.store.outbox import NEEDLESS, OVERDUE, delivery_of, put_back, withdraw
from everwhen.store.requests import refuse_all
from everwhen.store.settle import end_jobs
from everwhen.store.tokens import END_SESSIONS
from everwhen.store.transaction import Snapshot, Transaction
from everwhen.timetable.civil_time import zone

BACKED_UP_AT = "backed_up_at"  # a setting that only a copy has
_PORTION = 500
_NOTE = "a backup was restored"

# idx_jobs_outstanding, whole; idx_jobs_unreleased, whole.
_ALL_OUTSTANDING = Statement(f"SELECT {JOB} FROM jobs WHERE status IN ('queued', 'running') ORDER BY row_id")
_UNRELEASED = Statement(f"""
SELECT {JOB} FROM jobs WHERE node IS NOT NULL AND released_at IS NULL ORDER BY row_id""")
# nodes, whole; the primary keys of jobs and audit_events, one step from their ends.
_LAST_INSTANT = Statement("""
SELECT max(at) FROM (SELECT max(heartbeat_at) AS at FROM nodes
    UNION ALL SELECT created_at FROM jobs WHERE row_id = (SELECT max(row_id) FROM jobs)
    UNION ALL SELECT at FROM audit_events WHERE id = (SELECT max(id) FROM audit_events)) AS ends""")


class Restored(NamedTuple):
    """The result of a restore. `jobs`: those that were outstanding and are ended."""

    backed_up_at: int
    at: int
    schedules: int
    jobs: int
    approvals: int
    sessions: int


def go_on_from_backup(tx: Transaction, now: int, *, catch_up: bool, skipped: int = 0) -> Restored:
    """Record the restore, raise all numbers, and end what was open.

    `skipped`: how many numbers restores had skipped in the database that is replaced. The same backup may have been
    restored there before, and what it numbered then is not to be numbered again.
    """
    backed_up_at = instant_of_backup(tx)
    leap = max(skipped - numbers_skipped(tx), 0) + NUMBERS_SKIPPED
    detail: dict[str, object] = {"backed_up_at": backed_up_at, "catch_up": catch_up}
    tx.expect_long_pauses()
    tx.insert_events([Event("system.restored", now, actor=ACTOR, detail=detail)])
    tx.leap_numbers(leap)
    tx.put_setting(SKIPPED, str(numbers_skipped(tx) + leap))
    tx.put_setting(BACKED_UP_AT, "")

    def decline(schedule: Schedule, shared: Shared) -> Decision:
        # An answer given after the backup is not recorded in it, so none is accepted any more.
        return keeping_names(tx, approval.decline(schedule, now, shared, note=_NOTE, by=ACTOR))

    def go_on(schedule: Schedule, shared: Shared) -> Decision:
        return renumber_restored(schedule, backed_up_at, now, shared, catch_up=catch_up, leap=leap)

    before = len(tx.rows(_ALL_OUTSTANDING))
    approvals = schedules = 0
    after = ""
    while states := tx.list_states({}, limit=_PORTION, after=after):
        after = states[-1].schedule_id
        schedules += len(states)
        found = with_jobs(tx, schedules_of(tx, states), {state.uid for state in states})
        waiting = [schedule for schedule in found if approval.is_waiting(schedule.state)]
        approvals += len(waiting)
        _commit(tx, waiting, now, decline)
        for schedule in waiting:
            tx.delete_schedule(schedule.state.row_id)
        _commit(tx, [s for s in found if s not in waiting], now, go_on)
    if not catch_up:
        _end_orphans(tx, now)
        if held := tx.many(Job._make, _UNRELEASED):  # no worker holds one any more
            end_jobs(tx, [(job, Outcome("lost")) for job in held], Shared(), now)
        _pass_messages_over(tx, now)
    _end_deliveries(tx, now)
    end_deliveries(tx, now, _NOTE)
    refuse_all(tx, now, _NOTE)  # they may have been carried out after the backup
    tx.put_lost([node.node for node in tx.nodes() if node.is_alive], now)
    sessions = tx.run(END_SESSIONS)
    return Restored(
        backed_up_at, now, schedules, before - len(tx.rows(_ALL_OUTSTANDING)), approvals, sessions=sessions
    )


def refuse_beating(nodes: Sequence[Node], now: int) -> None:
    """Refuse while a node is alive: it would continue with what it knows of the replaced database."""
    alive = [node for node in nodes if node.is_alive and abs(now - node.heartbeat_at) < SILENT]
    if alive:
        heard = max(node.heartbeat_at for node in alive)
        raise StoreError(
            f"{len(alive)} node{'s'[: len(alive) != 1]} of this database may be running ({alive[0].node}, last heard "
            f"of at {format_instant(heard, zone('UTC'))}); stop every process, or wait a minute after one that died"
        )


def numbers_skipped(tx: Snapshot) -> int:
    """Return by how much restores have raised the numbers of this database altogether."""
    return int(tx.settings().get(SKIPPED) or 0)


def instant_of_backup(tx: Snapshot) -> int:
    """Return when the copy was taken; for one without that setting, or used since, the last recorded instant."""
    said = int(tx.settings().get(BACKED_UP_AT) or 0)
    if not 0 <= said < END:
        raise ValueError("the instant of the backup is not one")
    newest_start = max((node.started_at for node in tx.nodes()), default=0)
    return said if said and said >= newest_start else max(said, tx.value(_LAST_INSTANT) or 0)


def _commit(
    tx: Transaction, schedules: list[Schedule], now: int, decide: Callable[[Schedule, Shared], Decision]
) -> None:
    shared = Shared()
    add_shared(tx, shared, schedules, [job for schedule in schedules for job in schedule.outstanding])
    commit_decisions(tx, [decide(schedule, shared) for schedule in schedules], shared, now)
    write_shared(tx, shared, now)


def _end_orphans(tx: Transaction, now: int) -> None:
    """End jobs whose schedules are deleted; the jobs of all other schedules have ended."""
    jobs, shared = tx.many(Job._make, _ALL_OUTSTANDING), Shared()
    if not jobs:
        return
    add_shared(tx, shared, (), jobs)
    tx.insert_events([cancel_orphan(job, now, shared)._replace(actor=ACTOR) for job in jobs])
    tx.cancel_jobs([(job, "person") for job in jobs], now)
    write_shared(tx, shared, now)


def _pass_messages_over(tx: Transaction, now: int) -> None:
    """Skip undelivered messages: subscribers received them after the backup was taken."""
    last = last_message_id(tx)
    for subscription in tx.many(Subscription._make, SUBSCRIPTIONS):
        ahead = subscription._replace(cursor=last, failures=0, next_attempt_at=None, last_error=None)
        put_subscription(tx, ahead._replace(node=None, held_until=None), now)


def _end_deliveries(tx: Transaction, now: int) -> None:
    """Invalidate messages that a queue may still have; jobs that have yet to run are handed over again."""
    while sent := tx.many(delivery_of, OVERDUE, now=FOR_EVER, limit=_PORTION):
        put_back(tx, now, sent)
    while needless := tx.many(delivery_of, NEEDLESS, limit=_PORTION):
        withdraw(tx, needless)
