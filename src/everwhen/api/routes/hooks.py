"""Webhooks and chats: requests that fire a schedule, proven by a token or by a signature with the schedule's secret.

Without a valid proof an unknown schedule, one without a secret and a wrong signature are the same. The
secret is kept as the reference that the file has, and resolved here, from the environment of the process that answers.

Ours is `Everwhen-Signature: t={unix},v1={hex}`, the HMAC-SHA256 of `{t}.{body}`; it is good for five minutes, and
several `v1` may stand in it while a secret is changed. GitHub's is `X-Hub-Signature-256: sha256={hex}`, the HMAC of the
body alone: it has no age, so all that can be done against repetition is to remember it, as long as its job.

A schedule takes one of the two. Ours over a body is GitHub's over `{t}.{body}`: where two schedules share a secret, a
body that begins like that is not taken as GitHub's either.
"""

from __future__ import annotations

import hmac
import json
import logging
import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Annotated, Any, Literal, NamedTuple

from fastapi import Depends, Header
from starlette.requests import Request
from starlette.responses import Response

from everwhen.api.access import (
    OperatorOrProof,
    counted_body,
    refuse_hasty_calls,
    refuse_proof,
    unauthenticated,
)
from everwhen.api.calls import Context, ScheduleId, described, fired, make_router
from everwhen.api.context import ApiContext, context_of
from everwhen.api.costs import cheap
from everwhen.api.json_reader import parse_json
from everwhen.api.payloads import HOOK_BODY
from everwhen.api.problems import RefusedError
from everwhen.api.request_guard import media_type
from everwhen.errors import RequestError, UnknownScheduleError
from everwhen.model.changes import A_PERSON
from everwhen.model.fields import SignatureScheme
from everwhen.model.instants import SECOND
from everwhen.model.schedule import Definition, Schedule
from everwhen.model.token import ANSWERS_KEPT
from everwhen.operations.access import Caller
from everwhen.operations.jobs import IdempotencyKey, fire_schedule
from everwhen.operations.schedules import Permit, find_schedule
from everwhen.targets.secrets import Secrets, UnresolvedError
from everwhen.timetable.trigger import OnRequest
from everwhen.views.jobs import Fired

Kind = Literal["webhook", "chat"]
Scheme = SignatureScheme
HEADERS: dict[Scheme, str] = {"everwhen": "everwhen-signature", "github": "x-hub-signature-256"}
GOOD_FOR = 300 * SECOND
MOST_MACS = 4
_MAC = re.compile(r"[0-9a-fA-F]{64}")
_UNIX = re.compile(r"[0-9]{1,12}")
_BEGINS_LIKE_OURS = re.compile(rb"[0-9]{1,12}\.")
NO_PROOF = "This signature is not right for this schedule, or the schedule takes none."

router = make_router("hooks")


class HookRequest(NamedTuple):
    """A request before anything is decided: what it brings, and what it has to show."""

    request: Request
    body: bytes
    caller: Caller | None


async def _hook_request(request: Request, caller: OperatorOrProof) -> HookRequest:
    most = context_of(request).settings.max_payload
    detail = f"The body of a hook has at most {most} bytes: it becomes a payload."
    return HookRequest(request, await counted_body(request, most, detail), caller)


_OURS = "`t={unix},v1={hex HMAC-SHA256 of the time, a dot and the body}`, at most 5 minutes old."
_GITHUBS = "GitHub's: `sha256={hex HMAC-SHA256 of the body}`, for schedules with `signature: github`."
OurSignature = Annotated[str | None, Header(alias="Everwhen-Signature", description=_OURS, max_length=1_000)]
GitHubSignature = Annotated[
    str | None, Header(alias="X-Hub-Signature-256", description=_GITHUBS, max_length=200)
]
_BODY = {
    "requestBody": {
        "required": False,
        "description": "Anything up to api.max_payload; it becomes `payload.body`, JSON as what it says.",
        "content": {"application/json": {"schema": HOOK_BODY}, "text/plain": {"schema": {"type": "string"}}},
    }
}
_CALL = described(
    "", Fired, "The job, or why there is none; the same signature again gets what it got.", 404, status=202
)


def _add_call(name: str, path: str, kind: Kind, about: str) -> None:
    """Register the call that fires schedules of one kind."""

    def fire(
        context: Context,
        schedule_id: ScheduleId,
        hook_request: Annotated[HookRequest, Depends(_hook_request)],
        _caller: OperatorOrProof,  # whose turn it is
        _ours: OurSignature = None,
        _githubs: GitHubSignature = None,
    ) -> Response:
        return _fired(context, schedule_id, hook_request, kind)

    call = {**_CALL, "summary": f"Fire a {kind} schedule"}
    router.post(f"/{path}/{{schedule_id}}/", **call, name=name, description=about, openapi_extra=_BODY)(
        cheap(fire)
    )


_add_call(
    "fire_webhook",
    "hooks",
    "webhook",
    "With a token, or a signature of the body by the schedule's secret. Only a pause and if_running can skip it.",
)
_add_call(
    "fire_chat", "chat", "chat", "As with webhooks; where the schedule has no secret, only a token opens it."
)


def _fired(context: ApiContext, schedule_id: str, hook_request: HookRequest, kind: Kind) -> Response:
    permit, once = _proven(context, schedule_id, hook_request)

    def permit_kind(schedule: Schedule) -> None:
        permit(schedule)
        trigger = schedule.definition.trigger
        if not isinstance(trigger, OnRequest) or trigger.kind != kind:
            raise RequestError(schedule.state.schedule_id)

    payload = {"body": _data_in(hook_request)}
    cause = A_PERSON if hook_request.caller is None else hook_request.caller.cause
    firing = fire_schedule(
        context.runtime, schedule_id, payload=payload, permit=permit_kind, once=once, cause=cause
    )
    return fired(context, firing, {"idempotent-replayed": "true"} if firing.is_repeated else None)


def _data_in(hook_request: HookRequest) -> Any:
    """The body as data where it is JSON, and says so or says nothing; else as text."""
    said = media_type(hook_request.request.headers)
    if not hook_request.body:
        return None
    if said == "application/json" or said.endswith("+json"):
        return parse_json(hook_request.body)
    try:
        text = hook_request.body.decode()
    except UnicodeError:
        raise RefusedError(400, "The body is neither JSON nor text in UTF-8.") from None
    if said:
        return text
    try:
        return parse_json(hook_request.body)
    except RefusedError:
        return text


# -- who may --


def _proven(
    context: ApiContext, schedule_id: str, hook_request: HookRequest
) -> tuple[Permit, IdempotencyKey | None]:
    if hook_request.caller is not None:
        caller = hook_request.caller
        return caller.refuse_other_keys if hook_request.body else caller.refuse_unapproved, None
    try:
        signatures = signatures_in(hook_request.request.headers, context.runtime.clock.now())
    except BadSignatureError as error:
        refuse_proof(context, hook_request.request, "signature", str(error))
    if not signatures:
        raise unauthenticated("Send a token, or sign the body: Everwhen-Signature, or X-Hub-Signature-256.")
    scheme, key = _signed(context, find_schedule(context.runtime, schedule_id), signatures, hook_request.body)
    if key is None:
        refuse_proof(context, hook_request.request, "signature", NO_PROOF)
    refuse_hasty_calls(context, f"hook:{schedule_id}", "This hook is called too often.")

    def permit(schedule: Schedule) -> None:  # again where it is fired: the secret may have been changed since
        if _signed(context, schedule, signatures, hook_request.body) != (scheme, key):
            raise UnknownScheduleError(schedule_id)

    # Ours has a time in it and is too old to come again long before it is forgotten; GitHub's is good for ever.
    return permit, IdempotencyKey(key, context.jobs_kept if scheme == "github" else ANSWERS_KEPT)


def _signed(
    context: ApiContext, schedule: Schedule | None, signatures: Mapping[Scheme, Signature], body: bytes
) -> tuple[Scheme, str | None]:
    """The one scheme that the schedule takes, and what names the request, if it is signed that way."""
    if schedule is None:  # which takes as long
        return "everwhen", signatures.get("everwhen", UNSIGNED).key("", body)
    scheme, reference = _signing(schedule.definition)
    return scheme, signatures.get(scheme, UNSIGNED).key(_resolved(context, schedule, reference), body)


def _signing(definition: Definition) -> tuple[Scheme, str]:
    """Return the scheme and the secret of a schedule; those of an agent of the file are part of its target."""
    if definition.secret is not None or definition.target.kind != "agent":
        return definition.signature, definition.secret or ""
    fields = json.loads(definition.target.spec)
    return ("github" if fields.get("signature") == "github" else "everwhen"), fields.get("secret") or ""


def _resolved(context: ApiContext, schedule: Schedule, reference: str) -> str:
    """Return what the requests of a schedule are signed with; nothing when it takes none, or it is not known here."""
    try:
        return str(Secrets().resolve(reference))
    except UnresolvedError as error:
        message = "no signature of %s can be checked: %s"
        context.log_seldom(logging.WARNING, message, schedule.state.schedule_id, error)
        return ""


# -- signatures --


class BadSignatureError(Exception):
    """A header that is not a signature, or one that is too old; its words are for the caller."""


class Signature(NamedTuple):
    """What a request claims to be signed with, and over which bytes."""

    name: str
    macs: tuple[str, ...]
    prefix: bytes

    def key(self, secret: str, body: bytes) -> str | None:
        """What names this request, if the secret signs it; None if it does not. Takes equally long either way."""
        right = hmac.new(secret.encode(), self.prefix + body, sha256).hexdigest()
        found = [hmac.compare_digest(right, mac) for mac in self.macs]
        is_ambiguous = not self.prefix and _BEGINS_LIKE_OURS.match(body)
        is_right = secret and any(found) and not is_ambiguous
        return f"{self.name}:{self.prefix.decode()}{right}" if is_right else None


UNSIGNED = Signature("", (), b"")


def signatures_in(headers: Mapping[str, str], now: int) -> dict[Scheme, Signature]:
    """The signatures of a request, each by the scheme that it claims to be of."""
    found: dict[Scheme, Signature] = {}
    if (text := headers.get(HEADERS["everwhen"])) is not None:
        found["everwhen"] = _ours(text, now)
    if (text := headers.get(HEADERS["github"])) is not None:
        found["github"] = _githubs(text)
    return found


def _ours(text: str, now: int) -> Signature:
    parts = [part.strip().partition("=") for part in text.split(",", MOST_MACS + 1)]
    times = [value for key, _, value in parts if key == "t"]
    macs = tuple(value.lower() for key, _, value in parts if key == "v1" and _MAC.fullmatch(value))
    if len(times) != 1 or not _UNIX.fullmatch(times[0]) or not macs:
        raise BadSignatureError(
            "Everwhen-Signature reads t={unix},v1={hex HMAC-SHA256 of the time, a dot and the body}."
        )
    if abs(now - int(times[0]) * SECOND) > GOOD_FOR:
        raise BadSignatureError(
            "The time of this signature is more than 5 minutes from now; sign again, and check the clocks."
        )
    return Signature("v1", macs, f"{times[0]}.".encode())


def _githubs(text: str) -> Signature:
    kind, _, mac = text.strip().partition("=")
    if kind != "sha256" or not _MAC.fullmatch(mac):
        raise BadSignatureError("X-Hub-Signature-256 reads sha256={hex HMAC-SHA256 of the body}.")
    return Signature("github", (mac.lower(),), b"")
