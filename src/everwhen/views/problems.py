"""Every error of everwhen's own as RFC 9457 problem details: one page from the error tree to status and type.

The type of a problem is stable: programs decide by it. `detail` is a sentence for people.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from everwhen import errors
from everwhen.model.group import NOT_FOUND as NO_WORKFLOW
from everwhen.operations.system import describe_fault

URN = "urn:everwhen:problem:"

# The status and the type of each error; the first class that fits counts, so special ones stand before general ones.
_BY_ERROR: tuple[tuple[type[Exception], int, str], ...] = (
    (errors.UnknownScheduleError, 404, "not-found"),
    (errors.UnknownJobError, 404, "not-found"),
    (errors.UnknownPolicyError, 404, "not-found"),
    (errors.UnknownAlertError, 404, "not-found"),
    (errors.UnknownWebhookError, 404, "not-found"),
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
    (errors.ExistingKeyError, 412, "exists"),
    (errors.UnseenRevisionError, 428, "revision-needed"),
    (errors.RepeatedRequestError, 422, "idempotency-key-reused"),
    (errors.FiringLimitError, 429, "too-many-requests"),
    (errors.QuotaError, 403, "limit-reached"),
    (errors.WebhookQuotaError, 403, "limit-reached"),
    (errors.LimitError, 403, "beyond-limit"),
    (errors.AccessError, 403, "forbidden"),
    (errors.TokenError, 422, "invalid"),
    (errors.BackfillError, 422, "invalid"),
    (errors.RemovalError, 409, "removes-most"),
    (errors.ConfigError, 422, "invalid"),
    (errors.TooManyMatchesError, 422, "invalid"),
    (errors.PayloadSizeError, 413, "too-large"),
    (errors.TimetableError, 422, "invalid"),
    (errors.IntervalParseError, 422, "invalid"),
    (errors.CronParseError, 422, "invalid"),
    (errors.CostError, 422, "invalid"),
)
BY_STATUS = {
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
    "changed-meanwhile": "Changed in the meantime",
    "conflict": "Conflict with what exists",
    "declared-elsewhere": "Declared in the configuration file or in code",
    "duplicate": "Already exists",
    "exists": "Already exists",
    "forbidden": "Not allowed",
    "head-too-large": "The head of the request is too large",
    "idempotency-key-reused": "The Idempotency-Key was used for another request",
    "in-use": "In use",
    "internal": "Internal error in everwhen",
    "invalid": "Not valid",
    "limit-reached": "A limit of this token is reached",
    "malformed": "Cannot be read",
    "method-not-allowed": "Method not allowed",
    "not-found": "Not found",
    "not-requestable": "Fired by the clock, not by requests",
    "outcome-refused": "The outcome cannot be accepted",
    "removes-most": "Would remove most schedules",
    "revision-needed": "The reviewed revision is required",
    "timeout": "Timed out",
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

UNAVAILABLE = "The database does not answer; the log of the service says why."


def problem_fields(status: int, kind: str, detail: str, faults: Faults = ()) -> Fields:
    fields: Fields = {"type": URN + kind, "title": TITLES[kind], "status": status, "detail": detail}
    if faults:
        fields["errors"] = [{"path": path, "message": message} for path, message in faults]
    return fields


def fields_of(error: Exception, *, is_local: bool = False) -> Fields:
    """Return the problem of an error. `is_local`: only a user of this machine reads it, who may see addresses."""
    has_faults = isinstance(error, errors.SubmissionError | errors.ExistingKeyError)
    faults: Faults = getattr(error, "problems", ()) if has_faults else ()
    if any(message.startswith(NO_WORKFLOW.rstrip(".")) for _, message in faults):
        return problem_fields(404, "not-found", NO_WORKFLOW, faults)
    if isinstance(error, errors.SubmissionError) and error.is_oversize:
        return problem_fields(413, "too-large", str(error), faults)
    if not faults and (key := getattr(error, "key", None)) and isinstance(error, errors.TimetableError):
        faults = [(str(key), str(error))]
    if isinstance(error, errors.StoreError):
        return problem_fields(503, "unavailable", str(error) if is_local else _unavailable(error))
    for kind, status, name in _BY_ERROR:
        if isinstance(error, kind):
            return problem_fields(status, name, getattr(error, "detail", str(error)), faults)
    return problem_fields(400, "malformed", str(error))


def _unavailable(error: errors.StoreError) -> str:
    """Name the cause, if it is known; the message of the error is not for everybody: it has the database's address."""
    if error.fault is None:
        return UNAVAILABLE
    return f"T{describe_fault(error)[1:]}; the log of the service says more."


def problem_bytes(fields: Fields) -> bytes:
    return json.dumps(fields, ensure_ascii=False).encode(errors="replace")
