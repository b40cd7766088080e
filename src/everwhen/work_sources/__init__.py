"""Work sources of agents: one adapter for each kind of source."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from everwhen.model.work_item import OpenWorkSource, WorkSource
from everwhen.work_sources.command import open_command
from everwhen.work_sources.directory import open_directory

# The kinds of work sources: those of this package, and the entry points of the group `everwhen.work_sources`.
#
# An entry point is called with the fields of the source (`{type: …, …}`) and returns the source. It is loaded
# when the first source of its kind is opened.


GROUP = "everwhen.work_sources"


def installed_sources(*, also: Mapping[str, str] | None = None) -> dict[str, OpenWorkSource]:
    """Return the function that opens each kind. Built-in kinds cannot be replaced.

    `also` holds environment variables for the programs of command sources.
    """
    brought = sorted(entry_points(group=GROUP), key=lambda entry: entry.value, reverse=True)
    return {
        **{entry.name: partial(_open, entry) for entry in brought},
        "directory": open_directory,
        "command": partial(open_command, also=also),
    }


def _open(entry: EntryPoint, fields: Mapping[str, Any]) -> WorkSource:
    source: WorkSource = entry.load()(fields)
    return source
