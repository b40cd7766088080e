"""Keys of schedules that are created over MCP without one: the same arguments have the same key."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

_GENERATED = re.compile(r"mcp-[0-9a-f]{32}")


def generated_key(arguments: Mapping[str, object]) -> str:
    """
    >>> is_generated(generated_key({"every": "1h"})), is_generated("mcp-mail"), is_generated(None)
    (True, False, False)
    """
    from hashlib import sha256  # commands that only look at alerts need none

    return f"mcp-{sha256(json.dumps(arguments, sort_keys=True).encode()).hexdigest()[:32]}"


def is_generated(key: str | None) -> bool:
    return key is not None and _GENERATED.fullmatch(key) is not None
