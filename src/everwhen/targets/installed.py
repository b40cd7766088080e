"""Targets of other packages: entry points of the group `everwhen.targets`, named by their kind.

An entry point is called without arguments and returns a target. One that cannot be loaded still exists, and reports
its fault to every job that needs it; so the rest of the node keeps running. Only its package knows what a target does
with the fields of a schedule, so it counts as one that runs code unless it sets `runs_code = False`.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points

from everwhen.model.outcome import Outcome, drifted
from everwhen.ports.target import Run, Target

GROUP = "everwhen.targets"

log = logging.getLogger("everwhen")


@dataclass(frozen=True, slots=True)
class Unloadable:
    """A placeholder for a target whose package is broken."""

    kind: str
    fault: str

    async def run(self, spec: str, run: Run) -> Outcome:
        return drifted(f'the target "{self.kind}" cannot be loaded: {self.fault}')


def installed_targets() -> dict[str, Target]:
    """Return the installed targets by kind; of two packages with the same kind the first by name is used."""
    found: dict[str, Target] = {}
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: (entry.name, entry.value)):
        if entry.name in found:
            log.warning(
                "target %s of %s is installed twice; this one is passed over", entry.name, entry.value
            )
            continue
        found[entry.name] = _load(entry)
    return found


def safe_kinds() -> frozenset[str]:
    """Return the installed kinds whose targets declare that they run no code of the submitter of a schedule."""
    installed = installed_targets().items()
    return frozenset(kind for kind, target in installed if getattr(target, "runs_code", True) is False)


def _load(entry: EntryPoint) -> Target:
    try:
        target: Target = entry.load()()
        if not callable(getattr(target, "run", None)):
            return Unloadable(entry.name, f"{entry.value} has no run")
        return target
    except Exception as error:  # third-party code, during its import
        log.warning("target %s cannot be loaded", entry.name, exc_info=True)
        return Unloadable(entry.name, f"{type(error).__name__}: {error}")
