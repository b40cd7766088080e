"""The workflows of the file in force."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from everwhen.config.files import Stamp, stamp_of
from everwhen.config.read import Configuration
from everwhen.errors import ConfigError
from everwhen.model.workflow import Workflow


class FileWorkflows:
    """Workflows by id, as targets look them up.

    A job may be ahead of this node: another process has loaded a file with a new workflow, and its first job is here
    already. So for an unknown workflow the file is read again if it has changed.
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
            with suppress(ConfigError):  # the reload reports it
                self.take(self._read())
            found = self._workflows.get(workflow_id)
        return found


def _stamps(configuration: Configuration) -> dict[Path, Stamp | None]:
    """Return the stamp of each file that was read, and of each directory in which another may appear."""
    if not configuration.files:
        return {}
    places = [*configuration.stamps, *configuration.directories]
    return {path: stamp_of(path) for path in places}
