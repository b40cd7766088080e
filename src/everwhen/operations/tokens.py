"""Tokens: created, shown once, found by their hash, revoked. The secret of a token is never stored."""

from __future__ import annotations

import secrets
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256

from everwhen.errors import (
    AccessError,
    StatusError,
    TokenError,
    UnknownScheduleError,
    UnknownTokenError,
    shown,
)
from everwhen.model.events import Event
from everwhen.model.instants import HOUR, SECOND, format_instant
from everwhen.model.queries import ScheduleFilter
from everwhen.model.token import (
    NO_LIMITS,
    ROLES,
    AccessRole,
    Confinement,
    Session,
    Token,
    TokenLimits,
    actor_of,
    token_id_of_agent,
)
from everwhen.runtime import Runtime
from everwhen.store.opened import store_of
from everwhen.timetable.civil_time import zone

PREFIX = "ew_"
JOB_PREFIX = "ew_run_"
SHORTEST_PRESET = 16
PORTION = 500
LONGEST_NAME = 200
LASTS = 12 * HOUR


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token and its secret, which cannot be shown again."""

    token: Token
    secret: str


def create_token(
    runtime: Runtime,
    name: str,
    role: AccessRole,
    *,
    owner: str | None = None,
    limits: TokenLimits = NO_LIMITS,
    lasts: int | None = None,
    maker: Token | None = None,
) -> NewToken:
    """Create a token. `maker` is the token of the caller, None for a user of the machine; `lasts` is in seconds."""
    _refuse_nonsense(name, role, owner)
    if maker is not None and not (maker.may("admin") and maker.sees(owner)):
        raise AccessError("only an admin token may create tokens, and one with an owner only for that owner")
    if maker is not None and maker.limits != NO_LIMITS:
        raise AccessError("a token with limits cannot create tokens; use one without limits")
    now, actor, token_id = runtime.clock.now(), actor_of(maker), f"tok_{secrets.token_hex(6)}"
    expires_at = _expiry(maker, now, lasts, runtime.timezone)
    token = Token(
        token_id, name, role, owner, limits, created_at=now, created_by=actor, expires_at=expires_at
    )
    secret = PREFIX + secrets.token_urlsafe(32)
    store_of(runtime).tokens.add(token, hash_of(secret), _created(token, now, actor))
    return NewToken(token, secret)


def _expiry(maker: Token | None, now: int, lasts: int | None, timezone: str) -> int | None:
    """Return when a new token expires: not later than its maker, and together with its maker by default."""
    wanted = None if lasts is None else now + lasts * SECOND
    last = None if maker is None else maker.expires_at
    if wanted is None or last is None:
        return last if wanted is None else wanted
    if wanted > last:
        ends = format_instant(last, zone(timezone))
        text = f"this token expires at {ends}, and those that it creates cannot last longer"
        raise AccessError(f"{text}; use a shorter expires_in")
    return wanted


def first_token(runtime: Runtime, preset: str | None = None) -> NewToken | None:
    """Create the admin token of a runtime that never had one, or return None; `preset` is its secret, if given."""
    if preset is not None and len(preset) < SHORTEST_PRESET:
        text = f"EVERWHEN_ADMIN_TOKEN is shorter than {SHORTEST_PRESET} characters; use a longer one"
        raise TokenError(text)
    now = runtime.clock.now()
    token = Token(f"tok_{secrets.token_hex(6)}", "first", "admin", None, NO_LIMITS, created_at=now)
    secret = preset or PREFIX + secrets.token_urlsafe(32)
    is_first = store_of(runtime).tokens.add(
        token, hash_of(secret), _created(token, now, None), only_first=True
    )
    return NewToken(token, secret) if is_first else None


def create_job_token(
    runtime: Runtime,
    confined: Confinement,
    *,
    attempt: int,
    owner: str | None,
    limits: TokenLimits,
    lasts: int,
) -> str:
    """Create the token of one attempt of a job, and return its secret; `lasts` is in microseconds.

    It ends when that attempt does, however it ends, because it is looked up together with its job.
    """
    now, secret = runtime.clock.now(), JOB_PREFIX + secrets.token_urlsafe(32)
    name = token_id_of_agent(confined.group, owner)
    token = Token(
        name, name, "operator", owner, limits, created_at=now, expires_at=now + lasts, confined=confined
    )
    store_of(runtime).tokens.add_of_job(token, hash_of(secret), attempt)
    return secret


def find_token(runtime: Runtime, secret: str) -> Token | None:
    """Return the token with this secret, if it is in force."""
    if secret.startswith(JOB_PREFIX):
        return store_of(runtime).tokens.find_of_job(hash_of(secret), runtime.clock.now())
    token = store_of(runtime).tokens.find(hash_of(secret))
    return token if token is not None and token.is_good(runtime.clock.now()) else None


def list_tokens(runtime: Runtime, *, maker: Token | None = None) -> list[Token]:
    """Return the tokens that the caller may see, newest first."""
    return [token for token in store_of(runtime).tokens.all() if maker is None or maker.sees(token.owner)]


def revoke_token(runtime: Runtime, token_id: str, *, maker: Token | None = None, pause: bool = False) -> None:
    """Revoke a token at once. What it created goes on; with `pause`, what is active of it is paused."""
    now = runtime.clock.now()
    known = {token.token_id for token in list_tokens(runtime, maker=maker)}
    event = Event("token.revoked", now, actor=actor_of(maker), detail={"token_id": token_id})
    if token_id not in known or not store_of(runtime).tokens.revoke(now, token_id, event):
        raise UnknownTokenError(token_id)
    if pause:
        _pause_made_by(runtime, token_id, actor_of(maker))


def _pause_made_by(runtime: Runtime, token_id: str, actor: str | None) -> None:
    from everwhen.operations.schedules import pause_schedule  # most who use tokens change no schedules

    wanted, after = ScheduleFilter(status="active", token_id=token_id), ""
    while found := store_of(runtime).catalogue.states(wanted, limit=PORTION, after=after):
        for state in found:
            after = state.schedule_id
            with suppress(UnknownScheduleError, StatusError):  # gone or stopped a moment ago
                pause_schedule(runtime, after, by="token", actor=actor, note="its token was revoked")


def record_denial(runtime: Runtime, *, actor: str | None, reason: str, detail: dict[str, object]) -> None:
    """Record that a caller was refused: who, from where and why, but never the secret."""
    denied = Event("auth.denied", runtime.clock.now(), actor=actor, reason=reason, detail=detail)
    store_of(runtime).tokens.record([denied])


def hash_of(secret: str) -> str:
    return sha256(secret.encode(errors="replace")).hexdigest()


def _refuse_nonsense(name: str, role: str, owner: str | None) -> None:
    if not name.strip() or len(name) > LONGEST_NAME or "\0" in name:
        raise TokenError(f"a token's name has 1 to {LONGEST_NAME} characters")
    if role not in ROLES:
        raise TokenError(f'role "{shown(role)}" must be one of {", ".join(ROLES)}')
    if owner is not None and (not owner.strip() or len(owner) > LONGEST_NAME or "\0" in owner):
        raise TokenError(f"an owner has 1 to {LONGEST_NAME} characters")


def _created(token: Token, now: int, actor: str | None) -> Event:
    detail = {"token_id": token.token_id, "name": token.name, "role": token.role}
    return Event("token.created", now, owner=token.owner, actor=actor, detail=detail)


def create_linked_token(runtime: Runtime) -> NewToken:
    """Create the token of a session that a link began: nobody knows its secret, and it ends with the session."""
    return create_token(runtime, "sign-in link", "admin", lasts=LASTS // SECOND)


@dataclass(frozen=True, slots=True)
class NewSession:
    """A session and its two secrets: the cookie holds one, our own pages hold the other, the proof."""

    session: Session
    secret: str
    proof: str


def begin_session(runtime: Runtime, token: Token) -> NewSession:
    """Start a session for this token, which it does not outlast; the token of a run ends with its run, and has none."""
    if token.confined is not None:
        raise AccessError(
            "the token of a run begins no session: it ends with the run, which a browser would not notice"
        )
    now = runtime.clock.now()
    secret, proof = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
    expires_at = now + LASTS if token.expires_at is None else min(now + LASTS, token.expires_at)
    session = Session(hash_of(secret), token.token_id, now, expires_at, hash_of(proof))
    store_of(runtime).tokens.add_session(session)
    return NewSession(session, secret, proof)


def find_session(runtime: Runtime, secret: str) -> Token | None:
    """Return the token of a session, if both are in force; who asks has not proved that the session is its own."""
    now = runtime.clock.now()
    token = store_of(runtime).tokens.find_session(hash_of(secret), now)
    return token if token is not None and token.is_good(now) else None


def find_proven_session(runtime: Runtime, secrets: str) -> Token | None:
    """Return the same for the two secrets of a session, with a blank between them."""
    now = runtime.clock.now()
    secret, _, proof = secrets.partition(" ")
    token = store_of(runtime).tokens.find_session(hash_of(secret), now, proof=hash_of(proof))
    return token if token is not None and token.is_good(now) else None


def end_session(runtime: Runtime, secret: str) -> None:
    store_of(runtime).tokens.end_session(hash_of(secret))
