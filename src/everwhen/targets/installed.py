"""Targets that other packages bring: entry points of the group `everwhen.targets`, named by their kind.

An entry point is called without arguments and returns a target. One that cannot be loaded is there all the same,
and says so to every job that asks for it; so the rest of the node runs on. What a target does with the words of a
schedule only its package knows, so it counts as one that runs code unless it says `runs_code = False`.
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
    """Stands for a target whose package is broken."""

    kind: str
    fault: str

    async def run(self, spec: str, run: Run) -> Outcome:
        return drifted(f'the target "{self.kind}" cannot be loaded: {self.fault}')


def installed_targets() -> dict[str, Target]:
    """What is installed, by kind; of two packages that bring one kind the first by name is taken."""
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
    """The installed kinds whose targets say that they run no code of whoever submits a schedule."""
    installed = installed_targets().items()
    return frozenset(kind for kind, target in installed if getattr(target, "runs_code", True) is False)


def _load(entry: EntryPoint) -> Target:
    try:
        target: Target = entry.load()()
        if not callable(getattr(target, "run", None)):
            return Unloadable(entry.name, f"{entry.value} has no run")
        return target
    except Exception as error:  # other people's code, while it is imported
        log.warning("target %s cannot be loaded", entry.name, exc_info=True)
        return Unloadable(entry.name, f"{type(error).__name__}: {error}")
