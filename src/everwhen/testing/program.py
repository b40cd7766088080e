"""The scheduler of a program inside a test: its declarations, and real calls of its functions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from concurrent.futures import ThreadPoolExecutor

from everwhen.engine.running import run_of
from everwhen.model.claim import ClaimedJob
from everwhen.model.outcome import Outcome
from everwhen.runtime import Runtime
from everwhen.scheduler.scheduler import Scheduler
from everwhen.target_registry import open_target_registry


class Program:
    """The scheduler of a program. A test really calls its functions; commands, requests and so on only succeed."""

    def __init__(self, scheduler: Scheduler, runtime: Runtime) -> None:
        self.scheduler = scheduler
        self.queues = scheduler.queues
        self._target_registry = open_target_registry(
            runtime, functions=scheduler.functions, on_trigger=scheduler.on_trigger, max_workers=1
        )
        scheduler.declare_on(runtime)

    def runs(self, claimed: ClaimedJob) -> bool:
        """Return whether the program itself runs the job."""
        kind = claimed.definition.target.kind
        is_ours = claimed.definition.queue in self.queues
        return is_ours and (kind == "python" or (kind == "agent" and self._target_registry.has_host))

    def run(self, claimed: ClaimedJob) -> Outcome:
        """Run the function and return its outcome; on a thread, because the test may itself run on an event loop."""
        target = claimed.definition.target
        work = self._target_registry.targets[target.kind].run(target.spec, run_of(claimed))
        assert isinstance(work, Awaitable)
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(asyncio.run, _outcome(work)).result()


async def _outcome(work: Awaitable[Outcome]) -> Outcome:
    return await work
