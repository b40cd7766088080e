"""A worker runtime: everwhen in a process that it did not start, such as a queue's worker or the user's program.

It finds the configuration as the commands do: the file that EVERWHEN_CONFIG names, else `everwhen.yaml` in the
working directory, and the environment. From a file with mistakes it takes the valid parts, provided that the settings
are valid: refusing the schedules is the task of the command that applies them.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from everwhen.clock import SystemClock, local_zone_name
from everwhen.config.problems import Report
from everwhen.config.read import Configuration, FileWorkflows, Host, examine
from everwhen.config.settings import Settings
from everwhen.engine.job_runner import JobRunner
from everwhen.model.instants import SECOND
from everwhen.model.variables import CONFIG
from everwhen.runtime import Runtime
from everwhen.target_registry import TargetRegistry, open_target_registry
from everwhen.wiring import Stack, open_node_stack


@dataclass
class WorkerRuntime:
    """The database and the settings; the target registry is created when there are jobs."""

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
        """Create the runner that runs jobs here, one after another."""
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
    """Open this database, or the one that the configuration names; it has to exist."""
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
    """Read the file and the environment, without reading plugins or importing functions."""
    path, report = Path(os.environ.get(CONFIG, "everwhen.yaml")), Report()
    found = examine(path, Host(os.environ, local_zone_name, SystemClock().now()), report)
    if CONFIG in os.environ or path.exists():
        report.refuse("service")
    return found
