"""The check of breakers against their transitions and the outstanding jobs.

A half-open breaker whose probe is over never moves again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from everwhen.model.breaker import Breaker, Transition
from everwhen.model.history import Breakers
from everwhen.verify.entries import LedgerFault


def check_breakers(breakers: Breakers, probes: Collection[str], *, is_whole: bool) -> Iterator[LedgerFault]:
    """Check every breaker. `probes`: the outstanding ones; `is_whole`: retention has deleted no transition."""
    latest = {transition.key: transition for transition in breakers.latest}
    for breaker in breakers.rows:
        for sentence in _faults(breaker, latest.get(breaker.key), probes, is_whole):
            yield LedgerFault("breaker", "", breaker.key, None, f"breaker {breaker.key} {sentence}")


def _faults(
    breaker: Breaker, last: Transition | None, probes: Collection[str], is_whole: bool
) -> Iterator[str]:
    state, probe = breaker.state, breaker.probe_job_id
    if last is not None and last.to_state != state:
        yield f"is {state}, and its last change on record made it {last.to_state}"
    if last is None and state != "closed" and is_whole:
        yield f"is {state}, and no change of it is on record"
    if state == "half_open" and probe is None:
        yield "is half open and has no probe"
    elif state == "half_open" and probe not in probes:
        yield f"waits for its probe {probe}, which is not outstanding: it will never move"
    elif state != "half_open" and probe is not None:
        yield f"is {state} and has a probe, {probe}"
    if (state == "closed") == (breaker.opened_at is not None):
        yield f"is {state}, and says it opened at {breaker.opened_at}"
