"""The code of a preview, with which the same arguments create what was previewed.

It is a keyed hash of the token, the arguments and its expiry; nothing is stored, and every node can check it. It proves
that the model saw the instants, not that a person agreed.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Mapping
from typing import Any

from everwhen.mcp.arguments import TeachingError

LASTS = 15 * 60  # seconds
_DIGITS = 20
_LONGEST = 50


def code_of(secret: str, arguments: Mapping[str, Any], now: int) -> str:
    """Return the code of these arguments; `now` is in seconds.

    >>> code = code_of("token", {"name": "a"}, 1_000)
    >>> refuse_other("token", {"name": "a", "confirm": code}, 1_500)
    """
    return _signed(secret, arguments, now + LASTS)


def refuse_other(secret: str, arguments: Mapping[str, Any], now: int) -> None:
    """Refuse a code that is not that of these arguments, or that has expired."""
    code = str(arguments.get("confirm"))
    expiry, _, _ = code[:_LONGEST].partition(".")
    try:
        expires_at = int(expiry, 16)
    except ValueError:
        raise TeachingError("confirm is not a code of a preview: leave it out to get one.") from None
    expected = _signed(secret, arguments, expires_at)
    if not hmac.compare_digest(expected.encode(), code.encode(errors="replace")):
        raise TeachingError(
            "confirm does not match: the arguments changed. Leave confirm out to preview what they are now."
        )
    if expires_at < now:
        raise TeachingError("confirm is older than 15 minutes: leave it out to preview it again.")


def _signed(secret: str, arguments: Mapping[str, Any], expires_at: int) -> str:
    said = {name: value for name, value in arguments.items() if name != "confirm" and value is not None}
    text = json.dumps(["everwhen confirm", said, expires_at], sort_keys=True)
    digest = hmac.new(secret.encode(errors="replace"), text.encode(), "sha256").hexdigest()
    return f"{expires_at:x}.{digest[:_DIGITS]}"
