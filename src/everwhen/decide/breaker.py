"""The circuit breaker: when it opens, probes and closes.

closed ──failures reach the threshold──▶ open ──reset_after, first to reach "fire"──▶ half_open
half_open ──probe succeeded──▶ closed · failed──▶ open anew · cancelled──▶ open with the old opened_at
While it is not closed, only the probe's outcome or a reset changes it.
"""

from __future__ import annotations

from typing import Literal

from everwhen.model.job import Job
from everwhen.model.limits import Breaker, Shared, Transition, TransitionReason
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
    probing = breaker._replace(state="half_open", probe_job_id=job_id)
    _move(shared, breaker, probing, "cooldown_elapsed", job_id=job_id, now=now)


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
        if breaker.probe_job_id != job.job_id:
            return None
        after, reason = _after_probe(breaker, outcome, now)
        return _move(shared, breaker, after, reason, job_id=job.job_id, now=now)
    if outcome.status == "cancelled":
        return None
    if not outcome.is_failure:
        if breaker.failure_count:
            shared.change(breaker._replace(failure_count=0))
        return None
    failed = breaker._replace(failure_count=breaker.failure_count + 1)
    if threshold is None or failed.failure_count < threshold:
        shared.change(failed)
        return None
    opened = failed._replace(state="open", opened_at=now)
    return _move(shared, failed, opened, "failure_threshold", job_id=job.job_id, now=now)


def reset(shared: Shared, key: str, now: int) -> bool:
    """Close the breaker for a person; return False when it was closed already, without failures."""
    breaker = shared.breaker(key)
    if breaker.state == "closed" and not breaker.failure_count:
        return False
    _move(shared, breaker, Breaker(key), "manual_reset", job_id=None, now=now)
    return True


def _after_probe(breaker: Breaker, outcome: Outcome, now: int) -> tuple[Breaker, TransitionReason]:
    if outcome.status == "succeeded":
        return Breaker(breaker.key), "success"
    opened = breaker._replace(state="open", probe_job_id=None)
    if outcome.status == "cancelled":
        return opened, "probe_cancelled"
    return opened._replace(opened_at=now, failure_count=breaker.failure_count + 1), "probe_failed"


def _move(
    shared: Shared, before: Breaker, after: Breaker, reason: TransitionReason, *, job_id: str | None, now: int
) -> Transition:
    failures = after.failure_count
    transition = Transition(before.key, before.state, after.state, reason, failures, job_id=job_id, at=now)
    shared.change(after, transition)
    return transition
