"""The scheduler of a program, taken on by a test: its declarations, and its functions called for real."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from concurrent.futures import ThreadPoolExecutor

from everwhen.engine.running import run_of
from everwhen.model.claim import ClaimedJob
from everwhen.model.outcome import Outcome
from everwhen.ports.runtime import Runtime
from everwhen.scheduler.scheduler import Scheduler
from everwhen.target_registry import open_target_registry


class Program:
    """Commands, requests and the like are not made in a test: they succeed."""

    def __init__(self, scheduler: Scheduler, runtime: Runtime) -> None:
        self.scheduler = scheduler
        self.queues = scheduler.queues
        self._target_registry = open_target_registry(
            runtime, functions=scheduler.functions, on_trigger=scheduler.on_trigger, max_workers=1
        )
        scheduler.declare_on(runtime)

    def runs(self, claimed: ClaimedJob) -> bool:
        """Whether the program itself is what runs it."""
        kind = claimed.definition.target.kind
        is_ours = claimed.definition.queue in self.queues
        return is_ours and (kind == "python" or (kind == "agent" and self._target_registry.has_host))

    def run(self, claimed: ClaimedJob) -> Outcome:
        """What its function comes to; on a thread, because the test may itself run on an event loop."""
        target = claimed.definition.target
        work = self._target_registry.targets[target.kind].run(target.spec, run_of(claimed))
        assert isinstance(work, Awaitable)
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(asyncio.run, _outcome(work)).result()


async def _outcome(work: Awaitable[Outcome]) -> Outcome:
    return await work
