"""The keys of `run`: their checks for every kind of target, and the conversion to the target that they name.

The same for files, REST and Python. `model.target_kinds` lists the kinds; `installed_kinds` finds those of other
packages, which are imported only when a schedule names them.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from json import JSONEncoder
from typing import Any

from everwhen.installed_kinds import InstalledKind, installed_kind, installed_names
from everwhen.model.kinds import MOST_UNKNOWN, Anything, Key, Kind, ListOf, Object, Record
from everwhen.model.payload import faults_in
from everwhen.model.scalars import CheckedValue, Flag, Number, Schema, Text, Word, spelled, unknown
from everwhen.model.target_kinds import KEYS_OF_RUN, KINDS, Keys, Target, TargetKey, ValueType
from everwhen.model.values import (
    ARGV,
    DURATION,
    ENVIRONMENT,
    HEADERS,
    MOST_PAYLOAD,
    NAME_TEXT,
    URL,
    WORKFLOW_ID,
)

_VALUES: dict[ValueType, Kind] = {
    "anything": Anything(),
    "argv": ARGV,
    "duration": DURATION,
    "environment": ENVIRONMENT,
    "flag": Flag(),
    "function": Text("module:function", r"[\w.]+:[\w.]+", "must name a function"),
    "headers": HEADERS,
    "list": ListOf(Anything()),
    "name": NAME_TEXT,
    "number": Number(),
    "object": Object(MOST_PAYLOAD),
    "text": Text(),
    "url": URL,
    "workflow_id": WORKFLOW_ID,
}


def _record(keys: Keys) -> Record:
    return Record({name: _key(key) for name, key in keys.items()})


def _key(key: TargetKey) -> Key:
    return Key(_value(key), key.about, key.default, is_required=key.is_required)


def _value(key: TargetKey) -> Kind:
    if isinstance(key.type, tuple):
        return Word(key.type)
    return Text(str(key.default)) if key.type == "text" and key.default else _VALUES[key.type]


TARGET_KEYS: dict[str, Record] = {name: _record(kind.keys) for name, kind in KINDS.items()}
"""The keys inside `run: {NAME: {…}}`, by kind."""


def _keys_of_run() -> dict[str, Key]:
    found: dict[str, Key] = {}
    for name, kind in KINDS.items():
        value = TARGET_KEYS[name] if kind.value is None else _VALUES[kind.value]
        found[name] = Key(value, kind.about)
        found |= {key: _key(about) for key, about in kind.other_keys.items()}
    return found


@dataclass(frozen=True, slots=True)
class InstalledKeys:
    """The keys of a kind of another package, checked against the JSON Schema that it registers."""

    kind: InstalledKind

    @property
    def about(self) -> str:
        return str((self.kind.schema or {}).get("description") or f"A target of {self.kind.package}.")

    def check(self, node: CheckedValue) -> None:
        if not isinstance(node.value, dict):
            node.complain(f"must be a mapping, not {spelled(node.value)}")
        elif self.kind.fault is not None:
            # A broken package keeps its own jobs from running, but no file from being read.
            node.complain(self.kind.fault, severity="warning" if node.is_in_file else "error")
        elif self.kind.schema is not None:
            _check_by_schema(node, self.kind.schema)

    def schema(self) -> Schema:
        found = self.kind.schema
        # A reference inside it would lead nowhere in the document that it becomes a part of.
        return {"type": "object"} if found is None or '"$ref"' in json.dumps(found) else dict(found)


def _check_by_schema(node: CheckedValue, schema: Mapping[str, Any]) -> None:
    given, known = _without_nulls(node.value), schema.get("properties") or {}
    is_closed = schema.get("additionalProperties") is False and "patternProperties" not in schema
    strange = [name for name in given if name not in known] if is_closed else []
    for name in strange[:MOST_UNKNOWN]:
        node.complain(unknown("key", name, known), name)
    for name in schema.get("required") or ():
        if name not in given:
            node.complain(f"{name} is required")
    sound = {name: value for name, value in given.items() if name in known} if is_closed else given
    rest = {"type": "object", **{key: value for key, value in schema.items() if key != "required"}}
    for fault in faults_in(rest, sound):
        node.complain(fault.message, *(fault.path or ()))


def _without_nulls(value: Any) -> Any:
    """Return the same without keys whose value is null: they are not given."""
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


@dataclass(frozen=True, slots=True)
class RunKeys(Record):
    """The keys of `run`: those of our kinds, and the installed kinds."""

    def check(self, node: CheckedValue) -> None:
        if not isinstance(node.value, dict) or self.keys.keys() >= node.value.keys():
            Record.check(self, node)
        else:
            Record({**self.keys, **_installed_keys(node.value)}, self.needs).check(node)

    def schema(self) -> Schema:
        return Record({**self.keys, **_installed_keys(installed_names())}).schema()


def _installed_keys(named: Collection[str]) -> dict[str, Key]:
    """Return a key for every installed kind; only the packages of those that are named are imported."""
    found = {name: Key(Anything(), "") for name in installed_names()}
    for name in found:
        kind = installed_kind(name) if name in named else None
        if kind is not None:
            keys = InstalledKeys(kind)
            found[name] = Key(keys, keys.about)
    return found


def _one_target(node: CheckedValue) -> None:
    is_ours = KEYS_OF_RUN.issuperset(node.value)
    kinds = [kind for kind in _all_kinds(is_ours) if node.value.get(kind) is not None]
    if len(kinds) != 1:
        found = f", not {' and '.join(kinds)}" if kinds else ""
        node.complain(f"must name exactly one of {', '.join(_all_kinds())}{found}")
    for key, owner in _KIND_OF_KEY.items():
        if kinds and kinds != [owner] and node.value.get(key) is not None:
            node.complain(f"is allowed only with {owner}", key)


def _all_kinds(is_ours: bool = False) -> list[str]:
    return [*KINDS] if is_ours else [*KINDS, *installed_names()]


_KIND_OF_KEY = {key: name for name, kind in KINDS.items() for key in kind.other_keys}
RUN = RunKeys(_keys_of_run(), _one_target)

_encode = JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


def target_of(run: Mapping[str, Any]) -> Target:
    """Return the target of keys that were checked."""
    if run.get("command") is not None:
        argv = [_text(word) for word in run["command"]]
        env = {key: _text(value) for key, value in (run.get("env") or {}).items()}
        return _target("command", {"argv": argv, "cwd": run.get("cwd"), "env": env or None})
    if run.get("python") is not None:
        other_keys = {key: run.get(key) or None for key in KINDS["python"].other_keys}
        return _target("python", {"function": run["python"], **other_keys})
    ((kind, fields),) = ((kind, fields) for kind, fields in run.items() if fields is not None)
    return _target(kind, dict(fields))


def _target(kind: str, fields: Mapping[str, Any]) -> Target:
    spec = {key: value for key, value in fields.items() if value is not None}
    return Target(kind, _encode(spec))


def _text(value: Any) -> str:
    """Return an argument of a command as it was meant: `true` and not `True`."""
    return str(value).lower() if isinstance(value, bool) else str(value)
