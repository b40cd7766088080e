"""Which ready jobs a node may take, and what taking them moves (O1, O4, R6).

Jobs of one schedule run one after another unless they may run side by side; capacity is kept whatever the
origin; a retry waits while its breaker is open, and is the probe when it comes first after the pause.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from everwhen.decide import breaker as breakers
from everwhen.model.claim import ClaimedJob
from everwhen.model.instants import SECOND
from everwhen.model.job import Job
from everwhen.model.schedule import Plan, State
from everwhen.model.shared import Shared

LOOK_AGAIN = SECOND


class Claims(NamedTuple):
    """Jobs that are taken, and retries that are put off until their breaker may let them through."""

    taken: list[ClaimedJob]
    postponed: list[tuple[Job, int]]


def claim(
    jobs: Sequence[Job],
    plans: Mapping[tuple[str, int], Plan],
    states: dict[str, State],
    shared: Shared,
    *,
    node: str,
    limit: int,
    now: int,
) -> Claims:
    """Take up to `limit` of the ready jobs, in line; `states` and `shared` move along."""
    claims = Claims([], [])
    for job in in_line(jobs):
        if len(claims.taken) == limit:
            break
        plan = plans[job.uid, job.revision]
        if not _is_its_turn(job, states) or not _has_place(job, shared):
            continue
        waits_until = _breaker_wait(job, plan, shared, now)
        if waits_until is not None:
            claims.postponed.append((job, waits_until))
            continue
        claims.taken.append(_start(job, plan, states, shared, node, now))
    return claims


def in_line(jobs: Sequence[Job]) -> Sequence[Job]:
    """In the order in which they became ready; those of one schedule, among themselves, by slot_at."""
    if len({job.uid for job in jobs}) == len(jobs):
        return jobs
    of_uid: dict[str, list[Job]] = {}
    for job in sorted(jobs, key=lambda job: (job.slot_at, job.row_id), reverse=True):
        of_uid.setdefault(job.uid, []).append(job)
    return [of_uid[job.uid].pop() for job in jobs]


def _is_its_turn(job: Job, states: Mapping[str, State]) -> bool:
    """Own jobs wait for the one before them; `states` shows those that this very claim has started.

    The lines beside need no look: of each only the first is ready.
    """
    if job.line != "own":
        return True
    state = states.get(job.uid)
    return state is None or not state.running_jobs


def _has_place(job: Job, shared: Shared) -> bool:
    if job.capacity_key is None or job.capacity_limit is None:
        return True
    return shared.limit(job.capacity_key).running < job.capacity_limit


def _breaker_wait(job: Job, plan: Plan, shared: Shared, now: int) -> int | None:
    """Until when a retry has to wait for its breaker; None when it may go (perhaps as the probe)."""
    rule = plan.definition.breaker
    if job.origin != "retry" or rule is None:
        return None
    breaker = shared.breaker(rule.key)
    if breakers.gate(shared, rule, now) != "shut" or breaker.probe_job_id == job.job_id:
        return None
    if breaker.opened_at is not None and breaker.state == "open":
        return max(breaker.opened_at + rule.reset_after, now + LOOK_AGAIN)
    return now + LOOK_AGAIN


def _start(job: Job, plan: Plan, states: dict[str, State], shared: Shared, node: str, now: int) -> ClaimedJob:
    definition = plan.definition
    is_probe = job.is_probe
    if job.origin == "retry" and breakers.gate(shared, definition.breaker, now) == "probe":
        assert definition.breaker is not None
        breakers.begin_probe(shared, definition.breaker, job.job_id, now)
        is_probe = True
    if not job.is_counted:
        shared.move(job.guard_key, outstanding=1)
        shared.move(job.capacity_key, outstanding=1)
    shared.move(job.capacity_key, running=1)
    state = states.get(job.uid)
    if state is not None and job.not_before is None and job.is_own:
        states[job.uid] = state.started(now)
    elif state is not None:
        was_waiting = job.not_before is not None and not job.fence  # never claimed before
        states[job.uid] = state._replace(
            running_jobs=state.running_jobs + (job.origin != "backfill"),
            waiting=state.waiting - was_waiting,
            retries_waiting=state.retries_waiting - (was_waiting and job.origin == "retry"),
            last_run_at=now if job.is_own else state.last_run_at,
        )
    deadline_at = None if definition.timeout is None else now + definition.timeout
    started = job.started(now, deadline_at, node, is_probe)
    return ClaimedJob(started, definition, definition.name, state.current_repeat if state else 0)
