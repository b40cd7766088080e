"""Tokens, remembered answers to requests that may be repeated, and the record of refused requests."""

from __future__ import annotations

from collections.abc import Sequence

from everwhen.model.events import Event
from everwhen.model.token import Answer, Session, Token
from everwhen.store.lanes import Lane
from everwhen.store.transaction import Store, Transaction


class Tokens:
    """Tokens and sessions; each method is one transaction. It receives only the hashes of secrets."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def add(self, token: Token, hash: str, event: Event) -> bool:
        """Store a token and record it in the audit; False when its secret is known already."""

        def work(tx: Transaction) -> bool:
            is_new = tx.insert_token(token, hash)
            if is_new:
                tx.insert_events([event])
            return is_new

        return self._store.write(Lane.API, work)

    def add_first(self, token: Token, hash: str, event: Event) -> bool:
        """Store a token as `add` does, if there has never been one; False otherwise."""

        def work(tx: Transaction) -> bool:
            tx.exclude_evaluations()  # two nodes may start at the same time, and only one of them is first
            if tx.tokens() or not tx.insert_token(token, hash):
                return False
            tx.insert_events([event])
            return True

        return self._store.write(Lane.API, work)

    def find(self, hash: str) -> Token | None:
        """Return the token with this hash, even a revoked one."""
        with self._store.look() as tx:
            return tx.token_by_hash(hash)

    def all(self) -> list[Token]:
        """Return every token, newest first."""
        with self._store.look() as tx:
            return tx.tokens()

    def revoke(self, now: int, token_id: str, event: Event) -> bool:
        """Revoke a token and record it in the audit; False when no valid token has this id."""

        def work(tx: Transaction) -> bool:
            is_revoked = tx.revoke_token(token_id, now)
            if is_revoked:
                tx.insert_events([event])
            return is_revoked

        return self._store.write(Lane.API, work)

    def add_session(self, session: Session) -> None:
        """Store a session."""
        self._store.write(Lane.API, lambda tx: tx.insert_session(session))

    def find_session(self, hash: str, now: int) -> Token | None:
        """Return the token of a session that has not ended, even a revoked token."""
        with self._store.look() as tx:
            return tx.token_of_session(hash, now)

    def end_session(self, hash: str) -> None:
        """End a session; one that has ended stays unchanged."""
        self._store.write(Lane.API, lambda tx: tx.delete_session(hash))

    def answer(self, token_id: str, key: str, *, since: int) -> Answer | None:
        """Return the answer to an earlier request with this key."""
        with self._store.look() as tx:
            return tx.answer(token_id, key, since=since)

    def record(self, events: Sequence[Event]) -> None:
        """Record refused requests."""
        self._store.write(Lane.API, lambda tx: tx.insert_events(events))
