"""What a program gets for a job: its state as a value, and a handle that waits for its end."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from everwhen.model.instants import optional_datetime, to_datetime
from everwhen.model.job import Job, JobStatus, Origin
from everwhen.model.reasons import SkipReason

_FIRST_LOOK, _LONGEST_PAUSE = 0.005, 0.25  # seconds


@dataclass(frozen=True, slots=True)
class JobInfo:
    """Where a job stands."""

    job_id: str
    schedule_id: str
    status: JobStatus
    origin: Origin
    slot_at: datetime
    due_at: datetime
    attempt: int
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    result: Any
    error: str | None  # with its traceback, where it is an exception
    error_type: str | None = None  # of that exception, such as `ValueError`
    error_message: str | None = None  # the error without type and traceback

    @property
    def id(self) -> str:
        """Return the id of the job, which is `job_id` everywhere else."""
        return self.job_id

    @property
    def is_ended(self) -> bool:
        """Return whether the job has ended, in whichever way."""
        return self.status not in ("queued", "running")


@dataclass(frozen=True, slots=True)
class JobResult:
    """How a job ended; `skipped`, with its reason, where the request made none.

    `result` is the object or the list that a function returned, and the text of anything else.
    """

    status: JobStatus | str
    result: Any = None
    error: str | None = None
    skip_reason: SkipReason | None = None
    error_type: str | None = None
    error_message: str | None = None

    @property
    def is_success(self) -> bool:
        """Return whether the job succeeded."""
        return self.status == "succeeded"


class JobHandle:
    """A job that was requested: ask for its state, or wait until it has ended."""

    def __init__(
        self, look: Callable[[str], JobInfo], job_id: str | None, skip_reason: SkipReason | None = None
    ) -> None:
        self._look = look
        self.job_id = job_id
        self.skip_reason = skip_reason

    def __repr__(self) -> str:
        return f"<JobHandle {self.job_id or f'skipped: {self.skip_reason}'}>"

    @property
    def is_skipped(self) -> bool:
        """Return whether there is no job, because of `skip_reason`."""
        return self.job_id is None

    @property
    def status(self) -> str:
        """Return the current status of the job; `skipped` where there is none."""
        return "skipped" if self.job_id is None else self._look(self.job_id).status

    @property
    def result(self) -> Any:
        """Return the object or the list that the function returned, else its result as text; None before its end."""
        return None if self.job_id is None else self._look(self.job_id).result

    @property
    def error(self) -> str | None:
        """Return why the job failed; None before its end, and after a success."""
        return None if self.job_id is None else self._look(self.job_id).error

    def wait(self, timeout: float | None = None) -> JobResult:
        """Wait until the job has ended; TimeoutError when it has not by then. A process must run it meanwhile."""
        deadline = None if timeout is None else time.monotonic() + timeout
        for pause in pauses():
            if (found := self.ended()) is not None:
                return found
            rest = pause if deadline is None else min(pause, deadline - time.monotonic())
            if rest <= 0:
                raise TimeoutError(f"job {self.job_id} has not ended within {timeout:g}s")
            time.sleep(rest)
        raise AssertionError("pauses never end")

    def ended(self) -> JobResult | None:
        """Return how it ended; None while it is queued or runs."""
        if self.job_id is None:
            return JobResult("skipped", skip_reason=self.skip_reason)
        job = self._look(self.job_id)
        if not job.is_ended:
            return None
        return JobResult(
            job.status, job.result, job.error, error_type=job.error_type, error_message=job.error_message
        )


def pauses() -> Iterator[float]:
    """Yield the seconds between two looks at a job: few at first, for work that is short."""
    pause = _FIRST_LOOK
    while True:
        yield pause
        pause = min(2 * pause, _LONGEST_PAUSE)


def job_info(job: Job) -> JobInfo:
    return JobInfo(
        job_id=job.job_id,
        schedule_id=job.schedule_id,
        status=job.status,
        origin=job.origin,
        slot_at=to_datetime(job.slot_at),
        due_at=to_datetime(job.due_at),
        attempt=job.attempt,
        created_at=to_datetime(job.created_at),
        started_at=optional_datetime(job.started_at),
        ended_at=optional_datetime(job.ended_at),
        result=json.loads(job.result) if job.is_result_json and job.result else job.result,
        error=job.error,
        error_type=job.error_type,
        error_message=job.error_message,
    )
