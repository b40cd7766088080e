"""Webhooks and chats: requests that fire a schedule, proven by a token or by a signature with the schedule's secret.

To whoever cannot prove anything, an unknown schedule, one without a secret and a wrong signature are the same. The
secret is kept as the reference that the file has, and resolved here, from the environment of the process that answers.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple

from fastapi import APIRouter, Depends, Header
from starlette.requests import Request
from starlette.responses import Response

from everwhen.api.access import OperatorOrProof, refuse_haste, refuse_proof
from everwhen.api.calls import Desk, ScheduleId, answer, says
from everwhen.api.job_payloads import Fired, job_words
from everwhen.api.json_reader import parse_json
from everwhen.api.office import Office, office_of
from everwhen.api.problems import RefusedError
from everwhen.api.signatures import UNSIGNED, BadSignatureError, Scheme, Signature, signatures_in
from everwhen.errors import RequestError, UnknownScheduleError
from everwhen.model.schedule import Schedule
from everwhen.model.token import ANSWERS_KEPT
from everwhen.operations import jobs
from everwhen.operations.firing import Once, fire_schedule
from everwhen.operations.schedules import Permit
from everwhen.operations.submissions import Caller
from everwhen.targets.secrets import Secrets, UnresolvedError
from everwhen.timetable.trigger import OnRequest

Kind = Literal["webhook", "chat"]
NO_PROOF = "This signature is not right for this schedule, or the schedule takes none."

log = logging.getLogger("everwhen")
router = APIRouter(tags=["hooks"])


class Knock(NamedTuple):
    """A request before anything is decided: what it brings, and what it has to show."""

    request: Request
    body: bytes
    caller: Caller | None


async def _knock(request: Request, caller: OperatorOrProof) -> Knock:
    """The body, counted while it comes: whoever sends it may be anybody."""
    most = office_of(request).settings.max_payload
    pieces, length = [], 0
    async for piece in request.stream():
        length += len(piece)
        if length > most:
            raise RefusedError(413, f"The body of a hook has at most {most} bytes: it becomes a payload.")
        pieces.append(piece)
    return Knock(request, b"".join(pieces), caller)


Knocking = Annotated[Knock, Depends(_knock)]
OurSignature = Annotated[
    str | None,
    Header(
        alias="Everwhen-Signature",
        description="`t={unix},v1={hex HMAC-SHA256 of the time, a dot and the body}`, at most 5 minutes old.",
        max_length=1_000,
    ),
]
GitHubSignature = Annotated[
    str | None,
    Header(
        alias="X-Hub-Signature-256",
        description="GitHub's: `sha256={hex HMAC-SHA256 of the body}`, for schedules with `signature: github`.",
        max_length=200,
    ),
]
_BODY = {
    "requestBody": {
        "required": False,
        "description": "Anything up to api.max_payload; it becomes `payload.body`, JSON as what it says.",
        "content": {"application/json": {"schema": {}}, "text/plain": {"schema": {"type": "string"}}},
    }
}
_ANSWERS = says(
    Fired, "The job, or why there is none; the same signature again gets what it got.", 404, status=202
)


@router.post(
    "/hooks/{schedule_id}/",
    summary="Fire a webhook schedule",
    status_code=202,
    response_model=None,
    responses=_ANSWERS,
    openapi_extra=_BODY,
)
def fire_webhook(
    office: Desk,
    schedule_id: ScheduleId,
    knock: Knocking,
    _ours: OurSignature = None,
    _githubs: GitHubSignature = None,
) -> Response:
    """With a token, or a signature of the body by the schedule's secret. Only a pause and if_running can skip it."""
    return _fired(office, schedule_id, knock, "webhook")


@router.post(
    "/chat/{schedule_id}/",
    summary="Fire a chat schedule",
    status_code=202,
    response_model=None,
    responses=_ANSWERS,
    openapi_extra=_BODY,
)
def fire_chat(
    office: Desk,
    schedule_id: ScheduleId,
    knock: Knocking,
    _ours: OurSignature = None,
    _githubs: GitHubSignature = None,
) -> Response:
    """As with webhooks; where the schedule has no secret, only a token opens it."""
    return _fired(office, schedule_id, knock, "chat")


def _fired(office: Office, schedule_id: str, knock: Knock, kind: Kind) -> Response:
    permit, once = _proven(office, schedule_id, knock)

    def permit_kind(schedule: Schedule) -> None:
        permit(schedule)
        trigger = schedule.definition.trigger
        if not isinstance(trigger, OnRequest) or trigger.kind != kind:
            raise RequestError(schedule.state.schedule_id)

    payload = {"body": _words(knock)}
    budget = None if knock.caller is None else knock.caller.budget
    firing = fire_schedule(
        office.house, schedule_id, payload=payload, permit=permit_kind, once=once, budget=budget
    )
    job = None if firing.job_id is None else job_words(jobs.get_job(office.house, firing.job_id))
    repeated = {"idempotent-replayed": "true"} if firing.is_repeated else None
    return answer({"job": job, "skipped": firing.skip_reason}, 202, repeated)


def _words(knock: Knock) -> Any:
    """The body as data where it is JSON, and says so or says nothing; else as text."""
    said = knock.request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if not knock.body:
        return None
    if said == "application/json" or said.endswith("+json"):
        return parse_json(knock.body)
    try:
        text = knock.body.decode()
    except UnicodeError:
        raise RefusedError(400, "The body is neither JSON nor text in UTF-8.") from None
    if said:
        return text
    try:
        return parse_json(knock.body)
    except RefusedError:
        return text


# -- who may --


def _proven(office: Office, schedule_id: str, knock: Knock) -> tuple[Permit, Once | None]:
    if knock.caller is not None:
        caller = knock.caller
        return caller.refuse_other_words if knock.body else caller.refuse_unapproved, None
    try:
        signatures = signatures_in(knock.request.headers, office.house.clock.now())
    except BadSignatureError as error:
        refuse_proof(office, knock.request, "signature", str(error))
    if not signatures:
        raise RefusedError(
            401,
            "Send a token, or sign the body: Everwhen-Signature, or X-Hub-Signature-256.",
            headers={"www-authenticate": "Bearer"},
        )
    scheme, key = _signed(office.house.catalogue.get(schedule_id), signatures, knock.body)
    if key is None:
        refuse_proof(office, knock.request, "signature", NO_PROOF)
    refuse_haste(office, f"hook:{schedule_id}", "This hook is called too often.")

    def permit(schedule: Schedule) -> None:  # again where it is fired: the secret may have been changed since
        if _signed(schedule, signatures, knock.body) != (scheme, key):
            raise UnknownScheduleError(schedule_id)

    # Ours has a time in it and is too old to come again long before it is forgotten; GitHub's is good for ever.
    return permit, Once(key, office.jobs_kept if scheme == "github" else ANSWERS_KEPT)


def _signed(
    schedule: Schedule | None, signatures: Mapping[Scheme, Signature], body: bytes
) -> tuple[Scheme, str | None]:
    """The one scheme that the schedule takes, and what names the request, if it is signed that way."""
    words = {} if schedule is None else _target_words(schedule)
    scheme: Scheme = "github" if words.get("signature") == "github" else "everwhen"
    secret = "" if schedule is None else _secret_of(schedule, words)
    return scheme, signatures.get(scheme, UNSIGNED).key(secret, body)


def _target_words(schedule: Schedule) -> dict[str, Any]:
    words = json.loads(schedule.definition.target.spec or "null")
    return words if isinstance(words, dict) else {}


def _secret_of(schedule: Schedule, words: Mapping[str, Any]) -> str:
    """What the requests of a schedule are signed with; nothing when it takes none, or nobody here knows it."""
    try:
        return str(Secrets().resolve(words.get("secret") or ""))
    except UnresolvedError as error:
        log.warning("no signature of %s can be checked: %s", schedule.state.schedule_id, error)
        return ""
