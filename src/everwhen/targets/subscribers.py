"""Subscribers of messages: functions of this process, and servers over HTTP."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from everwhen.errors import SchedulerError
from everwhen.model.instants import instant_of
from everwhen.target import Run, Target

TIMEOUT = 30.0


@dataclass(frozen=True, slots=True)
class CallbackSubscriber:
    """Calls a function, plain or async, with each MessageEvent."""

    subscriber_id: str
    callback: Callable[[dict[str, Any]], Any]

    def deliver(self, event: dict[str, Any]) -> None:
        result = self.callback(event)
        if inspect.iscoroutine(result):
            asyncio.run(result)


@dataclass(frozen=True, slots=True)
class HttpSubscriber:
    """Posts each MessageEvent to a server, through the http target; without success the event is delivered again.

    `make_target` creates one for each delivery: the connections of a target belong to one event loop.
    """

    subscriber_id: str
    spec: Mapping[str, Any]
    make_target: Callable[[], Target]

    def deliver(self, event: dict[str, Any]) -> None:
        asyncio.run(self._post(event))

    async def _post(self, event: dict[str, Any]) -> None:
        target = self.make_target()
        spec = json.dumps({**self.spec, "body": event})
        try:
            outcome = await asyncio.wait_for(target.run(spec, _run_of(event)), TIMEOUT)  # type: ignore[arg-type]
        finally:
            close = getattr(target, "close", None)
            if close is not None:
                await close()
        if outcome.status != "succeeded":
            raise SchedulerError(outcome.error or outcome.status)


def _run_of(event: Mapping[str, Any]) -> Run:
    """Describe a delivery as a run for the http target: the event's id is the idempotency key."""
    connector = event["source"]["connector_id"]
    return Run(
        job_id=event["event_id"],
        schedule_id=connector,
        schedule_name=connector,
        slot_at=instant_of(datetime.fromisoformat(event["occurred_at"])),
        attempt=1,
        origin="schedule",
        repeat_number=0,
        payload={},
        deadline_at=None,
        seconds_left=TIMEOUT,
    )
