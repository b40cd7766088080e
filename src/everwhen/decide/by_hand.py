"""Jobs that a person, a webhook or a chat asks for: beside the slots, and never refused by guard, breaker or
budget (O5, X3)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from everwhen.decide.draft import Draft
from everwhen.decide.overlap import is_ready, overlap
from everwhen.model.decision import Decision
from everwhen.model.job import NewJob, Origin, job_id
from everwhen.model.policy import IfRunning
from everwhen.model.schedule import Schedule
from everwhen.model.shared import Shared


def trigger(
    schedule: Schedule,
    now: int,
    shared: Shared,
    *,
    payload: Mapping[str, Any] | None = None,
    if_running: IfRunning = "queue",
    origin: Origin = "manual",
) -> Decision:
    """A job now, with the payload merged over the schedule's; next_run_at and counters stay."""
    draft = Draft(schedule, now, shared)
    verdict = overlap(draft.state, if_running, draft.plan.definition.queue_limit)
    if verdict not in ("go", "cancel"):
        return draft.decision()
    if verdict == "cancel":
        draft.cancel_own("overlap", running=True)
    state = draft.state
    number = state.fire_count + 1
    slot_at = now
    draft.jobs.append(
        NewJob(
            job_id(state.uid, number, 0),
            number,
            0,
            origin,
            slot_at,
            now,
            is_ready=is_ready(state, draft.plan.definition.if_running, None),
            payload=None if payload is None else _merged(draft.plan.definition.payload, payload),
        )
    )
    draft.state = draft.state._replace(fire_count=number, outstanding=draft.state.outstanding + 1)
    capacity = draft.plan.definition.capacity
    if capacity is not None:
        shared.move(capacity.key, outstanding=1)
    return draft.decision()


def _merged(base: str, payload: Mapping[str, Any]) -> str:
    return json.dumps({**json.loads(base), **payload})
