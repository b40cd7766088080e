"""A node stepped by hand that really runs what its schedules say."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

from everwhen.engine.running import run_of
from everwhen.model.claim import ClaimedJob
from everwhen.model.outcome import Outcome
from everwhen.target_registry import TargetRegistry, open_target_registry
from everwhen.targets.workflow import WorkflowRegistry
from everwhen.testing import ManualScheduler, manual_scheduler


class WorkingNode:
    """Jobs run for real, in no time of the node's clock."""

    def __init__(self, *, plugin_dirs: tuple[Path, ...] = ()) -> None:
        self.workflows = WorkflowRegistry()
        self.scheduler: ManualScheduler = manual_scheduler("2026-01-05T08:00:00Z", outcome=self.run)
        self.target_registry = open_target_registry(
            self.scheduler.runtime, plugin_dirs=plugin_dirs, workflows=self.workflows
        )

    def run(self, claimed: ClaimedJob) -> Outcome:
        return run_really(self.target_registry, claimed)

    def close(self) -> None:
        assert self.scheduler.check().is_clean
        self.scheduler.stack.close()


def run_really(
    target_registry: TargetRegistry,
    claimed: ClaimedJob,
    wait_for: Callable[[Coroutine[Any, Any, Outcome]], Outcome] = asyncio.run,
) -> Outcome:
    """What a worker would do with the job, to its end."""
    target = target_registry.targets[claimed.definition.target.kind]
    work = target.run(claimed.definition.target.spec, run_of(claimed))
    return wait_for(_wait_for(work)) if isinstance(work, Awaitable) else work


async def _wait_for(work: Awaitable[Outcome]) -> Outcome:
    return await work
