"""What a node needs of the configuration beside its schedules: plugins, workflows, and who gets messages."""

from __future__ import annotations

from collections.abc import Sequence

import click

from everwhen.config.read import Configuration
from everwhen.config.settings import Settings
from everwhen.ports.subscriber import Subscriber
from everwhen.ports.workflows import Workflow
from everwhen.wiring import Stack, http_subscriber
from everwhen.workshop import Workshop, open_workshop


class FileWorkflows:
    """The workflows of the file that is in force."""

    def __init__(self) -> None:
        self._workflows: dict[str, Workflow] = {}

    def take(self, workflows: Sequence[Workflow]) -> None:
        self._workflows = {workflow.workflow_id: workflow for workflow in workflows}

    def find(self, workflow_id: str) -> Workflow | None:
        return self._workflows.get(workflow_id)


class Equipment:
    """Made once from a configuration; `take` brings it to the next one as far as that can be done while it runs."""

    def __init__(self, stack: Stack, configuration: Configuration | None, settings: Settings) -> None:
        self._current = configuration or Configuration()
        self._workflows = FileWorkflows()
        self._workflows.take(self._current.workflows)
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

    def take(self, configuration: Configuration) -> None:
        """A new configuration is in force."""
        self._workflows.take(configuration.workflows)
        for what, before, after in (
            ("plugin_dirs", self._current.plugin_dirs, configuration.plugin_dirs),
            (
                "api.allow_private_urls",
                _allows_private_urls(self._current),
                _allows_private_urls(configuration),
            ),
            ("messages", self._current.sections.get("messages"), configuration.sections.get("messages")),
        ):
            if before != after:
                click.secho(f"{what} changed: it takes effect at the next start", err=True, fg="yellow")
        self._current = configuration


def _allows_private_urls(configuration: Configuration) -> bool:
    return bool((configuration.sections.get("api") or {}).get("allow_private_urls"))
