"""What a node needs of the configuration besides its schedules: plugins, workflows, and subscribers of messages."""

from __future__ import annotations

from collections.abc import Callable

from everwhen.cli.terminal import secho
from everwhen.config.file_workflows import FileWorkflows
from everwhen.config.read import Configuration
from everwhen.config.settings import Settings
from everwhen.model.group import Groups
from everwhen.model.subscription import Subscriber
from everwhen.operations.groups import invalidate_unusable
from everwhen.operations.validity import restore_valid_schedules
from everwhen.target_registry import TargetRegistry, open_target_registry
from everwhen.wiring import Stack, http_subscriber


class NodeResources:
    """Plugins, workflows and subscribers of one node, created from a configuration.

    `take` switches to the next configuration, as far as that is possible while the node runs.
    """

    def __init__(
        self,
        stack: Stack,
        configuration: Configuration | None,
        settings: Settings,
        read: Callable[[], Configuration] | None = None,
    ) -> None:
        self._runtime = stack.runtime
        self._current = configuration or Configuration()
        self._workflows = FileWorkflows(self._current, read)
        self.target_registry: TargetRegistry = open_target_registry(
            stack.runtime,
            plugin_dirs=self._current.plugin_dirs,
            workflows=self._workflows,
            max_workers=settings.max_workers,
            allow_private_urls=self._current.allows_private_urls,
        )
        self.subscribers: list[Subscriber] = [
            http_subscriber(stack, one["id"], one["http"])
            for one in (self._current.sections.get("messages") or {}).get("subscribers", ())
        ]

    @property
    def configuration(self) -> Configuration:
        """Return the configuration in force."""
        return self._current

    def groups(self) -> Groups:
        """Return the groups of the configuration in force."""
        return self._current.groups

    def take(self, configuration: Configuration) -> None:
        """Put a new configuration in force; schedules that could not run and can run now continue (R7)."""
        self._workflows.take(configuration)
        invalidate_unusable(self._runtime, configuration.groups)
        restore_valid_schedules(self._runtime, self.target_registry.fault_of, lambda: configuration.groups)
        for what, before, after in (
            ("plugin_dirs", self._current.plugin_dirs, configuration.plugin_dirs),
            ("messages", self._current.sections.get("messages"), configuration.sections.get("messages")),
            ("api", self._current.sections.get("api"), configuration.sections.get("api")),
        ):
            if before != after:
                secho(f"{what} changed: it takes effect at the next start", err=True, fg="yellow")
        self._current = configuration
