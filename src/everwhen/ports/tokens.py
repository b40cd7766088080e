"""Tokens, remembered answers to requests that may be repeated, and the record of refused requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from everwhen.model.events import Event
from everwhen.model.token import Answer, Session, Token


class Tokens(Protocol):
    """Tokens and sessions; each method is one transaction. It receives only the hashes of secrets."""

    def add(self, token: Token, hash: str, event: Event) -> bool:
        """Store a token and record it in the audit; False when its secret is known already."""
        ...

    def add_first(self, token: Token, hash: str, event: Event) -> bool:
        """Store a token as `add` does, if there has never been one; False otherwise."""
        ...

    def find(self, hash: str) -> Token | None:
        """Return the token with this hash, even a revoked one."""
        ...

    def all(self) -> list[Token]:
        """Return every token, newest first."""
        ...

    def revoke(self, now: int, token_id: str, event: Event) -> bool:
        """Revoke a token and record it in the audit; False when no valid token has this id."""
        ...

    def add_session(self, session: Session) -> None:
        """Store a session."""
        ...

    def find_session(self, hash: str, now: int) -> Token | None:
        """Return the token of a session that has not ended, even a revoked token."""
        ...

    def end_session(self, hash: str) -> None:
        """End a session; one that has ended stays unchanged."""
        ...

    def answer(self, token_id: str, key: str, *, since: int) -> Answer | None:
        """Return the answer to an earlier request with this key."""
        ...

    def record(self, events: Sequence[Event]) -> None:
        """Record refused requests."""
        ...
