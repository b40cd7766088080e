"""A real API on a database file and, on the same file, a node that is stepped by hand and really runs its jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from everwhen.model.claim import ClaimedJob
from everwhen.model.outcome import Outcome
from everwhen.target_registry import open_target_registry
from everwhen.targets.workflow import WorkflowRegistry
from everwhen.testing import ManualClock, ManualScheduler
from tests.api.serving import Client, Service, configuration_of, serving
from tests.rows.node import run_really


@dataclass(frozen=True, slots=True)
class ServedNode:
    """What people ask over HTTP, and the scheduler that they do not share a connection with."""

    service: Service
    scheduler: ManualScheduler

    @property
    def admin(self) -> Client:
        return self.service.admin

    def create(self, body: dict[str, Any]) -> dict[str, Any]:
        answer = self.admin.post("/schedules/", body)
        assert answer.status == 201, answer.raw
        made: dict[str, Any] = answer.fields
        return made

    def schedule(self, schedule_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.admin.get(f"/schedules/{schedule_id}/").fields
        return found

    def jobs(self, schedule_id: str) -> list[dict[str, Any]]:
        """The jobs, oldest first."""
        found: list[dict[str, Any]] = self.admin.get(f"/jobs/?schedule_id={schedule_id}&limit=100").fields[
            "items"
        ]
        return found[::-1]

    def slots(self, schedule_id: str) -> list[str]:
        return [job["slot_at"] for job in self.jobs(schedule_id)]


@contextmanager
def served(folder: Path, *, file: str = "", start: str = "2026-01-05T08:00:00Z") -> Iterator[ServedNode]:
    """At the end every slot has its one entry."""
    clock = ManualClock(start)
    workflows = WorkflowRegistry()
    for workflow in configuration_of(folder, file).workflows:
        workflows.register(workflow)
    with serving(folder, file=file, clock=clock) as service, asyncio.Runner() as runner:
        scheduler = ManualScheduler(clock, database=f"sqlite:///{folder}/api.db")
        target_registry = open_target_registry(
            scheduler.runtime, workflows=workflows, plugin_dirs=[folder / "plugins"]
        )

        def run(claimed: ClaimedJob) -> Outcome:
            return run_really(target_registry, claimed, runner.run)

        scheduler.outcome = run
        try:
            yield ServedNode(service, scheduler)
            assert scheduler.check().is_clean
        finally:
            runner.run(_close(target_registry.targets["http"]))
            scheduler.close()


async def _close(target: Any) -> None:
    await target.close()
