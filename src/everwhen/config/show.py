"""The effective configuration: all files merged, with the defaults filled in, and references as they are written.

The output is itself a valid everwhen.yaml, in which literal secrets are masked.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from everwhen.config.files import File
from everwhen.config.schema import API, SECTIONS, SERVICE
from everwhen.config.settings import PREFIX
from everwhen.model.kinds import Record
from everwhen.model.masks import MASK, masked


def effective(files: tuple[File, ...], environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the sections of all files, in their order."""
    found: dict[str, Any] = {
        "service": _with_twins(SERVICE, section_of(files, "service") or {}, environ),
        "api": _with_defaults(API, section_of(files, "api") or {}),
    }
    for section in SECTIONS:
        if section not in (*found, "include"):
            value = section_of(files, section)
            if value:
                found[section] = value
    shown: dict[str, Any] = masked(found)
    return shown


def section_of(files: Sequence[File], section: str) -> Any:
    """Return the content of a section of all files, as written; a value of a wrong type is reported by the checks."""
    roots = [file.written.root for file in files if isinstance(file.written.root, dict)]
    values = [root[section] for root in roots if root.get(section)]
    items = [item for value in values if isinstance(value, list) for item in value]
    return (
        items
        or {key: item for value in values if isinstance(value, dict) for key, item in value.items()}
        or None
    )


def _with_defaults(record: Record, fields: Mapping[str, Any]) -> dict[str, Any]:
    defaults = {name: key.default for name, key in record.keys.items() if key.default is not None}
    nested = {
        name: _with_defaults(key.kind, fields.get(name) or {})
        for name, key in record.keys.items()
        if isinstance(key.kind, Record) and any(inner.default is not None for inner in key.kind.keys.values())
    }
    return {**defaults, **fields, **nested}


def _with_twins(record: Record, fields: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, Any]:
    """Fill in defaults; show a key that a variable sets as a reference to that variable."""
    twins = {name: f"{PREFIX}{name.upper()}" for name in record.keys}
    references = {name: f"${{{twin}}}" for name, twin in twins.items() if environ.get(twin)}
    return {**_with_defaults(record, fields), **references}


# The sections that declare no schedules, entry by entry, to compare what is in force with a file.
#
# References stay as they are written. A literal secret is represented by a digest only: a change is visible,
# the secret is not.


_PATH = re.compile(r"(?<=[^/:])/.+$")
COMPARED = ("workflows", "messages", "notify", "api", "budgets")


def section_entries(files: Sequence[File]) -> dict[str, str]:
    """Return each entry by its path, as JSON: `workflows.1`, `notify[0]`, `api.port`, `messages.subscribers[0]`."""
    return {
        path: _spelled(value, section)
        for section in COMPARED
        for path, value in _entries(section, section_of(files, section))
    }


def _entries(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            below = f"{path}.{key}"
            yield from _entries(below, item) if isinstance(item, list) else [(below, item)]
    elif isinstance(value, list):
        yield from ((f"{path}[{number}]", item) for number, item in enumerate(value))


def _spelled(value: Any, section: str) -> str:
    whole, shown = _json(value), _json(_hidden(masked(value), section))
    if whole == shown:
        return shown
    return f"{shown} (digest {hashlib.sha256(whole.encode(errors='surrogatepass')).hexdigest()[:12]})"


def _hidden(value: Any, section: str, key: str = "") -> Any:
    """Mask what grants access: the values of headers, and the path of a URL to which alerts are posted."""
    if isinstance(value, dict):
        return {
            name: _hidden(item, section, key if key == "headers" else name) for name, item in value.items()
        }
    if isinstance(value, list):
        return [_hidden(item, section, key) for item in value]
    if not isinstance(value, str) or "${" in value:
        return value
    if key == "url" and section == "notify":
        return _PATH.sub(f"/{MASK}", value)
    return MASK if key == "headers" else value


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)
