"""Every error that a caller can get, as RFC 9457 problem details: one page from the error tree to status and type.

The type of a problem is stable: programs decide by it. `detail` is a sentence for people. What a caller sent is
never repeated beyond the words that an error message shows anyway.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from everwhen import errors
from everwhen.api.security_headers import SECURITY_HEADERS
from everwhen.model.workflow import NOT_FOUND as NO_WORKFLOW

MEDIA_TYPE = "application/problem+json"
URN = "urn:everwhen:problem:"

# The status and the type of each error; the first class that fits counts, so special ones stand before general ones.
_BY_ERROR: tuple[tuple[type[Exception], int, str], ...] = (
    (errors.UnknownScheduleError, 404, "not-found"),
    (errors.UnknownJobError, 404, "not-found"),
    (errors.UnknownPolicyError, 404, "not-found"),
    (errors.UnknownBreakerError, 404, "not-found"),
    (errors.UnknownTokenError, 404, "not-found"),
    (errors.UnknownGroupError, 404, "not-found"),
    (errors.SourceGoneError, 409, "conflict"),
    (errors.DuplicatePolicyError, 409, "duplicate"),
    (errors.StatusError, 400, "wrong-status"),
    (errors.RequestError, 400, "not-requestable"),
    (errors.DuplicateScheduleError, 409, "duplicate"),
    (errors.SourceError, 409, "declared-elsewhere"),
    (errors.PolicyInUseError, 409, "in-use"),
    (errors.OutcomeError, 409, "outcome-refused"),
    (errors.PreconditionError, 412, "changed-meanwhile"),
    (errors.UnseenRevisionError, 428, "revision-needed"),
    (errors.RepeatedRequestError, 422, "idempotency-key-reused"),
    (errors.FiringLimitError, 429, "too-many-requests"),
    (errors.QuotaError, 403, "limit-reached"),
    (errors.LimitError, 403, "beyond-limit"),
    (errors.AccessError, 403, "forbidden"),
    (errors.TokenError, 422, "invalid"),
    (errors.BackfillError, 422, "invalid"),
    (errors.RemovalError, 409, "removes-most"),
    (errors.ConfigError, 422, "invalid"),
    (errors.PayloadSizeError, 413, "too-large"),
    (errors.TimetableError, 422, "invalid"),
    (errors.IntervalParseError, 422, "invalid"),
    (errors.CronParseError, 422, "invalid"),
)
_BY_STATUS = {
    400: "malformed",
    401: "unauthenticated",
    403: "forbidden",
    404: "not-found",
    405: "method-not-allowed",
    408: "timeout",
    409: "conflict",
    412: "changed-meanwhile",
    413: "too-large",
    415: "unsupported-media-type",
    421: "wrong-host",
    422: "invalid",
    428: "revision-needed",
    429: "too-many-requests",
    431: "head-too-large",
    500: "internal",
    503: "unavailable",
}
TITLES = {
    "beyond-limit": "Beyond a limit of this token",
    "changed-meanwhile": "Somebody else changed it",
    "conflict": "In conflict with what is there",
    "declared-elsewhere": "Declared in the configuration file or in code",
    "duplicate": "There already",
    "forbidden": "Not allowed",
    "head-too-large": "The head of the request is too large",
    "idempotency-key-reused": "The Idempotency-Key was used for another request",
    "in-use": "In use",
    "internal": "A mistake in everwhen",
    "invalid": "Not valid",
    "limit-reached": "A limit of this token is reached",
    "malformed": "Cannot be read",
    "method-not-allowed": "No such method here",
    "not-found": "Not found",
    "not-requestable": "Fired by the clock, not by requests",
    "outcome-refused": "The outcome cannot be taken",
    "removes-most": "Would remove most schedules",
    "revision-needed": "The revision that was looked at is needed",
    "timeout": "Took too long",
    "too-large": "Too large",
    "too-many-requests": "Too many requests",
    "unauthenticated": "No valid token",
    "unavailable": "The database does not answer",
    "unsupported-media-type": "Not JSON",
    "wrong-host": "Not a name of this service",
    "wrong-status": "Not possible in this status",
}
# What is wrong with one part of a request: where it stands, and what would be right.
Faults = Sequence[tuple[str, str]]
Fields = dict[str, Any]

MOST_FAULTS = 20
UNAVAILABLE = "The database does not answer; the log of the service says why."

log = logging.getLogger("everwhen")


class RefusedError(Exception):
    """A request that is refused before any operation is asked."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        faults: Faults = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.faults = faults
        self.headers = headers


def problem(
    status: int,
    kind: str,
    detail: str,
    *,
    faults: Faults = (),
    headers: Mapping[str, str] | None = None,
) -> Response:
    """One problem as an answer."""
    return _answered(_words(status, kind, detail, faults), headers)


def _words(status: int, kind: str, detail: str, faults: Faults = ()) -> Fields:
    fields: Fields = {"type": URN + kind, "title": TITLES[kind], "status": status, "detail": detail}
    if faults:
        fields["errors"] = [{"path": path, "message": message} for path, message in faults]
    return fields


def _answered(fields: Fields, headers: Mapping[str, str] | None = None) -> Response:
    body = json.dumps(fields, ensure_ascii=False).encode(errors="replace")
    return Response(body, fields["status"], dict(headers or {}), MEDIA_TYPE)


def fields_of(error: Exception) -> Fields:
    """The problem that an error of everwhen's own is."""
    faults: Faults = getattr(error, "problems", ()) if isinstance(error, errors.SubmissionError) else ()
    if any(message.startswith(NO_WORKFLOW.rstrip(".")) for _, message in faults):
        return _words(404, "not-found", NO_WORKFLOW, faults)
    if isinstance(error, errors.SubmissionError) and error.is_oversize:
        return _words(413, "too-large", str(error), faults)
    if not faults and (key := getattr(error, "key", None)) and isinstance(error, errors.TimetableError):
        faults = [(str(key), str(error))]
    if isinstance(error, errors.StoreError):
        return _words(503, "unavailable", UNAVAILABLE)  # the error itself says where the database is
    for kind, status, name in _BY_ERROR:
        if isinstance(error, kind):
            return _words(status, name, str(error), faults)
    return _words(400, "malformed", str(error))


def refusal_to_json(error: RefusedError) -> Fields:
    return _words(error.status, _BY_STATUS[error.status], error.detail, error.faults)


# -- as the framework calls them --


async def on_error(request: Request, error: Exception) -> Response:
    if isinstance(error, errors.StoreError):
        request.app.state.context.log_outage(error)
    wait = getattr(error, "retry_after", None)
    return _answered(fields_of(error), None if wait is None else {"retry-after": str(wait)})


async def on_refusal(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RefusedError)
    return _answered(refusal_to_json(error), error.headers)


async def on_http_error(_request: Request, error: Exception) -> Response:
    """What the framework itself refuses: an unknown path, a method that is not there."""
    assert isinstance(error, HTTPException)
    details = {404: "There is nothing at this path.", 405: "This path does not take that method."}
    detail = details.get(error.status_code, str(error.detail))
    kind = _BY_STATUS.get(error.status_code, "malformed")
    return problem(error.status_code, kind, detail, headers=error.headers)


async def on_invalid(_request: Request, error: Exception) -> Response:
    """Parameters or a body that do not have the documented shape."""
    assert isinstance(error, RequestValidationError)
    found = error.errors()
    faults = [(_path(fault["loc"][1:]), str(fault["msg"])) for fault in found[:MOST_FAULTS]]
    if len(found) > MOST_FAULTS:
        faults.append(("", f"there are {len(found) - MOST_FAULTS:,} further problems"))
    detail = "; ".join(f"{path}: {message}" if path else message for path, message in faults)
    return problem(422, "invalid", detail, faults=faults)


def _path(steps: Sequence[int | str]) -> str:
    return ".".join(errors.shown(step) for step in steps)


async def on_mistake(request: Request, error: Exception) -> Response:
    """A defect of everwhen: the log has it, the caller learns only that there is one."""
    log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    # It is sent from outside of what adds these to every other answer.
    return problem(500, "internal", "A mistake in everwhen; its log says more.", headers=SECURITY_HEADERS)
