"""Tokens as they are answered: without their secrets."""

from __future__ import annotations

from everwhen.model.token import Token, limits_to_json
from everwhen.views.values import Object, when_text

_LIMITS = "max_schedules min_interval ttl fires_per_hour fires_per_day targets approval".split()


def token_to_json(token: Token) -> Object:
    return {
        "id": token.token_id,
        "name": token.name,
        "role": token.role,
        "owner": token.owner,
        "limits": {**dict.fromkeys(_LIMITS), **limits_to_json(token.limits)},
        "created_at": when_text(token.created_at),
        "created_by": token.created_by,
        "expires_at": when_text(token.expires_at),
        "revoked_at": when_text(token.revoked_at),
    }
