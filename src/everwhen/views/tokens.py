"""Tokens as they are answered: without their secrets."""

from __future__ import annotations

from dataclasses import fields
from typing import Literal

from everwhen.model.token import AccessRole, TokenLimits, limits_to_json
from everwhen.views.shape import View, When, field
from everwhen.views.values import Object

_LIMITS: Object = dict.fromkeys(each.name for each in fields(TokenLimits))


class Limits(View):
    """What a token may make at most. The model of `api` documents it, because it is part of a body as well."""


class Token(View):
    """A token without its secret."""

    id: str = field("token_id")
    name: str
    role: AccessRole
    owner: str | None = field(about="It is confined to what this owner has; null: everything.")
    limits: Limits = field(via=lambda limits: {**_LIMITS, **limits_to_json(limits)})
    created_at: When
    created_by: str | None
    expires_at: When | None
    revoked_at: When | None


class NewToken(Token):
    """A token with its secret, which is told this once."""

    token: str


class TokenList(View):
    items: list[Token]
    total: int


class Me(Token):
    """Who is asking."""

    via: Literal["token", "session"]
    csrf_token: str | None = field(about="Of a session: to be sent as X-CSRF-Token with every change.")
