"""An worker runtime: everwhen in a process that others start, a queue's worker or somebody's program.

It finds the configuration as the commands do: the file that EVERWHEN_CONFIG names, else `everwhen.yaml` in the working
directory, and the environment. Of a file with mistakes it takes what is sound, if only the settings are: refusing its
schedules is for whoever applies them.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from everwhen.clock import SystemClock, local_zone_name
from everwhen.config.file_workflows import FileWorkflows
from everwhen.config.problems import Report
from everwhen.config.read import Configuration, Host, examine
from everwhen.config.settings import Settings
from everwhen.engine.job_runner import JobRunner
from everwhen.model.instants import SECOND
from everwhen.ports.runtime import Runtime
from everwhen.target_registry import TargetRegistry, open_target_registry
from everwhen.wiring import Stack, open_node_stack


@dataclass
class WorkerRuntime:
    """The database and the settings; what jobs need is put together when there are any."""

    stack: Stack
    configuration: Configuration

    @property
    def runtime(self) -> Runtime:
        return self.stack.runtime

    @property
    def settings(self) -> Settings:
        return self.configuration.settings

    @cached_property
    def target_registry(self) -> TargetRegistry:
        return open_target_registry(
            self.runtime,
            plugin_dirs=self.configuration.plugin_dirs,
            workflows=FileWorkflows(self.configuration, found_configuration),
            max_workers=1,
            allow_private_urls=self.configuration.allows_private_urls,
        )

    def job_runner(self) -> JobRunner:
        """Who runs jobs here, one after another."""
        return JobRunner(
            self.runtime,
            self.target_registry.targets,
            lease=self.settings.lease,
            name=self.settings.name,
            greet=self.target_registry.greet,
            when_cut_off=self.settings.when_cut_off,
        )

    def close(self) -> None:
        self.stack.close()


def open_worker_runtime(database: str | None = None) -> WorkerRuntime:
    """On this database, or on the one that the configuration names; it has to be there."""
    configuration = found_configuration()
    settings = configuration.settings
    stack = open_node_stack(
        database or settings.database,
        timezone=settings.timezone,
        catch_up_stagger=int(settings.catch_up_stagger * SECOND),
        is_existing=True,
    )
    return WorkerRuntime(stack, configuration)


def found_configuration() -> Configuration:
    """What the file and the environment say. No plugin is asked, no function imported."""
    path, report = Path(os.environ.get("EVERWHEN_CONFIG", "everwhen.yaml")), Report()
    found = examine(path, Host(os.environ, local_zone_name, SystemClock().now()), report)
    if "EVERWHEN_CONFIG" in os.environ or path.exists():
        report.refuse("service")
    return found
