"""Kinds of targets of other packages: entry points of the group `everwhen.targets`, named by their kind.

An entry point is called without arguments and returns a target, which may also have

- `keys`: what `run: {KIND: {…}}` takes, as a JSON Schema or in short, `{"loft": "string"}`. Without it the kind takes
  any mapping, and only its jobs find mistakes.
- `runs_code = False`: it runs nothing of the submitter of a schedule. Only its package knows that, so a kind counts as
  code unless it says so.
- `fault_of(schedule_id, definition)`: why it cannot run a schedule here.

Names are read without importing anything; a package is imported when its kind is named, or when all are shown. One that
cannot be loaded still exists, and reports its fault to whoever needs it; so the rest of the node keeps running.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from everwhen.model.outcome import Outcome, drifted
from everwhen.model.payload import expand_schema, is_short, schema_fault
from everwhen.model.schedule import Definition
from everwhen.model.target_kinds import KEYS_OF_RUN

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from everwhen.target import Run, Target

GROUP = "everwhen.targets"

log = logging.getLogger("everwhen")


@dataclass(frozen=True, slots=True)
class Unloadable:
    """A placeholder for a target whose package is broken."""

    kind: str
    fault: str

    async def run(self, spec: str, run: Run) -> Outcome:
        return drifted(self.fault_of())

    def fault_of(self, schedule_id: str = "", definition: Definition | None = None) -> str:
        return f'the target "{self.kind}" cannot be loaded: {self.fault}'


@dataclass(frozen=True, slots=True)
class InstalledKind:
    """A kind as its package registers it; `fault`: why it cannot be loaded."""

    name: str
    package: str
    runs_code: bool = True
    schema: Mapping[str, Any] | None = None  # of its keys, a JSON Schema; None: any mapping
    fault: str | None = None


def installed_names() -> list[str]:
    """Return the names of the installed kinds; no package is imported."""
    return list(_entries(tuple(sys.path)))


def installed_kind(name: str) -> InstalledKind | None:
    """Return one installed kind, whose package is imported now; None when there is none of that name."""
    return _kind(name, tuple(sys.path)) if name in _entries(tuple(sys.path)) else None


def installed_kinds() -> list[InstalledKind]:
    """Return all installed kinds, whose packages are imported now."""
    return [_kind(name, tuple(sys.path)) for name in installed_names()]


def installed_targets() -> dict[str, Target]:
    """Return new targets of all installed kinds; of two packages with the same kind the first by name is used."""
    return {name: _load(entry) for name, entry in _entries(tuple(sys.path)).items()}


def safe_kinds() -> frozenset[str]:
    """Return the installed kinds whose targets declare that they run no code of the submitter of a schedule."""
    return frozenset(kind.name for kind in installed_kinds() if not kind.runs_code)


@lru_cache(maxsize=8)  # every look reads the metadata of all packages; where they are found is its key
def _entries(_path: tuple[str, ...]) -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points  # whoever reads a file that names none of them does without

    found: dict[str, EntryPoint] = {}
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: (entry.name, entry.value)):
        if entry.name in KEYS_OF_RUN:
            log.warning("target %s of %s has a name of everwhen; it is passed over", entry.name, entry.value)
        elif entry.name in found:
            log.warning(
                "target %s of %s is installed twice; this one is passed over", entry.name, entry.value
            )
        else:
            found[entry.name] = entry
    return found


@lru_cache(maxsize=64)
def _kind(name: str, path: tuple[str, ...]) -> InstalledKind:
    entry = _entries(path)[name]
    package = entry.dist.name if entry.dist is not None else entry.value
    target = _load(entry)
    if isinstance(target, Unloadable):
        return InstalledKind(name, package, fault=target.fault_of())
    try:
        schema = _schema_of(getattr(target, "keys", None))
    except (TypeError, ValueError) as error:
        log.warning("the keys of target %s of %s cannot be used: %s", name, package, error)
        return InstalledKind(name, package, fault=f'the keys of the target "{name}" cannot be used: {error}')
    return InstalledKind(name, package, getattr(target, "runs_code", True) is not False, schema)


def _schema_of(keys: Any) -> dict[str, Any] | None:
    """Return the JSON Schema; the short form names all keys, so that a misspelt one is found."""
    if keys is None:
        return None
    if not isinstance(keys, Mapping):
        raise TypeError("they are not a mapping")
    plain = json.loads(json.dumps(dict(keys), allow_nan=False))  # it becomes a part of documents
    schema = {**expand_schema(plain), **({"additionalProperties": False} if is_short(plain) else {})}
    fault = schema_fault(schema)
    if fault is not None:
        raise ValueError(fault)
    return schema


def _load(entry: EntryPoint) -> Target:
    try:
        target: Target = entry.load()()
        if not callable(getattr(target, "run", None)):
            return Unloadable(entry.name, f"{entry.value} has no run")
        return target
    except Exception as error:  # third-party code, during its import
        log.warning("target %s cannot be loaded", entry.name, exc_info=True)
        return Unloadable(entry.name, f"{type(error).__name__}: {error}")
