"""Tokens, remembered answers to requests that may be repeated, and the record of refused requests."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from everwhen.model.events import Event
from everwhen.model.token import (
    ANSWERS_KEPT,
    TOKEN_COLUMNS,
    Confinement,
    Session,
    StoredResponse,
    Token,
    limits_in,
    limits_text,
    token_id_of_agent,
    token_of,
    token_row,
)
from everwhen.store.dialect import Insert, Statement
from everwhen.store.lanes import Lane
from everwhen.store.transaction import StorePart, Transaction

# The unique keys on hash and token_id.
_TOKEN = f"SELECT {', '.join(TOKEN_COLUMNS)} FROM tokens"
_TOKEN_BY_HASH = Statement(f"{_TOKEN} WHERE hash = :hash::text")
_TOKENS = Statement(f"{_TOKEN} ORDER BY created_at DESC, token_id")
_TOKENS_BY_ID = Statement(f"{_TOKEN} WHERE token_id = ANY(:ids::texts)")
# The primary key of sessions, then that of tokens.
_TOKEN_OF_SESSION = Statement(f"""
SELECT {", ".join(f"t.{name}" for name in TOKEN_COLUMNS)} FROM sessions s JOIN tokens t ON t.token_id = s.token_id
WHERE s.hash = :hash::text AND s.expires_at > :now::instant
    AND (:proof::text IS NULL OR s.proof = :proof::text)""")
_INSERT_TOKEN = Insert("tokens", ("hash", *TOKEN_COLUMNS), unless="")
_REVOKE_TOKEN = Statement("""
UPDATE tokens SET revoked_at = :now::instant WHERE token_id = :token_id::text AND revoked_at IS NULL""")
# The primary key of job_tokens, then the unique key on job_id. A token is good while the attempt it was made for runs.
_TOKEN_OF_JOB = Statement("""
SELECT t.job_id, t."group", t.owner, t.depth, t.max_depth, t.limits, t.created_at, t.expires_at
FROM job_tokens t JOIN jobs j ON j.job_id = t.job_id
WHERE t.hash = :hash::text AND t.expires_at > :now::instant
    AND j.status = 'running' AND j.attempt = t.attempt AND NOT j.cancel_requested""")
_INSERT_JOB_TOKEN = Insert(
    "job_tokens",
    tuple("hash job_id attempt group owner depth max_depth limits created_at expires_at".split()),
)
# There are only as many as agents ran in a day: an insert scans them.
_FORGET_JOB_TOKENS = Statement("DELETE FROM job_tokens WHERE expires_at <= :now::instant")
# There are only a few sessions at a time, and of one token so many at most: an insert scans them.
MOST_SESSIONS = 50
_END_OLDEST = Statement("""
DELETE FROM sessions WHERE token_id = :token_id::text AND hash NOT IN (
    SELECT hash FROM sessions WHERE token_id = :token_id::text ORDER BY created_at DESC, hash LIMIT :most)""")
_INSERT_SESSION = Insert("sessions", Session._fields)
_FORGET_SESSIONS = Statement("DELETE FROM sessions WHERE expires_at <= :now::instant")
_DELETE_SESSION = Statement("DELETE FROM sessions WHERE hash = :hash::text")
END_SESSIONS = Statement("DELETE FROM sessions")
# The primary key of idempotency_keys.
_ANSWER = Statement("""
SELECT token_id, key, digest, answer FROM idempotency_keys
WHERE token_id = :token_id::text AND key = :key::text AND created_at > :since::instant""")
_INSERT_ANSWER = Statement("""
INSERT INTO idempotency_keys (token_id, key, digest, answer, created_at)
VALUES (:token_id::text, :key::text, :digest::text, :answer::text, :stored_at::instant)
ON CONFLICT (token_id, key) DO UPDATE SET digest = excluded.digest, answer = excluded.answer,
    created_at = excluded.created_at WHERE idempotency_keys.created_at <= :since::instant""")
# idx_idempotency_age, a few from its front; on PostgreSQL without those that another transaction deletes.
_OLD_ANSWERS = """
SELECT token_id, key FROM idempotency_keys WHERE created_at <= :since::instant ORDER BY created_at LIMIT 100"""
_FORGET_ANSWERS = Statement(
    sqlite=f"DELETE FROM idempotency_keys WHERE (token_id, key) IN ({_OLD_ANSWERS})",
    postgres=f"DELETE FROM idempotency_keys WHERE (token_id, key) IN ({_OLD_ANSWERS} FOR UPDATE SKIP LOCKED)",
)


class Tokens(StorePart):
    """Tokens and sessions; each method is one transaction. It receives only the hashes of secrets."""

    def add(self, token: Token, hash: str, event: Event, *, only_first: bool = False) -> bool:
        """Store a token and record it in the audit; False when its secret is known already.

        `only_first`: also when there has ever been a token.
        """

        def work(tx: Transaction) -> bool:
            if only_first:
                tx.exclude_evaluations()  # two nodes may start at the same time, and only one of them is first
                if tx.rows(_TOKENS):
                    return False
            return _recorded(tx, tx.insert(_INSERT_TOKEN, [(hash, *token_row(token))]), event)

        return self._store.write(Lane.API, work)

    def find(self, hash: str) -> Token | None:
        """Return the token with this hash, even a revoked one."""
        return self._one(token_of, _TOKEN_BY_HASH, hash=hash)

    def some(self, token_ids: Collection[str]) -> list[Token]:
        """Return the tokens with these ids, even revoked ones."""
        return self._many(token_of, _TOKENS_BY_ID, ids=list(token_ids)) if token_ids else []

    def all(self) -> list[Token]:
        """Return every token, newest first."""
        return self._many(token_of, _TOKENS)

    def revoke(self, now: int, token_id: str, event: Event) -> bool:
        """Revoke a token and record it in the audit; False when no valid token has this id."""

        def work(tx: Transaction) -> bool:
            return _recorded(tx, tx.run(_REVOKE_TOKEN, now=now, token_id=token_id), event)

        return self._store.write(Lane.API, work)

    def add_of_job(self, token: Token, hash: str, attempt: int) -> None:
        """Store the token of a run, and delete those that have expired."""
        confined = token.confined
        assert confined is not None
        row = (
            hash,
            confined.job_id,
            attempt,
            confined.group,
            token.owner,
            confined.depth,
            confined.max_depth,
            limits_text(token.limits),
            token.created_at,
            token.expires_at,
        )

        def work(tx: Transaction) -> None:
            tx.run(_FORGET_JOB_TOKENS, now=token.created_at)
            tx.insert(_INSERT_JOB_TOKEN, [row])

        self._store.write(Lane.API, work)

    def find_of_job(self, hash: str, now: int) -> Token | None:
        """Return the token of a run with this hash, as long as that attempt runs and nobody cancels it."""
        return self._one(_token_of_job, _TOKEN_OF_JOB, hash=hash, now=now)

    def add_session(self, session: Session) -> None:
        """Store a session, and delete those that have ended; of those of one token the oldest ends for it."""

        def work(tx: Transaction) -> None:
            tx.run(_FORGET_SESSIONS, now=session.created_at)
            tx.run(_END_OLDEST, token_id=session.token_id, most=MOST_SESSIONS - 1)
            tx.insert(_INSERT_SESSION, [session])

        self._store.write(Lane.API, work)

    def find_session(self, hash: str, now: int, *, proof: str | None = None) -> Token | None:
        """Return the token of a session that has not ended, even a revoked token; `proof`: only with this proof."""
        return self._one(token_of, _TOKEN_OF_SESSION, hash=hash, now=now, proof=proof)

    def end_session(self, hash: str) -> None:
        """End a session; one that has ended stays unchanged."""
        self._store.write(Lane.API, lambda tx: tx.run(_DELETE_SESSION, hash=hash))

    def answer(self, token_id: str, key: str, *, since: int) -> StoredResponse | None:
        """Return the answer to an earlier request with this key."""
        return self._one(lambda row: StoredResponse(*row), _ANSWER, token_id=token_id, key=key, since=since)

    def record(self, events: Sequence[Event]) -> None:
        """Record refused requests."""
        self._store.write(Lane.API, lambda tx: tx.insert_events(events))


def _token_of_job(row: tuple[Any, ...]) -> Token:
    job_id, group, owner, depth, max_depth, limits, created_at, expires_at = row
    return Token(
        token_id_of_agent(group, owner),
        name=f"a run of {group}",
        role="operator",
        owner=owner,
        limits=limits_in(limits),
        created_at=created_at,
        expires_at=expires_at,
        confined=Confinement(group, job_id, depth, max_depth),
    )


def _recorded(tx: Transaction, changed: int, event: Event) -> bool:
    if changed:
        tx.insert_events([event])
    return changed > 0


def insert_answer(tx: Transaction, answer: StoredResponse, now: int) -> bool:
    """Insert an answer, and delete those older than a day; False when its key has a remembered answer."""
    since = now - ANSWERS_KEPT
    tx.run(_FORGET_ANSWERS, since=since)
    return tx.run(_INSERT_ANSWER, **answer._asdict(), stored_at=answer.stored_at(now), since=since) > 0
