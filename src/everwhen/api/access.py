"""Who is calling: the secret of a request becomes a `Caller`, or the request is refused.

A token is looked up once a second at most: one that is revoked is refused at once by the process that revoked it, and
within a second by every other. Failures are counted per address, so that nobody can try secrets, and those that are
counted are in the audit (`auth.denied`).

The role that a call needs is a scope of its dependency (`caller: Operator`): OpenAPI shows it as the roles of the
call's `security`, and `admit` enforces what it finds there, so that the document and the server cannot differ.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Annotated, Any, NoReturn

from anyio.to_thread import run_sync
from fastapi import Depends, Request, Security
from fastapi.routing import APIRoute
from fastapi.security import APIKeyHeader, HTTPAuthorizationCredentials, HTTPBearer, SecurityScopes
from starlette.responses import Response

from everwhen.api.calls import json_body
from everwhen.api.connections import SAFE
from everwhen.api.context import ApiContext, context_of
from everwhen.api.problems import RefusedError
from everwhen.api.proxies import caller_address, caller_scheme, counting_key
from everwhen.api.request_guard import ROOT, SESSION_COOKIE, TOKEN, UNITS, media_type, port_of, root_of
from everwhen.model.token import ROLES, AccessRole, Token, actor_of
from everwhen.operations.access import MCP, Caller
from everwhen.operations.tokens import find_proven_session, find_session, find_token, hash_of, record_denial
from everwhen.runtime import Runtime

LONGEST_SECRET = 500
REMEMBERED = 1.0  # seconds
MOST_REMEMBERED = 10_000

PROOF_HEADER = "X-CSRF-Token"
NO_OWNER = "no-owner"
# Sent by a client that has asked its user about this request; tokens with `approval: ask` are believed, no others.
APPROVAL_HEADER, ACCEPTED = "Everwhen-Approval", "accepted"
# The tools of the MCP server send it with every call. What comes over MCP is caused by an agent, so the mark only adds
# restrictions: without it, a caller may do what its token may do over REST.
CLIENT_HEADER = "Everwhen-Client"
# The calls that the token of a run may make: each of them asks whether the token reaches the schedule.
OF_RUNS = frozenset(
    (
        ("GET", "me/"),
        ("GET", "budgets/"),
        ("GET", "find/"),
        ("POST", "preview/"),
        ("GET", "upcoming/"),
        ("GET", "schedules/"),
        ("POST", "schedules/"),
        ("GET", "schedules/key/{key}/"),
        ("PUT", "schedules/key/{key}/"),
        ("GET", "schedules/{schedule_id}/"),
        ("PATCH", "schedules/{schedule_id}/"),
        ("DELETE", "schedules/{schedule_id}/"),
        ("POST", "schedules/{schedule_id}/pause/"),
        ("POST", "schedules/{schedule_id}/resume/"),
        ("POST", "schedules/{schedule_id}/trigger/"),
        ("GET", "schedules/{schedule_id}/upcoming/"),
        ("GET", "schedules/{schedule_id}/why/"),
        ("GET", "jobs/"),
        ("GET", "jobs/{job_id}/"),
        ("GET", "jobs/{job_id}/log/"),
    )
)

_bearer = HTTPBearer(auto_error=False, description="A token of `everwhen token create`.")
_api_key = APIKeyHeader(name="X-API-Key", auto_error=False, description="The same token in a header.")


Bearer = Annotated[HTTPAuthorizationCredentials | None, Security(_bearer)]
ApiKey = Annotated[str | None, Security(_api_key)]


async def authenticate(request: Request, scopes: SecurityScopes, bearer: Bearer, api_key: ApiKey) -> Caller:
    """Return the caller, who has the role that the call's scopes name; `no-owner`: and is not confined to an owner."""
    context = context_of(request)
    # What OpenAPI tells of the call, read from there.
    (role,) = (role for role in ROLES if role in scopes.scopes)
    is_global = NO_OWNER in scopes.scopes
    token = await _token_of(context, request, bearer, api_key)
    # Also for what it may not, which is on record.
    refuse_haste(context, token)
    if not token.may(role) or (is_global and token.owner is not None):
        detail = f"This call requires {_rank(role)}{' without an owner' if is_global else ''}."
        await run_sync(_deny, context, request, actor_of(token), "role")
        raise RefusedError(403, detail)
    if token.confined is not None:
        _refuse_beyond_run(request)
    has_accepted = request.headers.get(APPROVAL_HEADER) == ACCEPTED
    via = MCP if request.headers.get(CLIENT_HEADER) == MCP else None
    return caller_of(context, token, has_accepted=has_accepted, via=via)


def caller_of(
    context: ApiContext, token: Token, *, has_accepted: bool = False, via: str | None = None
) -> Caller:
    """Return the caller with this token, and what this service lets callers do."""
    settings = context.settings
    return Caller(
        token,
        settings.allow_code_targets,
        settings.max_payload,
        context.safe_kinds,
        context.groups,
        allows_private_urls=settings.allow_private_urls,
        has_accepted=has_accepted,
        via=via,
    )


def _refuse_beyond_run(request: Request) -> None:
    """Refuse to the token of a run every call that does not look at whose schedule it is about."""
    path = request.scope["route"].path
    if (request.method, path.removeprefix(f"{ROOT}/")) not in OF_RUNS:
        raise RefusedError(403, "The token of a run reaches only the schedules that runs of its agent made.")


def _rank(role: AccessRole) -> str:
    """Return the tokens that have a role, in words: each role may do what the ones below it may."""
    articles = {"viewer": "a token", "operator": "an operator or admin token", "admin": "an admin token"}
    return articles[role]


async def authenticate_with_token(
    request: Request, scopes: SecurityScopes, bearer: Bearer, api_key: ApiKey
) -> Caller | None:
    """Do the same for a call that accepts another proof as well; return None when no token was sent."""
    return await authenticate(request, scopes, bearer, api_key) if bearer or api_key else None


async def authenticate_operator(request: Request) -> Caller:
    """Return the same as `Operator`, for a route that does without the framework's dependencies."""
    return await authenticate(
        request, SecurityScopes(OPERATOR), await _bearer(request), await _api_key(request)
    )


async def refuse_unknown(request: Request) -> None:
    """Refuse a request whose sender is not known, before anything of it is read; the role is not looked at."""
    await _token_of(context_of(request), request, await _bearer(request), await _api_key(request))


async def secret_of(request: Request) -> str:
    """Return the token that a request brings in a header, after it was found to be in force; cookies are not taken."""
    context, bearer = context_of(request), await _bearer(request)
    secret = bearer.credentials if bearer is not None else await _api_key(request)
    if not secret:
        raise unauthenticated("Send a token: Authorization: Bearer TOKEN, or X-API-Key: TOKEN.")
    token = await known(context, request, secret)
    refuse_haste(context, token)
    return secret


async def _token_of(context: ApiContext, request: Request, bearer: Bearer, api_key: ApiKey) -> Token:
    secret = bearer.credentials if bearer is not None else api_key
    return await (known(context, request, secret) if secret else _of_session(context, request))


def refuse_haste(context: ApiContext, token: Token) -> None:
    """Count a request of this token, and of its owner; refuse it beyond their rate."""
    _refuse_until(context.rates.take_of(token), "This token, or its owner, sends too many requests.")


def refuse_hasty_calls(context: ApiContext, who: str, detail: str) -> None:
    """Count a request that another proof than a token opens; refuse it beyond its rate."""
    _refuse_until(context.rates.take(who), detail)


def _refuse_until(wait: float, detail: str) -> None:
    if wait:
        raise RefusedError(429, detail, headers={"retry-after": str(int(wait) + 1)})


def refuse_proof(context: ApiContext, request: Request, reason: str, detail: str) -> NoReturn:
    """Refuse a wrong proof: count it per address, record it, and do not say what would be right."""
    refuse_guessing(context, request, "Too many requests with a wrong signature or token.")
    _deny(context, request, None, reason)
    raise unauthenticated(detail)


def unauthenticated(detail: str, challenge: str = "Bearer") -> RefusedError:
    return RefusedError(401, detail, headers={"www-authenticate": challenge})


OPERATOR = ["operator"]
Viewer = Annotated[Caller, Security(authenticate, scopes=["viewer"])]
Operator = Annotated[Caller, Security(authenticate, scopes=OPERATOR)]
Admin = Annotated[Caller, Security(authenticate, scopes=["admin"])]
GlobalViewer = Annotated[Caller, Security(authenticate, scopes=["viewer", NO_OWNER])]
GlobalOperator = Annotated[Caller, Security(authenticate, scopes=["operator", NO_OWNER])]
GlobalAdmin = Annotated[Caller, Security(authenticate, scopes=["admin", NO_OWNER])]
OperatorOrProof = Annotated[Caller | None, Security(authenticate_with_token, scopes=["operator"])]


def refuse_guessing(
    context: ApiContext, request: Request, detail: str = "Too many requests with a wrong token."
) -> None:
    """Count a secret that is not valid; refuse an address with too many of them."""
    _refuse_until(context.failures.take(counting_key(_address(context, request))), detail)


def forget(context: ApiContext, token_id: str | None = None) -> None:
    """Forget what is cached about a token, or about all: it was revoked, or a session has ended."""
    for key, (token, _) in list(context.known_tokens.items()):
        if token_id in (None, token.token_id):
            context.known_tokens.pop(key, None)


async def known(context: ApiContext, request: Request, secret: str) -> Token:
    """Return the token with this secret; count and record a wrong one."""
    token = context.insiders.get(hash_of(secret))
    if token is None and len(secret) <= LONGEST_SECRET:
        token = await _looked_up(context, request, secret, find_token)
    if token is not None:
        return _seen(request, token)
    refuse_guessing(context, request)
    await run_sync(_deny, context, request, None, "unknown token")
    raise unauthenticated("This token is unknown, expired or revoked.", 'Bearer error="invalid_token"')


async def _of_session(context: ApiContext, request: Request) -> Token:
    """Return the token behind the cookie of our page, which proves that it is our page.

    A browser sends the cookie to every port of the host, so the cookie alone opens nothing, not even for reading.
    """
    secret = session_in(request)
    if secret is None:
        raise unauthenticated("Send a token: Authorization: Bearer TOKEN, or X-API-Key: TOKEN.")
    token = await _looked_up(context, request, f"{secret} {proof_in(request)}", find_proven_session)
    return await _refuse_unproven(context, request, secret) if token is None else _seen(request, token)


def _seen(request: Request, token: Token) -> Token:
    """Note whose request it is, for what counts requests and shares places out."""
    setattr(request.state, TOKEN, token)
    return token


async def _refuse_unproven(context: ApiContext, request: Request, secret: str) -> NoReturn:
    """Refuse a cookie without the proof of its page, and record whose it is; or one whose session has ended."""
    refuse_guessing(context, request)
    token = await run_sync(find_session, context.runtime, secret)
    if token is None:
        raise unauthenticated("This session has ended; begin another.")
    await run_sync(_deny, context, request, actor_of(token), "csrf")
    if request.method in SAFE:
        raise unauthenticated(
            f"A session requires the header {PROOF_HEADER}; sign in again to get its value."
        )
    raise RefusedError(403, f"Changes in a session require the header {PROOF_HEADER}.")


async def session_of(request: Request, bearer: Bearer, api_key: ApiKey) -> str | None:
    """Return the session that authenticates this request; None where a token does."""
    return None if bearer is not None or api_key is not None else session_in(request)


ItsSession = Annotated[str | None, Depends(session_of)]


def session_in(request: Request) -> str | None:
    secret = request.cookies.get(cookie_of(request))
    return secret if secret and len(secret) <= LONGEST_SECRET else None


def proof_in(request: Request) -> str:
    """Return what a page sends to prove that the session is its own."""
    return request.headers.get(PROOF_HEADER, "")[:LONGEST_SECRET]


def cookie_of(request: Request) -> str:
    """Return the name of the cookie of a session that begins at the address of this request.

    With TLS, browsers let nobody else set a cookie of that name: no other host, no page without TLS and, at the root,
    for no other path. Without TLS, services on other ports of the host would overwrite each other's cookie.
    """
    if is_encrypted(request):
        return f"{'__Secure-' if root_of(request.scope) else '__Host-'}{SESSION_COOKIE}"
    return f"{SESSION_COOKIE}_{port_of(request.headers.get('host', ''))}"


def is_encrypted(request: Request) -> bool:
    """Return whether the caller uses TLS, as far as this process or a trusted proxy knows."""
    return caller_scheme(request, context_of(request).settings.trusted_proxies) == "https"


async def _looked_up(
    context: ApiContext, request: Request, secret: str, find: Callable[[Runtime, str], Token | None]
) -> Token | None:
    """Return the token of a secret, from a moment ago or from the database.

    Only the look-up distinguishes a guess from a token. So where an address has sent very many guesses, what was never
    known here waits in a line: its next guesses cost little, and its tokens are not shut out.
    """
    key, now = f"{find.__name__} {hash_of(secret)}", context.runtime.clock.monotonic()
    known = context.known_tokens.get(key)
    if known is not None and now - known[1] < REMEMBERED:
        return known[0] if known[0].is_good(context.runtime.clock.now()) else None
    is_guess = known is None and context.anonymous.lacks(counting_key(_address(context, request)), UNITS)
    if is_guess and not await context.guesses.wait():
        detail = "Too many wrong tokens come from this address."
        raise RefusedError(429, detail, headers={"retry-after": "1"})
    token = await run_sync(find, context.runtime, secret)
    if token is None:
        context.known_tokens.pop(key, None)
        return None
    if token.confined is not None:  # it ends with its job, at once
        return token
    if len(context.known_tokens) >= MOST_REMEMBERED:
        context.known_tokens.clear()
    context.known_tokens[key] = (token, now)
    return token


def _deny(context: ApiContext, request: Request, actor: str | None, reason: str) -> None:
    path, address = request.url.path[:200], _address(context, request)
    detail: dict[str, object] = {"method": request.method, "path": path, "address": address}
    record_denial(context.runtime, actor=actor, reason=reason, detail=detail)


def _address(context: ApiContext, request: Request) -> str:
    return caller_address(request, context.settings.trusted_proxies)


# -- bodies that are read when the caller is known --

MOST_OF_ANYBODY = 1 << 20  # where no token is needed
Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class ReadRequest(Request):
    """A request whose body was read: the framework gets its data."""

    fields: Any = None

    async def json(self) -> Any:
        return self.fields


class AuthenticatedRoute(APIRoute):
    """A route whose body has a model: the body is read when the caller is known, and parsed like every other body.

    The framework by itself would read and parse a body of any client first, on the thread of the event loop.
    """

    def get_route_handler(self) -> Handler:
        handle = super().get_route_handler()
        if self.body_field is None:
            return handle
        is_open = (self.openapi_extra or {}).get("security") == []

        async def handler(request: Request) -> Response:
            if not is_open:
                await refuse_unknown(request)
            return await handle(await _read(request, MOST_OF_ANYBODY if is_open else None))

        return handler


async def _read(request: Request, most: int | None) -> ReadRequest:
    found = ReadRequest(request.scope, request.receive)
    if most is not None:
        detail = f"Without a token, a body may have at most {most:,} bytes."
        # Where `body` keeps it.
        found._body = await counted_body(found, most, detail, {"connection": "close"})
    kind = media_type(request.headers)
    is_json = kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))
    if await found.body() and is_json:
        found.fields = (await json_body(found)).fields
    return found


async def counted_body(
    request: Request, most: int, detail: str, headers: Mapping[str, str] | None = None
) -> bytes:
    """Return the body, counted while it arrives: its sender is not known yet."""
    pieces, length = [], 0
    async for piece in request.stream():
        length += len(piece)
        if length > most:
            raise RefusedError(413, detail, headers=headers)
        pieces.append(piece)
    return b"".join(pieces)
