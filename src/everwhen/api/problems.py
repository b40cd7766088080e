"""Every error that a caller can get, as RFC 9457 problem details: one page from the error tree to status and type.

The type of a problem is stable: programs decide by it. `detail` is a sentence for people. What a caller sent is
never repeated beyond the words that an error message shows anyway.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Send

from everwhen import errors
from everwhen.views.problems import BY_STATUS, Faults, Fields, fields_of, problem_bytes, problem_fields

MEDIA_TYPE = "application/problem+json"
MOST_FAULTS = 20
KEY_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._:-]*$"  # of a caller's own key

# Of every answer: nothing of it is run, framed, guessed at, kept, or told to other sites.
NOTHING = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
SECURITY_HEADERS = {
    "content-security-policy": NOTHING,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}
_RAW = [(name.encode(), value.encode()) for name, value in SECURITY_HEADERS.items()]
_NAMES = frozenset(name for name, _ in _RAW)

log = logging.getLogger("everwhen")


class RefusedError(Exception):
    """A request that is refused before any operation is asked."""

    def __init__(
        self, status: int, detail: str, *, faults: Faults = (), headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.faults = faults
        self.headers = headers


class InvalidError(RefusedError):
    """A parameter or a part of a body that cannot be taken: where it stands, and what is wrong with it."""

    def __init__(self, path: str, fault: str, detail: str) -> None:
        super().__init__(422, detail, faults=[(path, fault)])


def problem(
    status: int, kind: str, detail: str, *, faults: Faults = (), headers: Mapping[str, str] | None = None
) -> Response:
    return _answered(problem_fields(status, kind, detail, faults), headers)


def _answered(fields: Fields, headers: Mapping[str, str] | None = None) -> Response:
    return Response(problem_bytes(fields), fields["status"], dict(headers or {}), MEDIA_TYPE)


def problem_of(error: Exception, *, is_local: bool = False) -> Response:
    """Return the answer to a request that ended with this error of the error tree."""
    wait = getattr(error, "retry_after", None)
    return _answered(
        fields_of(error, is_local=is_local), None if wait is None else {"retry-after": str(wait)}
    )


def refusal_to_json(error: RefusedError) -> Fields:
    return problem_fields(error.status, BY_STATUS[error.status], error.detail, error.faults)


# -- as the framework calls them --


async def on_error(request: Request, error: Exception) -> Response:
    context = request.app.state.context
    is_local = bool(context.insiders)  # a command on the database itself: there is no service with a log
    if isinstance(error, errors.StoreError) and not is_local:
        context.log_outage(error)
    token = getattr(request.state, "token", None)  # a hook may be called with a signature alone
    if token is not None and isinstance(error, errors.LimitError):
        context.charge_refusal(token.token_id)
    return problem_of(error, is_local=is_local)


async def on_refusal(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RefusedError)
    return _answered(refusal_to_json(error), error.headers)


async def on_cut_off(request: Request, _error: Exception) -> Response:
    """Take note of a client that left before its body was there; nobody gets this answer."""
    context = request.app.state.context
    context.log_seldom(logging.INFO, "a client left before the body of its request was there")
    return problem(400, "malformed", "The body of the request ended early.", headers={"connection": "close"})


async def on_http_error(_request: Request, error: Exception) -> Response:
    """Answer what the framework itself refuses: an unknown path, an unknown method."""
    assert isinstance(error, HTTPException)
    details = {404: "There is nothing at this path.", 405: "This path does not take that method."}
    detail = details.get(error.status_code, str(error.detail))
    kind = BY_STATUS.get(error.status_code, "malformed")
    return problem(error.status_code, kind, detail, headers=error.headers)


async def on_invalid(_request: Request, error: Exception) -> Response:
    """Parameters or a body that do not have the documented shape."""
    assert isinstance(error, RequestValidationError)
    found = error.errors()
    faults = [(_path(fault["loc"][1:]), _sentence_of(fault)) for fault in found[:MOST_FAULTS]]
    if len(found) > MOST_FAULTS:
        faults.append(("", f"there are {len(found) - MOST_FAULTS:,} further problems"))
    detail = "; ".join(f"{path}: {message}" if path else message for path, message in faults)
    return problem(422, "invalid", detail, faults=faults)


_INSTANT = "must be an instant with its zone, such as 2026-01-05T09:00:00Z"
# What the framework finds, in the words of our own checks.
_WORDS = {
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "datetime_from_date_parsing": _INSTANT,
    "datetime_object_invalid": _INSTANT,
    "datetime_parsing": _INSTANT,
    "dict_type": "must be an object",
    "extra_forbidden": "unknown key",
    "greater_than_equal": "must be at least {ge}",
    "int_parsing": "must be a whole number",
    "int_type": "must be a whole number",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "list_type": "must be a list",
    "literal_error": "must be one of {expected}",
    "missing": "is required",
    "model_attributes_type": "must be an object",
    "model_type": "must be an object",
    "string_too_long": "must have at most {max_length} characters",
    "string_too_short": "must have at least {min_length} characters",
    "string_type": "must be text",
    "timezone_aware": _INSTANT,
    "too_long": "must have at most {max_length} items",
    "too_short": "must not be empty",
}
_PATTERNS = {
    r"^[^\x00]+$": "must be text, not empty and without zero bytes",
    r"^[^\x00]*$": "must be text without zero bytes",
    KEY_PATTERN: "must have letters, digits, ., _, : and - only, and begin with a letter or digit",
}


def _sentence_of(fault: Mapping[str, Any]) -> str:
    context = fault.get("ctx") or {}
    if fault["type"] == "string_pattern_mismatch":
        return _PATTERNS.get(context["pattern"], str(fault["msg"]))
    words = _WORDS.get(fault["type"])
    return str(fault["msg"]).removeprefix("Value error, ") if words is None else words.format(**context)


def _path(steps: Sequence[int | str]) -> str:
    return ".".join(errors.shown(step) for step in steps)


async def on_mistake(request: Request, error: Exception) -> Response:
    """Answer after a defect of everwhen: the log has it, the caller learns only that there is one."""
    log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    # It is sent from outside of what adds these to every other answer.
    return problem(
        500, "internal", "Internal error in everwhen; its log says more.", headers=SECURITY_HEADERS
    )


def add_security_headers(send: Send) -> Send:
    """Return a `send` that adds the security headers that an answer does not set itself."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = message.get("headers", ())
            own = _NAMES.intersection([name for name, _ in headers])
            added = [header for header in _RAW if header[0] not in own] if own else _RAW
            message = {**message, "headers": [*headers, *added]}
        await send(message)

    return sending
