"""What a node needs of the configuration beside its schedules: plugins, workflows, and who gets messages."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import click

from everwhen.config.files import Stamp, stamp_of
from everwhen.config.read import Configuration
from everwhen.config.settings import Settings
from everwhen.errors import ConfigError
from everwhen.operations.validity import restore_valid_schedules
from everwhen.ports.subscriber import Subscriber
from everwhen.ports.workflows import Workflow
from everwhen.wiring import Stack, http_subscriber
from everwhen.workshop import Workshop, open_workshop


class FileWorkflows:
    """The workflows of the file that is in force.

    A job may be ahead of this node: another process has loaded a file with a new workflow, and its first job is here
    already. So for a workflow that is unknown the file is looked at again, when it has changed.
    """

    def __init__(self, current: Configuration, read: Callable[[], Configuration] | None) -> None:
        self._read = read
        self.take(current)

    def take(self, configuration: Configuration) -> None:
        self._workflows = {workflow.workflow_id: workflow for workflow in configuration.workflows}
        self._read_from = configuration
        self._tried = _stamps(configuration)

    def find(self, workflow_id: str) -> Workflow | None:
        found = self._workflows.get(workflow_id)
        stamps = _stamps(self._read_from) if found is None else self._tried
        if self._read is not None and stamps != self._tried:
            self._tried = stamps
            with suppress(ConfigError):  # the reload says it
                self.take(self._read())
            found = self._workflows.get(workflow_id)
        return found


def _stamps(configuration: Configuration) -> dict[Path, Stamp | None]:
    """Which content of each file was read, and of each directory in which another may come to be."""
    if not configuration.files:
        return {}
    places = [*configuration.stamps, *configuration.directories]
    return {path: stamp_of(path) for path in places}


class Equipment:
    """Made once from a configuration; `take` brings it to the next one as far as that can be done while it runs."""

    def __init__(
        self,
        stack: Stack,
        configuration: Configuration | None,
        settings: Settings,
        read: Callable[[], Configuration] | None = None,
    ) -> None:
        self._house = stack.house
        self._current = configuration or Configuration()
        self._workflows = FileWorkflows(self._current, read)
        self.workshop: Workshop = open_workshop(
            stack.house,
            plugin_dirs=self._current.plugin_dirs,
            workflows=self._workflows,
            max_workers=settings.max_workers,
            allow_private_urls=_allows_private_urls(self._current),
        )
        self.subscribers: list[Subscriber] = [
            http_subscriber(stack, one["id"], one["http"])
            for one in (self._current.sections.get("messages") or {}).get("subscribers", ())
        ]

    @property
    def configuration(self) -> Configuration:
        """The one in force."""
        return self._current

    def take(self, configuration: Configuration) -> None:
        """A new configuration is in force; what could not run and can run now goes on (R7)."""
        self._workflows.take(configuration)
        restore_valid_schedules(self._house, self.workshop.fault_of)
        for what, before, after in (
            ("plugin_dirs", self._current.plugin_dirs, configuration.plugin_dirs),
            ("messages", self._current.sections.get("messages"), configuration.sections.get("messages")),
            ("api", self._current.sections.get("api"), configuration.sections.get("api")),
        ):
            if before != after:
                click.secho(f"{what} changed: it takes effect at the next start", err=True, fg="yellow")
        self._current = configuration


def _allows_private_urls(configuration: Configuration) -> bool:
    return bool((configuration.sections.get("api") or {}).get("allow_private_urls"))
