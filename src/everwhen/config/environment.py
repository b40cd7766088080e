"""References to the environment, `${NAME}` and `${NAME:-default}`: resolved at load, or kept as they are written.

What jobs get (`run`, `config`, headers, `env`, `secret`), `ping` and `notify` keep their references, so that the
database, responses, diffs and logs never contain the value; the worker resolves them. `$${NAME}` is the literal text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from everwhen.config.document import Block, Document, Items, Plain
from everwhen.config.problems import Path, Report
from everwhen.config.yaml_text import core_value

_REFERENCE = re.compile(r"(\$?)\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_KEPT: tuple[Path, ...] = (
    ("notify",),
    ("schedules", "*", "run"),
    ("schedules", "*", "ping"),
    ("workflows", "*", "run"),
    ("plugins", "*", "config"),
    ("agents", "*", "env"),
    ("agents", "*", "schedules", "*", "secret"),
    ("agents", "*", "schedules", "*", "work_source", "env"),
    ("messages", "subscribers", "*", "http", "headers"),
)


def resolved(document: Document, environ: Mapping[str, str], report: Report) -> Document:
    """Return the document with its references resolved, except those that are kept."""
    return Document(document.file, _Resolver(document, environ, report).value(document.root, ()))


def is_kept(path: Path) -> bool:
    return any(
        len(path) == len(kept) and all(want in ("*", step) for want, step in zip(kept, path, strict=True))
        for kept in _KEPT
    )


def references_in(value: Any, path: Path) -> list[Path]:
    """Return the paths at which a value refers to the environment."""
    if isinstance(value, str):
        # Only up to the last brace: no reference can end after it, and every `${` after it would be scanned in vain.
        found = _REFERENCE.finditer(value, 0, value.rfind("}") + 1)
        return [path] if any(not one[1] for one in found) else []
    if isinstance(value, Block):
        return [found for key, item in value.items() for found in references_in(item, (*path, key))]
    if isinstance(value, Items):
        return [found for number, item in enumerate(value) for found in references_in(item, (*path, number))]
    return []


class _Resolver:
    def __init__(self, document: Document, environ: Mapping[str, str], report: Report) -> None:
        self._document = document
        self._environ = environ
        self._report = report

    def value(self, value: Any, path: Path) -> Any:
        if is_kept(path):
            return value
        if isinstance(value, Block):
            found = {key: self.value(item, (*path, key)) for key, item in value.items()}
            if all(found[key] is item for key, item in value.items()):
                return value  # perhaps shared with the last reading
            block = Block()
            block.spots = value.spots
            block.update(found)
            return block
        if isinstance(value, Items):
            each = [self.value(item, (*path, number)) for number, item in enumerate(value)]
            if all(new is old for new, old in zip(each, value, strict=True)):
                return value
            items = Items()
            items.spots, items.moved = value.spots, value.moved
            items.extend(each)
            return items
        if isinstance(value, str) and "${" in value:
            text = _REFERENCE.sub(lambda found: self._found(found, path), value)
            return core_value(text) if isinstance(value, Plain) else text
        return value

    def _found(self, reference: re.Match[str], path: Path) -> str:
        escaped, name, default = reference.groups()
        if escaped:
            return reference[0][1:]
        if found := self._environ.get(name):
            return found
        if default is not None:
            return str(default)
        message = f"the variable {name} is not set; set it, or write ${{{name}:-default}}"
        self._report.add(self._document.place(path), path, message)
        return ""
