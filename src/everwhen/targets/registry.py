"""The runners of a node: for every kind of `model.target_kinds` the target that its module makes.

A target may have `fault_of(schedule_id, definition)`: why it cannot run a schedule here, or None when it can.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module

from everwhen.model.schedule import Definition
from everwhen.model.target_kinds import KINDS, TargetKind
from everwhen.target import Target
from everwhen.targets.resources import Resources

MakeTarget = Callable[[Resources], Target]


def make_targets(resources: Resources, installed: Mapping[str, Target]) -> dict[str, Target]:
    """Return the targets by kind; those of this package replace installed ones of the same name."""
    resources.targets.update(installed)
    for kind in KINDS.values():
        make = maker_of(kind)
        if make is not None:
            resources.targets[kind.name] = make(resources)
    return resources.targets


def maker_of(kind: TargetKind) -> MakeTarget | None:
    """Import the function that makes the target of a kind; None when no worker runs that kind."""
    if kind.runner is None:
        return None
    module, _, function = kind.runner.partition(":")
    make: MakeTarget = getattr(import_module(module), function)
    return make


def fault_of(targets: Mapping[str, Target], schedule_id: str, definition: Definition) -> str | None:
    """Return why these targets cannot run a schedule; None when they can (R7)."""
    kind = definition.target.kind
    if kind in KINDS and KINDS[kind].runner is None:
        return None
    target = targets.get(kind)
    if target is None:
        return f'no target of kind "{kind}" on this node'
    find: Callable[[str, Definition], str | None] | None = getattr(target, "fault_of", None)
    if find is None:
        return None
    try:
        return find(schedule_id, definition)
    except Exception as error:
        if kind in KINDS:
            raise
        return f'the check of target "{kind}" failed: {type(error).__name__}: {error}'  # another package's mistake
