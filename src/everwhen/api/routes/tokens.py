"""Tokens, who is asking, and the sessions of browsers."""

from __future__ import annotations

from typing import Annotated, Any

from anyio.to_thread import run_sync
from fastapi import Path, Query, Request
from pydantic import Field
from starlette.responses import Response

from everwhen.api.access import (
    Admin,
    AuthenticatedRoute,
    Viewer,
    caller_of,
    cookie_of,
    forget,
    is_encrypted,
    known,
    proof_in,
    refuse_proof,
    session_in,
)
from everwhen.api.calls import Context, answer, described, make_router, nothing
from everwhen.api.context import ApiContext
from everwhen.api.costs import cheap
from everwhen.api.payloads import MODELS, Duration, Identifier, Shape
from everwhen.api.problems import InvalidError
from everwhen.api.request_guard import root_of
from everwhen.model import token as model
from everwhen.model.instants import SECOND
from everwhen.model.policy import OnReached
from everwhen.model.token import AccessRole, ApprovalMode, limits_of
from everwhen.operations import tokens
from everwhen.operations.access import Caller
from everwhen.operations.context import surroundings_of
from everwhen.timetable.interval import parse_seconds
from everwhen.views import system as tokens_view
from everwhen.views.shape import Object, list_to_json
from everwhen.views.system import Me, NewToken, Token, TokenList, me_to_json

router = make_router("tokens", route_class=AuthenticatedRoute)
TokenId = Annotated[str, Path(max_length=300, pattern=r"^[^\x00]+$", examples=["tok_a1b2c3d4e5f6"])]


class Limits(Shape):
    """What a token may make and cause at most; what is left out is not limited.

    Durations are as in files (`5m`), or in seconds; costs have a unit (`5 USD`).
    """

    max_schedules: int | None = None
    min_interval: Duration | None = Field(
        default=None, description="The shortest interval that its schedules may have.", examples=["5m"]
    )
    ttl: Duration | None = Field(default=None, description="How long its schedules last.", examples=["30d"])
    fires_per_hour: int | None = None
    fires_per_day: int | None = None
    targets: list[Identifier] | None = Field(
        default=None, max_length=100, fail_fast=True, examples=[["http", "message"]]
    )
    approval: ApprovalMode | None = Field(
        default=None, description="Whether what it creates waits for the approval of another person."
    )
    cost_per_day: str | None = Field(default=None, max_length=100, examples=["5 USD"])
    cost_per_month: str | None = Field(default=None, max_length=100, examples=["100 USD"])
    cost_per_run: str | None = Field(default=None, max_length=100, examples=["0.50 USD"])
    on_reached: OnReached | None = Field(
        default=None, description="skip slots (the default), pause schedules, or only alert."
    )
    catch_up_share: str | int | None = Field(
        default=None, description="How much of a window catch-up may take.", examples=["50%"]
    )


MODELS[tokens_view.Limits] = Limits


class TokenBody(Shape):
    """A token to be made."""

    name: Identifier = Field(examples=["the dashboard of team a"])
    role: AccessRole = "viewer"
    owner: Identifier | None = None
    limits: Limits = Field(default_factory=Limits)
    expires_in: Duration | None = Field(default=None, description="How long it is valid.", examples=["90d"])


@router.get("/tokens/", **described("List tokens", TokenList, "All."))
@cheap
def list_tokens(context: Context, caller: Admin) -> Response:
    """Newest first, including revoked tokens. A token with an owner sees the tokens of its owner."""
    items = [Token.of(token) for token in tokens.list_tokens(context.runtime, maker=caller.token)]
    return answer(list_to_json(items))


@router.post("/tokens/", **described("Create a token", NewToken, "The token, with its secret.", status=201))
@cheap
def create_token(context: Context, caller: Admin, body: TokenBody) -> Response:
    """Only this answer contains the secret. A token with an owner creates tokens of that owner."""
    made = tokens.create_token(
        context.runtime,
        body.name,
        body.role,
        owner=body.owner if body.owner is not None else caller.token.owner,
        limits=limits_of(body.limits.model_dump()),
        lasts=_seconds(body.expires_in),
        maker=caller.token,
    )
    return answer(NewToken.of(made.token, token=made.secret), 201, {"cache-control": "no-store"})


def _seconds(duration: Any) -> int | None:
    if duration is None:
        return None
    seconds = duration if isinstance(duration, int) else parse_seconds(duration)
    if not 0 < seconds <= 3_650 * 86_400:
        raise InvalidError("expires_in", "is out of bounds", "expires_in is a duration of at most 3650d.")
    return seconds


@router.delete(
    "/tokens/{token_id}/",
    **described(
        "Revoke a token",
        None,
        "The token is no longer valid; the schedules that it created stay.",
        404,
        status=204,
    ),
)
@cheap
def revoke_token(
    context: Context,
    caller: Admin,
    token_id: TokenId,
    pause: Annotated[bool, Query(description="Also pause the schedules that it created.")] = False,
) -> Response:
    """Takes effect at once in this process, and within a second in others. The sessions of the token end."""
    tokens.revoke_token(context.runtime, token_id, maker=caller.token, pause=pause)
    forget(context, token_id)
    return nothing()


@router.get("/me/", **described("Show the token of this request", Me, "The token that asks."))
@cheap
def get_me(context: Context, caller: Viewer, request: Request) -> Response:
    """What this token may do; in a session, also the proof that was sent."""
    has_header = "authorization" in request.headers or "x-api-key" in request.headers
    return answer(_me(context, caller, None if has_header else proof_in(request)))


def _me(context: ApiContext, caller: Caller, proof: str | None) -> Object:
    via = "token" if proof is None else "session"
    around = surroundings_of(context.runtime, caller)
    return me_to_json(caller.token, around, via=via, csrf_token=proof)


# -- sessions --


class SessionBody(Shape):
    """The token to begin a session with."""

    token: Annotated[str, Field(min_length=1, max_length=500)]


@router.post(
    "/session/",
    **described("Begin a session", Me, "Who it is; the cookie is set.", status=201),
    openapi_extra={"security": []},
)
@cheap
async def begin_session(request: Request, context: Context, body: SessionBody) -> Response:
    """For browsers: the cookie replaces the token for 12 hours, together with `csrf_token` in the header X-CSRF-Token.
    Only this answer has that proof; the cookie alone opens nothing."""
    return await _begun(request, context, await known(context, request, body.token))


class LinkBody(Shape):
    """The key of a link that signs in."""

    key: Annotated[str, Field(min_length=1, max_length=500)]


@router.post(
    "/session/link/",
    **described("Begin a session with a link", Me, "The token; the cookie is set.", status=201),
    openapi_extra={"security": []},
)
@cheap
async def begin_linked_session(request: Request, context: Context, body: LinkBody) -> Response:
    """`everwhen up` prints the link on a terminal. It works once, for ten minutes, in the process that printed it. The
    session belongs to an admin token that lives as long as the session."""
    if not context.sign_in_links.take(body.key):
        await run_sync(refuse_proof, context, request, "sign-in link", "This link was used, or is too old.")
    made = await run_sync(tokens.create_linked_token, context.runtime)
    return await _begun(request, context, made.token)


async def _begun(request: Request, context: ApiContext, token: model.Token) -> Response:
    made = await run_sync(tokens.begin_session, context.runtime, token)
    caller = caller_of(context, token)
    fields = await run_sync(_me, context, caller, made.proof)
    found = answer(fields, 201, {"cache-control": "no-store"})
    age = (made.session.expires_at - made.session.created_at) // SECOND
    _set_cookie(request, found, made.secret, age)
    return found


@router.delete("/session/", **described("End a session", None, "It is over.", status=204))
@cheap
def end_session(request: Request, context: Context, caller: Viewer) -> Response:
    """The cookie opens nothing any more. The token stays good."""
    secret = session_in(request)
    if secret is not None:
        tokens.end_session(context.runtime, secret)
        forget(context, caller.token.token_id)
    found = nothing()
    _set_cookie(request, found, "", 0)
    return found


def _set_cookie(request: Request, found: Response, secret: str, age: int) -> None:
    """Set the cookie for the paths of this application only: one that hosts it does not get it."""
    path, is_secure = f"{root_of(request.scope)}/", is_encrypted(request)
    found.set_cookie(
        cookie_of(request), secret, age, path=path, secure=is_secure, httponly=True, samesite="strict"
    )
