"""Running a target as the worker does: on a loop, told to end when its time is up or somebody cancels it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from everwhen.engine.running import Running
from everwhen.model.claim import ClaimedJob
from everwhen.model.outcome import Outcome
from everwhen.target import Nowhere, Output, Run, Stream, Target

PATIENCE = 60.0


class Kept:
    """Output that a test looks at."""

    def __init__(self) -> None:
        self.pieces: list[tuple[Stream, bytes]] = []

    def write(self, stream: Stream, data: bytes, /) -> None:
        self.pieces.append((stream, data))

    def text(self, stream: Stream = "stdout") -> str:
        return b"".join(data for name, data in self.pieces if name == stream).decode()


def a_run(seconds: float | None = PATIENCE, *, output: Output | None = None, **payload: Any) -> Run:
    return Run(
        job_id="sched-abc-n1-rc0",
        schedule_id="backup",
        schedule_name="Backup",
        slot_at=1_767_600_000_000_000,
        attempt=1,
        origin="schedule",
        repeat_number=0,
        payload=payload,
        deadline_at=None,
        seconds_left=seconds,
        output=output or Nowhere(),
    )


def perform(
    target: Target,
    spec: dict[str, Any],
    run: Run | None = None,
    *,
    cancel_when: Callable[[], bool] | None = None,
    late_when: Callable[[], bool] | None = None,
) -> Outcome:
    """What comes of it. As soon as `cancel_when` is true, somebody cancels the job; with `late_when` its time is up."""
    return asyncio.run(_perform(target, json.dumps(spec), run or a_run(), cancel_when, late_when))


async def _perform(
    target: Target,
    spec: str,
    run: Run,
    cancel_when: Callable[[], bool] | None,
    late_when: Callable[[], bool] | None,
) -> Outcome:
    loop = asyncio.get_running_loop()
    running = Running(_unclaimed(), run)
    running.task = loop.create_task(target.run(spec, run))  # type: ignore[arg-type]
    if late_when is not None:
        await until_async(late_when)
        running.end("timed_out")
    elif run.seconds_left is not None:
        running.timer = loop.call_later(run.seconds_left, running.end, "timed_out")
    if cancel_when is not None:
        await until_async(cancel_when)
        running.end("cancelled")
    await asyncio.wait({running.task})
    if running.timer is not None:
        running.timer.cancel()
    return running.outcome()


def _unclaimed() -> ClaimedJob:
    return None  # type: ignore[return-value]  # only the worker looks at the claim


async def until_async(condition: Callable[[], bool], seconds: float = PATIENCE) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come about in time"
        await asyncio.sleep(0.005)


def until(condition: Callable[[], bool], seconds: float = PATIENCE) -> None:
    asyncio.run(until_async(condition, seconds))


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and is not waited for does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def is_written(path: Path) -> bool:
    """Whether a whole line is in a file; one that exists may still be empty."""
    return path.exists() and path.read_text().endswith("\n")


def pid_in(path: Path) -> int:
    until(lambda: is_written(path))
    return int(path.read_text())


def open_descriptors() -> list[str]:
    """What this process has open, without the folder that is being looked at."""
    return sorted(str(entry.readlink()) for entry in Path("/proc/self/fd").iterdir() if entry.exists())


def children() -> set[int]:
    """The processes that this one has started and not waited for yet, whether they live or not."""
    listed = Path("/proc/self/task").glob("*/children")
    return {int(pid) for threads in listed for pid in threads.read_text().split()}
