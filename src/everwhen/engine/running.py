"""One job that this node runs: its task on the loop, its deadline, and the reason why it is ended."""

from __future__ import annotations

import asyncio
import json
import traceback
from dataclasses import dataclass, field
from typing import Any, Literal

from everwhen.model.claim import ClaimedJob, Held
from everwhen.model.outcome import Outcome
from everwhen.target import Nowhere, Output, Run, StopFlag

# `abandoned`: the node stops and gives up its lease; the node that runs the job again reports its outcome.
# `superseded`: the job was rescued while this node was considered dead, and then claimed by it again.
# `cut_off`: the node cannot renew its lease, and is configured to end its work then.
Ending = Literal["timed_out", "cancelled", "abandoned", "superseded", "cut_off"]
TRACEBACK_LIMIT = 20
_ENDINGS = {
    "cancelled": "cancelled",
    "abandoned": "cancelled",
    "superseded": "superseded: its node was taken for dead, and the job is run again",
}


@dataclass(slots=True, eq=False)
class Running:
    """A running job. It is ended once: the first reason counts. Owned by the loop's thread; others read `is_over`."""

    claimed: ClaimedJob
    run: Run
    task: asyncio.Task[Outcome] | None = None
    timer: asyncio.TimerHandle | None = None
    ending: Ending | None = None
    is_over: bool = False
    before: list[Running] = field(default_factory=list)  # older copies of the same job: have to end first

    @property
    def held(self) -> Held:
        return self.claimed.job.job_id, self.claimed.job.fence

    def end(self, ending: Ending) -> None:
        """Cancel the task; a task that has not begun yet is cancelled as soon as it does."""
        if self.ending is None and not (self.task and self.task.done()):
            self.ending = ending
            self.run.cancelled.set()
            if self.task is not None:
                self.task.cancel()

    @property
    def is_left_behind(self) -> bool:
        """Return whether work of this run continues although the run has ended."""
        return any(not work.done() for work in self.run.still_running)

    def outcome(self) -> Outcome:
        """Return the outcome of the run, whatever the target did."""
        assert self.task is not None
        reported = _reported(self.task)
        if self.ending is None:
            return reported
        if self.ending == "cut_off":
            return Outcome("lost", error="its node could not renew its lease")
        seconds = self.run.seconds_left
        said = f"timed out after {seconds:g}s" if self.ending == "timed_out" else _ENDINGS[self.ending]
        error = f"{said}: {reported.error}" if reported.error else said
        return Outcome("timed_out" if self.ending == "timed_out" else "cancelled", error=error)


def _reported(task: asyncio.Task[Outcome]) -> Outcome:
    if task.cancelled():
        return Outcome("failed", error="")
    error = task.exception()
    if error is not None:
        return failed_by(error)
    outcome: object = task.result()
    if isinstance(outcome, Outcome):
        return outcome
    return Outcome(
        "failed", error=f"the target returned {type(outcome).__name__}, not an outcome", is_final=True
    )


def failed_by(error: BaseException) -> Outcome:
    """Turn an exception of a target into an outcome: this is the worker boundary."""
    return Outcome("failed", error="".join(traceback.format_exception(error, limit=TRACEBACK_LIMIT)).strip())


def run_of(claimed: ClaimedJob, output: Output | None = None, stopping: StopFlag | None = None) -> Run:
    job, definition = claimed.job, claimed.definition
    return Run(
        job_id=job.job_id,
        schedule_id=job.schedule_id,
        schedule_name=claimed.schedule_name or job.schedule_id,
        slot_at=job.slot_at,
        attempt=job.attempt,
        origin=job.origin,
        repeat_number=claimed.repeat_number,
        payload=_payload(job.payload or definition.payload),
        deadline_at=job.deadline_at,
        seconds_left=None if definition.timeout is None else definition.timeout / 1_000_000,
        owner=definition.owner,
        stopping=stopping or StopFlag(),
        output=output or Nowhere(),
    )


def _payload(text: str) -> dict[str, Any]:
    if text == "{}":  # the usual case
        return {}
    payload: dict[str, Any] = json.loads(text)
    return payload
