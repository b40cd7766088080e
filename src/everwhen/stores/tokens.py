"""The tokens port on any database: each method is one transaction."""

from __future__ import annotations

from collections.abc import Sequence

from everwhen.model.events import Event
from everwhen.model.token import Answer, Session, Token
from everwhen.stores.lanes import Lane
from everwhen.stores.transaction import Store, Transaction


class StoredTokens:
    """Tokens and remembered answers, kept in a store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def add(self, token: Token, hash: str, event: Event) -> bool:
        def work(tx: Transaction) -> bool:
            is_new = tx.insert_token(token, hash)
            if is_new:
                tx.insert_events([event])
            return is_new

        return self._store.write(Lane.API, work)

    def add_first(self, token: Token, hash: str, event: Event) -> bool:
        def work(tx: Transaction) -> bool:
            tx.exclude_evaluations()  # two nodes may start at the same time, and only one of them is first
            if tx.tokens() or not tx.insert_token(token, hash):
                return False
            tx.insert_events([event])
            return True

        return self._store.write(Lane.API, work)

    def find(self, hash: str) -> Token | None:
        with self._store.look() as tx:
            return tx.token_by_hash(hash)

    def all(self) -> list[Token]:
        with self._store.look() as tx:
            return tx.tokens()

    def revoke(self, now: int, token_id: str, event: Event) -> bool:
        def work(tx: Transaction) -> bool:
            is_revoked = tx.revoke_token(token_id, now)
            if is_revoked:
                tx.insert_events([event])
            return is_revoked

        return self._store.write(Lane.API, work)

    def add_session(self, session: Session) -> None:
        self._store.write(Lane.API, lambda tx: tx.insert_session(session))

    def find_session(self, hash: str, now: int) -> Token | None:
        with self._store.look() as tx:
            return tx.token_of_session(hash, now)

    def end_session(self, hash: str) -> None:
        self._store.write(Lane.API, lambda tx: tx.delete_session(hash))

    def answer(self, token_id: str, key: str, *, since: int) -> Answer | None:
        with self._store.look() as tx:
            return tx.answer(token_id, key, since=since)

    def record(self, events: Sequence[Event]) -> None:
        self._store.write(Lane.API, lambda tx: tx.insert_events(events))
