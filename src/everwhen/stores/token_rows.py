"""Tokens, sessions and answers to repeated requests: reads, and writes."""

from __future__ import annotations

from everwhen.model.token import ANSWERS_KEPT, TOKEN_COLUMNS, Answer, Session, Token, token_of, token_row
from everwhen.stores.dialect import Insert, Statement
from everwhen.stores.queries import Queries

# The unique keys on hash and token_id.
_TOKEN = f"SELECT {', '.join(TOKEN_COLUMNS)} FROM tokens"
_TOKEN_BY_HASH = Statement(f"{_TOKEN} WHERE hash = :hash::text")
_TOKENS = Statement(f"{_TOKEN} ORDER BY created_at DESC, token_id")
# The primary key of sessions, then that of tokens.
_TOKEN_OF_SESSION = Statement(f"""
SELECT {", ".join(f"t.{name}" for name in TOKEN_COLUMNS)} FROM sessions s JOIN tokens t ON t.token_id = s.token_id
WHERE s.hash = :hash::text AND s.expires_at > :now::instant""")
# The primary key of idempotency_keys.
_ANSWER = Statement("""
SELECT token_id, key, digest, answer FROM idempotency_keys
WHERE token_id = :token_id::text AND key = :key::text AND created_at > :since::instant""")


class TokenReads(Queries):
    """Reads of tokens."""

    def token_by_hash(self, hash: str) -> Token | None:
        row = self.row(_TOKEN_BY_HASH, hash=hash)
        return None if row is None else token_of(row)

    def tokens(self) -> list[Token]:
        return [token_of(row) for row in self.rows(_TOKENS)]

    def token_of_session(self, hash: str, now: int) -> Token | None:
        row = self.row(_TOKEN_OF_SESSION, hash=hash, now=now)
        return None if row is None else token_of(row)

    def answer(self, token_id: str, key: str, *, since: int) -> Answer | None:
        row = self.row(_ANSWER, token_id=token_id, key=key, since=since)
        return None if row is None else Answer(*row)


_INSERT_TOKEN = Insert("tokens", ("hash", *TOKEN_COLUMNS), unless="")
_REVOKE_TOKEN = Statement("""
UPDATE tokens SET revoked_at = :now::instant WHERE token_id = :token_id::text AND revoked_at IS NULL""")
# There are only a few sessions at a time: an insert scans them.
_INSERT_SESSION = Insert("sessions", Session._fields)
_FORGET_SESSIONS = Statement("DELETE FROM sessions WHERE expires_at <= :now::instant")
_DELETE_SESSION = Statement("DELETE FROM sessions WHERE hash = :hash::text")
_END_SESSIONS = Statement("DELETE FROM sessions")
# The primary key of idempotency_keys.
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


class TokenWrites(TokenReads):
    """Writes of tokens."""

    def lock_token(self, token_id: str) -> None:
        """Prevent other transactions from creating with this token until the end of this one."""

    def insert_token(self, token: Token, hash: str) -> bool:
        return self.insert(_INSERT_TOKEN, [(hash, *token_row(token))]) > 0

    def revoke_token(self, token_id: str, now: int) -> bool:
        return self.run(_REVOKE_TOKEN, now=now, token_id=token_id) > 0

    def insert_session(self, session: Session) -> None:
        """Insert a session, and delete those that have ended."""
        self.run(_FORGET_SESSIONS, now=session.created_at)
        self.insert(_INSERT_SESSION, [session])

    def delete_session(self, hash: str) -> None:
        self.run(_DELETE_SESSION, hash=hash)

    def end_sessions(self) -> int:
        """End all sessions; return how many."""
        return self.run(_END_SESSIONS)

    def insert_answer(self, answer: Answer, now: int) -> bool:
        """Insert an answer, and delete those older than a day; False when its key has a remembered answer."""
        since = now - ANSWERS_KEPT
        self.run(_FORGET_ANSWERS, since=since)
        token_id, key, digest, text = answer.fields
        values = {"token_id": token_id, "key": key, "digest": digest, "answer": text}
        return self.run(_INSERT_ANSWER, **values, stored_at=answer.stored_at(now), since=since) > 0
