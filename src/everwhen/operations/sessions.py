"""Browser sessions: started with a token, identified by a secret in a cookie.

They end by hand, by time or with the token.
"""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass

from everwhen.model.instants import HOUR
from everwhen.model.token import Session, Token
from everwhen.operations.tokens import hash_of
from everwhen.runtime import Runtime
from everwhen.stores.opened import store_of

LASTS = 12 * HOUR


@dataclass(frozen=True, slots=True)
class NewSession:
    """A session and its secret, which only the cookie holds."""

    session: Session
    secret: str


def begin_session(runtime: Runtime, token: Token) -> NewSession:
    """Start a session for this token; it does not outlast the token."""
    now = runtime.clock.now()
    secret = secrets.token_urlsafe(32)
    expires_at = now + LASTS if token.expires_at is None else min(now + LASTS, token.expires_at)
    session = Session(hash_of(secret), token.token_id, now, expires_at)
    store_of(runtime).tokens.add_session(session)
    return NewSession(session, secret)


def find_session(runtime: Runtime, secret: str) -> Token | None:
    """Return the token of a session, if both are in force."""
    now = runtime.clock.now()
    token = store_of(runtime).tokens.find_session(hash_of(secret), now)
    return token if token is not None and token.is_good(now) else None


def end_session(runtime: Runtime, secret: str) -> None:
    store_of(runtime).tokens.end_session(hash_of(secret))


def proof_of(secret: str) -> str:
    """Return the CSRF token of a session: only our own pages can know it, and they send it with every change."""
    return hmac.new(secret.encode(errors="replace"), b"everwhen csrf", "sha256").hexdigest()


def is_proven(secret: str, proof: str | None) -> bool:
    return proof is not None and hmac.compare_digest(
        proof_of(secret).encode(), proof.encode(errors="replace")
    )
