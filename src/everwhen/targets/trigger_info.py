"""The argument of `on_trigger(info)` for a host that runs schedules itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from everwhen.model.work_item import WorkItem
from everwhen.targets.python_run import Cancelled, PythonRun

TriggerCallback = Callable[["TriggerInfo"], Any]


class TriggerMetadata(NamedTuple):
    """A short description of the run."""

    job_id: str
    origin: str
    slot_at: datetime
    attempt: int
    repeat_number: int


@dataclass(frozen=True, slots=True)
class TriggerInfo:
    """One run for the host to perform; when the callback returns the job has succeeded, when it raises it failed.

    `agent` is None for a schedule that belongs to no agent. The prompt contains the work item's description, if there
    is an item; the item is claimed, and completed or released when the callback is over.
    """

    agent: str | None
    schedule_name: str
    prompt: str
    run: PythonRun
    work_item: WorkItem | None = None

    @property
    def schedule_id(self) -> str:
        return self.run.schedule_id

    @property
    def job_id(self) -> str:
        return self.run.job_id

    @property
    def slot_at(self) -> datetime:
        return self.run.slot_at

    @property
    def payload(self) -> dict[str, Any]:
        return self.run.payload

    @property
    def cancelled(self) -> Cancelled:
        return self.run.cancelled

    @property
    def metadata(self) -> TriggerMetadata:
        run = self.run
        return TriggerMetadata(run.job_id, run.origin, run.slot_at, run.attempt, run.repeat_number)


SchedulerTriggerCallback = Callable[[TriggerInfo], object]
"""`on_trigger(info)`, plain or async: its return value settles the job, an exception fails it."""
