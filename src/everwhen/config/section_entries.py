"""The sections that declare no schedules, entry by entry, to compare what is in force with a file.

References stay as they are written. A literal secret is represented by a digest only: a change is visible, the secret
is not.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from everwhen.config.files import File
from everwhen.config.show import section_of
from everwhen.model.masks import MASK, masked

_PATH = re.compile(r"(?<=[^/:])/.+$")
COMPARED = ("workflows", "messages", "notify", "api")


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
