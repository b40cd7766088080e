"""Conversion of the keys of `run` to the target that they name; the same for files, REST and Python."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from everwhen.model.schedule import Target


def target_of(run: Mapping[str, Any]) -> Target:
    """Return the target of keys that were checked."""
    if run.get("command") is not None:
        argv = [_text(word) for word in run["command"]]
        env = {key: _text(value) for key, value in (run.get("env") or {}).items()}
        return _target("command", {"argv": argv, "cwd": run.get("cwd"), "env": env or None})
    if run.get("python") is not None:
        return _target("python", {"function": run["python"], "isolate": run.get("isolate") or None})
    ((kind, fields),) = ((kind, fields) for kind, fields in run.items() if fields is not None)
    return _target(kind, dict(fields))


def _target(kind: str, fields: Mapping[str, Any]) -> Target:
    spec = {key: value for key, value in fields.items() if value is not None}
    return Target(kind, json.dumps(spec, separators=(",", ":"), ensure_ascii=False))


def _text(value: Any) -> str:
    """Return an argument of a command as it was meant: `true` and not `True`."""
    return str(value).lower() if isinstance(value, bool) else str(value)
