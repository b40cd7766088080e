"""A node takes ready jobs, within every capacity (O1, O4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from everwhen.decide.claim import claim
from everwhen.model.breaker import Transition
from everwhen.model.claim import ClaimedJob
from everwhen.model.events import Event
from everwhen.model.job import Job
from everwhen.model.schedule import State
from everwhen.stores.flows.commit import move_states, write_shared
from everwhen.stores.flows.load import add_shared, hold, system_paused_at
from everwhen.stores.flows.say import say_claimed
from everwhen.stores.plans import PlanCache
from everwhen.stores.transaction import Transaction


def take_jobs(
    tx: Transaction, plans: PlanCache, now: int, *, node: str, limit: int, queues: Sequence[str] | None
) -> list[ClaimedJob] | None:
    """Claim up to `limit` jobs for a node; None when others took all that it saw, so that it may look again."""
    if system_paused_at(tx) is not None:
        return []
    for look in (limit + 10, 4 * limit + 100):  # further only where some of the nearest may not be taken
        glanced = tx.glance_ready(now, limit=look, queues=queues)
        shared = hold(tx, plans, glanced)
        states = tx.states({seen.uid for seen in glanced})
        jobs = tx.ready_jobs(now, limit=look, queues=queues)
        states |= tx.states({job.uid for job in jobs} - states.keys())
        is_edge = len(jobs) == look
        if is_edge:
            jobs = _with_those_beyond(tx, jobs, states, now, queues)
        before = dict(states)
        add_shared(tx, shared, (), jobs)
        known = plans.load(tx, [(job.uid, job.revision) for job in jobs])
        taken, postponed = claim(jobs, known, states, shared, node=node, limit=limit, now=now)
        if len(taken) == limit or not is_edge:
            break
    if len(jobs) < len(glanced) and not taken and not postponed:
        return None
    if taken:
        tx.start_jobs(taken)
    if postponed:
        tx.postpone_jobs(postponed)
    probes = [_half_opened(t) for t in shared.transitions if t.to_state == "half_open"]
    if probes:
        tx.insert_events(probes)
    uids = {c.job.uid for c in taken} & states.keys()
    move_states(tx, [(before[uid], states[uid]) for uid in uids])
    write_shared(tx, shared, now)
    return say_claimed(tx, plans, taken, now)


def _with_those_beyond(
    tx: Transaction, jobs: list[Job], states: Mapping[str, State], now: int, queues: Sequence[str] | None
) -> list[Job]:
    """Of one schedule the job that goes first may lie beyond the edge: they run in order of slot_at (O1)."""
    crowded = {uid for uid, state in states.items() if state.outstanding > 1}
    if not crowded:
        return jobs
    known = {job.row_id for job in jobs}
    return jobs + [job for job in tx.ready_of(crowded, now, queues=queues) if job.row_id not in known]


def _half_opened(transition: Transition) -> Event:
    """A retry that is the probe says so, as a slot does."""
    detail = {"key": transition.key}
    return Event("breaker.half_opened", transition.at, job_id=transition.job_id, detail=detail)
