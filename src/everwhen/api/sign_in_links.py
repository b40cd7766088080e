"""Links that sign a browser in: each works once, for a few minutes, in the process that made it.

A link is for the person at the terminal where `everwhen up` runs, who may do everything with its database anyway. Its
key is in the fragment of the address, which no browser sends to a server: so it is in no log and no Referer.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from threading import Lock

from everwhen.operations.tokens import hash_of

LASTS = 600.0  # seconds
PATH = "/sign-in#key="


class SignInLinks:
    """The keys that were not used yet, by hash, and until when each is good."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._good_until: dict[str, float] = {}
        self._lock = Lock()

    def create(self) -> str:
        """Return the key of a new link."""
        key = secrets.token_urlsafe(32)
        with self._lock:
            self._good_until[hash_of(key)] = self._monotonic() + LASTS
        return key

    def take(self, key: str) -> bool:
        """Return whether the key is good; it is no longer afterwards."""
        with self._lock:
            good_until = self._good_until.pop(hash_of(key), None)
        return good_until is not None and self._monotonic() < good_until
