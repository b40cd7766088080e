"""Tokens, and what was answered to requests that may be repeated; a refusal at the door goes on record here, too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from everwhen.model.events import Event
from everwhen.model.token import Answer, Session, Token


class Tokens(Protocol):
    """Who may call, one transaction a verb. Secrets do not come here, only their hashes."""

    def add(self, token: Token, hash: str, event: Event) -> bool:
        """Keep a token and say so in the audit; False when its secret is one that is known."""
        ...

    def add_first(self, token: Token, hash: str, event: Event) -> bool:
        """The same, if there has never been a token; False when there has."""
        ...

    def find(self, hash: str) -> Token | None:
        """The token with this hash, also when it is revoked."""
        ...

    def all(self) -> list[Token]:
        """Every token, newest first."""
        ...

    def revoke(self, now: int, token_id: str, event: Event) -> bool:
        """End a token and say so in the audit; False when there is none that is in force."""
        ...

    def add_session(self, session: Session) -> None:
        """Keep a session."""
        ...

    def find_session(self, hash: str, now: int) -> Token | None:
        """The token of a session that is not over; also when the token is revoked."""
        ...

    def end_session(self, hash: str) -> None:
        """End a session; one that is over stays so."""
        ...

    def answer(self, token_id: str, key: str, *, since: int) -> Answer | None:
        """What was answered to a request with this key."""
        ...

    def record(self, events: Sequence[Event]) -> None:
        """Put on record who was turned away."""
        ...
