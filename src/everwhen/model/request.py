"""Requests that a program writes inside its own transaction, and that a node carries out after the commit."""

from __future__ import annotations

from typing import Literal, NamedTuple

from everwhen.model.instants import DAY

RequestAction = Literal["add", "update", "trigger", "remove"]
RequestStatus = Literal["waiting", "done", "refused"]

REQUESTS_KEPT = DAY  # after they were carried out or refused: handles read the outcome from the row


class Request(NamedTuple):
    """One row of `requests`. `body` is JSON; `job_id` and `reason` (of a skip) are the outcome of a trigger."""

    id: int
    request_id: str
    action: RequestAction
    schedule_id: str
    body: str
    actor: str | None
    created_at: int
    status: RequestStatus = "waiting"
    ended_at: int | None = None
    job_id: str | None = None
    reason: str | None = None
    error: str | None = None
