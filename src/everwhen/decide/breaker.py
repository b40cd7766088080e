"""The circuit breaker: when it opens, probes and closes (R6).

closed ──failures reach the threshold──▶ open ──reset_after, first to reach "fire"──▶ half_open
half_open ──probe succeeded──▶ closed · failed──▶ open anew · cancelled──▶ open with the old opened_at
While it is not closed, only the probe's outcome or a reset changes it.
"""

from __future__ import annotations

from typing import Literal

from everwhen.model.job import Job
from everwhen.model.limits import Breaker, BreakerState, Shared, Transition, TransitionReason
from everwhen.model.outcome import Outcome
from everwhen.model.policy import BreakerRule

Gate = Literal["pass", "probe", "shut"]


def gate(shared: Shared, rule: BreakerRule | None, now: int) -> Gate:
    """Return whether a slot or retry may fire: freely (`pass`), as the probe, or not at all (`shut`)."""
    if rule is None:
        return "pass"
    breaker = shared.breaker(rule.key)
    if breaker.state == "closed":
        return "pass"
    cooled = breaker.opened_at is not None and now >= breaker.opened_at + rule.reset_after
    return "probe" if breaker.state == "open" and cooled else "shut"


def begin_probe(shared: Shared, rule: BreakerRule, job_id: str, now: int) -> None:
    """Make the breaker half-open, in the commit that enqueues the probe."""
    breaker = shared.breaker(rule.key)
    _move(shared, breaker, "half_open", "cooldown_elapsed", job_id=job_id, now=now, probe_job_id=job_id)


def count_outcome(
    shared: Shared, job: Job, outcome: Outcome, now: int, threshold: int | None
) -> Transition | None:
    """Count the outcome of an own attempt, and return the transition that it causes.

    Without a threshold no failure opens the breaker. The breaker is the job's, even if its schedule was edited or
    deleted: a probe must end, or the key stays shut.
    """
    if job.breaker_key is None:
        return None
    breaker = shared.breaker(job.breaker_key)
    if breaker.state != "closed":
        return _end_probe(shared, breaker, job, outcome, now) if breaker.probe_job_id == job.job_id else None
    if outcome.status == "cancelled":
        return None
    if not outcome.is_failure:
        if breaker.failure_count:
            shared.change(breaker._replace(failure_count=0))
        return None
    failed = breaker._replace(failure_count=breaker.failure_count + 1)
    if threshold is not None and failed.failure_count >= threshold:
        return _move(shared, failed, "open", "failure_threshold", job_id=job.job_id, now=now, opened_at=now)
    shared.change(failed)
    return None


def reset(shared: Shared, key: str, now: int) -> bool:
    """Close the breaker for a person; return False when it was closed already, without failures."""
    breaker = shared.breaker(key)
    if breaker.state == "closed" and not breaker.failure_count:
        return False
    _move(shared, breaker, "closed", "manual_reset", job_id=None, now=now, failure_count=0)
    return True


def _end_probe(shared: Shared, breaker: Breaker, job: Job, outcome: Outcome, now: int) -> Transition:
    if outcome.status == "succeeded":
        return _move(shared, breaker, "closed", "success", job_id=job.job_id, now=now, failure_count=0)
    if outcome.status == "cancelled":
        return _move(
            shared,
            breaker,
            "open",
            "probe_cancelled",
            job_id=job.job_id,
            now=now,
            opened_at=breaker.opened_at,
        )
    failures = breaker.failure_count + 1
    return _move(
        shared,
        breaker,
        "open",
        "probe_failed",
        job_id=job.job_id,
        now=now,
        opened_at=now,
        failure_count=failures,
    )


def _move(
    shared: Shared,
    breaker: Breaker,
    state: BreakerState,
    reason: TransitionReason,
    job_id: str | None,
    now: int,
    *,
    opened_at: int | None = None,
    probe_job_id: str | None = None,
    failure_count: int | None = None,
) -> Transition:
    changed = Breaker(
        key=breaker.key,
        state=state,
        failure_count=breaker.failure_count if failure_count is None else failure_count,
        opened_at=breaker.opened_at if state == "half_open" else opened_at,
        probe_job_id=probe_job_id,
    )
    transition = Transition(
        breaker.key,
        from_state=breaker.state,
        to_state=state,
        reason=reason,
        failure_count=changed.failure_count,
        job_id=job_id,
        at=now,
    )
    shared.change(changed, transition)
    return transition
