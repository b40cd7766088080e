"""One evaluation: claim due rows, decide, write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from everwhen.decide.tick import is_still_due, tick
from everwhen.model.changes import Decision
from everwhen.model.claim import ClaimedJob
from everwhen.model.instants import SECOND
from everwhen.model.limits import Shared
from everwhen.model.message import MESSAGE
from everwhen.model.schedule import Schedule, State
from everwhen.model.share import FreeWorkers
from everwhen.store.claim import claim_fired
from everwhen.store.commit import commit_decisions, write_shared
from everwhen.store.load import add_shared, coverage, hold, schedules_of, system_paused_at, without_busy
from everwhen.store.publish import publish_at_once, publish_fired
from everwhen.store.transaction import Due, LockHint, Transaction

PAGES = 8


@dataclass(frozen=True, slots=True)
class TickReport:
    """The result of one evaluation. `more`: some due slots are left for the next one.

    `next_catch_up_at`: when the next catch-up job may begin, if they are staggered. `none_due`: there is nothing to
    decide at all, neither recent slots nor old ones. `decisions` are those that were committed, for observers;
    `claimed` are those of the fired jobs that the deciding node begins.
    """

    schedules: int = 0
    fired: int = 0
    more: bool = False
    next_catch_up_at: int = 0
    none_due: bool = field(default=False, compare=False)
    decisions: Sequence[Decision] = field(default=(), compare=False, repr=False)
    claimed: Sequence[ClaimedJob] = field(default=(), compare=False, repr=False)


def evaluate(
    tx: Transaction,
    due: Due,
    *,
    stagger: int,
    next_catch_up_at: int = 0,
    workers: FreeWorkers | None = None,
) -> TickReport:
    """Decide a batch of due and released slots; begin what they fire where `workers` are free for it."""
    if system_paused_at(tx) is not None:
        return TickReport()
    shared = Shared(stagger=stagger, stagger_offset=max(next_catch_up_at - due.now, 0))
    for page in range(PAGES):
        due = due._replace(page=page)
        peeked = tx.peek_due(due)
        schedules = _take(tx, due, peeked, shared)
        if schedules or not peeked:
            break  # else other schedulers hold all of these, or their keys: continue with the next page
    if not schedules:
        return TickReport()
    is_full = max(len(schedules), len(peeked)) >= due.limit
    return _decide(
        tx, schedules, shared, due.now, is_full=is_full, alive_since=due.alive_since, workers=workers
    )


def evaluate_one(tx: Transaction, uid: str, now: int, *, stagger: int) -> TickReport:
    """Decide the due and released slots of one schedule; wait for its row and its keys while others hold them."""
    if system_paused_at(tx) is not None:
        return TickReport()
    shared = hold(tx, tx.peek_schedule(uid), Shared(stagger=stagger))
    state = tx.states({uid}).get(uid)
    if state is None or not _is_due(state, now):
        return TickReport()
    schedules = schedules_of(tx, [state])
    add_shared(tx, shared, schedules, [job for s in schedules for job in s.outstanding])
    return _decide(tx, schedules, shared, now, is_full=False)


def _is_due(state: State, now: int) -> bool:
    wakes = (state.next_run_at, state.release_at)
    return state.status == "active" and any(at is not None and at <= now for at in wakes)


def _take(tx: Transaction, due: Due, peeked: Sequence[LockHint], shared: Shared) -> Sequence[Schedule]:
    """Return the schedules that could be locked, with their keys. A locked key delays only its own schedules."""
    hold(tx, peeked, shared, wait=False)
    states = tx.due(due)
    if not states:
        return ()
    schedules = schedules_of(tx, states)
    add_shared(tx, shared, schedules, [job for s in schedules for job in s.outstanding], wait=False)
    return without_busy(shared, schedules)


def _decide(
    tx: Transaction,
    schedules: Sequence[Schedule],
    shared: Shared,
    now: int,
    *,
    is_full: bool,
    alive_since: int | None = None,
    workers: FreeWorkers | None = None,
) -> TickReport:
    """Decide, and write the decisions."""
    if workers is not None and (len(schedules) > workers.number or _is_any_ready(tx, workers, now)):
        workers = None  # what was ready before goes first
    if min(one.state.next_run_at or now for one in schedules) < now - SECOND:  # something may be missed
        shared.coverage = coverage(tx, now, alive_since)
    decisions = tick(schedules, now, shared)
    left = publish_at_once(tx, decisions, now)
    commit_decisions(tx, left, shared, now)
    claimed = None if workers is None else claim_fired(tx, _to_run(left), shared, now, workers)
    if claimed is None:
        write_shared(tx, shared, now)
    publish_fired(tx, left, now)
    fired = sum([len(decision.jobs) for decision in decisions])
    more = is_full or any(is_still_due(decision, now) for decision in decisions)
    next_at = now + shared.stagger_offset
    return TickReport(len(decisions), fired, more, next_at, decisions=decisions, claimed=claimed or ())


def _is_any_ready(tx: Transaction, workers: FreeWorkers, now: int) -> bool:
    ready_at = tx.next_ready_at(workers.queues, now)
    return ready_at is not None and ready_at <= now


def _to_run(decisions: Sequence[Decision]) -> list[Decision]:
    """Return the decisions whose jobs need a worker: messages are written where they are fired."""
    return [decision for decision in decisions if decision.plan.definition.target.kind != MESSAGE]
