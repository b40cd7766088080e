"""What can be done with a schedule by hand: pause, resume, revive, trigger, backfill; one at a time, or many."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import APIRouter
from starlette.responses import Response

from everwhen.api.access import Operator
from everwhen.api.bodies import (
    ApproveBody,
    BackfillAnswer,
    BackfillBody,
    DeclineBody,
    ManyIds,
    ManyResults,
    PauseBody,
    TriggerBody,
)
from everwhen.api.calls import Desk, IfMatch, ScheduleId, answer, nothing, revision_in, says
from everwhen.api.job_payloads import Fired, job_words
from everwhen.api.office import Office
from everwhen.api.payloads import Object, when_text
from everwhen.api.problems import words_of
from everwhen.api.schedule_payloads import Schedule, schedule_words
from everwhen.api.shaped import ShapedRoute
from everwhen.errors import SchedulerError, UnknownScheduleError
from everwhen.model.instants import instant_of
from everwhen.operations import approvals, jobs, schedules, submissions
from everwhen.operations.firing import trigger_schedule
from everwhen.operations.submissions import Caller

router = APIRouter(tags=["schedules"], route_class=ShapedRoute)


def _shown(office: Office, schedule_id: str, caller: Caller) -> Response:
    entry = submissions.get_entry(office.house, schedule_id, caller)
    words = schedule_words(entry, office.place_of(entry))
    return answer(words, headers={"etag": f'"{entry.schedule.state.revision}"'})


@router.post(
    "/schedules/{schedule_id}/pause/",
    summary="Pause a schedule",
    response_model=None,
    responses=says(Schedule, "The schedule, paused.", 404),
)
def pause(office: Desk, caller: Operator, schedule_id: ScheduleId, body: PauseBody | None = None) -> Response:
    """Only an active one. Its queued jobs are cancelled; what runs goes on."""
    _pause(office, caller, schedule_id, body or PauseBody())
    return _shown(office, schedule_id, caller)


def _pause(office: Office, caller: Caller, schedule_id: str, body: PauseBody) -> None:
    schedules.pause_schedule(
        office.house,
        schedule_id,
        by="token",
        actor=caller.actor,
        note=body.note,
        until=None if body.until is None else instant_of(body.until),
        permit=caller.refuse_stranger,
    )


@router.post(
    "/schedules/{schedule_id}/resume/",
    summary="Resume a schedule",
    response_model=None,
    responses=says(Schedule, "The schedule, active.", 404, 412, 428),
)
def resume(office: Desk, caller: Operator, schedule_id: ScheduleId, if_match: IfMatch = None) -> Response:
    """Only a paused one: an interval fires one interval from now, cron at its next match. With If-Match it is also an
    approval of that revision; a schedule that waits for approval is not resumed without."""
    approvals.resume_schedule(office.house, schedule_id, caller, expected=revision_in(if_match))
    return _shown(office, schedule_id, caller)


@router.post(
    "/schedules/{schedule_id}/approve/",
    summary="Approve a revision of a schedule",
    response_model=None,
    responses=says(Schedule, "The schedule, approved.", 404, 412),
)
def approve(office: Desk, caller: Operator, schedule_id: ScheduleId, body: ApproveBody) -> Response:
    """Only of one that waits for approval, by a token that needs none itself. Nothing from the wait fires."""
    approvals.approve_schedule(office.house, schedule_id, caller, revision=body.revision)
    return _shown(office, schedule_id, caller)


@router.post(
    "/schedules/{schedule_id}/decline/",
    summary="Decline a schedule that waits for approval",
    status_code=204,
    response_model=None,
    responses=says(None, "It is gone; the record says who declined it and why.", 404, status=204),
)
def decline(
    office: Desk, caller: Operator, schedule_id: ScheduleId, body: DeclineBody | None = None
) -> Response:
    """It is deleted."""
    note = None if body is None else body.note
    approvals.decline_schedule(office.house, schedule_id, caller, note=note)
    return nothing()


@router.post(
    "/schedules/{schedule_id}/revive/",
    summary="Start a dead or done schedule anew",
    response_model=None,
    responses=says(Schedule, "The schedule, active.", 404, 428),
)
def revive(office: Desk, caller: Operator, schedule_id: ScheduleId) -> Response:
    """Its repeats and retries count from zero."""
    permit = approvals.permit_revival(caller)
    schedules.revive_schedule(office.house, schedule_id, by=caller.actor, permit=permit)
    return _shown(office, schedule_id, caller)


@router.post(
    "/schedules/{schedule_id}/trigger/",
    summary="Run a schedule now",
    status_code=202,
    response_model=None,
    responses=says(Fired, "The job, or why there is none.", 404, status=202),
)
def trigger(
    office: Desk, caller: Operator, schedule_id: ScheduleId, body: TriggerBody | None = None
) -> Response:
    """Beside its slots: neither next_run_at nor the counters move."""
    body = body or TriggerBody(payload=None)
    firing = trigger_schedule(
        office.house,
        schedule_id,
        payload=body.payload,
        if_running=body.if_running,
        actor=caller.actor,
        permit=caller.refuse_unapproved if body.payload is None else caller.refuse_other_words,
        budget=caller.budget,
    )
    job = None if firing.job_id is None else job_words(jobs.get_job(office.house, firing.job_id))
    return answer({"job": job, "skipped": firing.skip_reason}, 202)


@router.post(
    "/schedules/{schedule_id}/backfill/",
    summary="Run past slots that have no job",
    response_model=None,
    responses=says(BackfillAnswer, "The slots, and whether they were only counted.", 404),
)
def backfill(office: Desk, caller: Operator, schedule_id: ScheduleId, body: BackfillBody) -> Response:
    """The slots of the revisions in force then, in [from, to), at most 1,000. `dry_run` only tells which."""
    found = jobs.backfill(
        office.house,
        schedule_id,
        body.from_,
        body.to,
        if_running=body.if_running,
        dry_run=body.dry_run,
        permit=caller.refuse_unapproved,
        budget=caller.budget,
    )
    words = {
        "slots": [when_text(slot) for slot in found.slots],
        "count": len(found.slots),
        "dry_run": body.dry_run,
        "skipped": found.skip_reason,
    }
    return answer(words)


# -- many at once --


def _many(office: Office, caller: Caller, ids: list[str], do: Callable[[str], None]) -> Response:
    results: list[Object] = []
    for schedule_id in ids:
        try:
            do(schedule_id)
            entry = submissions.get_entry(office.house, schedule_id, caller)
            words = schedule_words(entry, office.place_of(entry))
            results.append({"id": schedule_id, "schedule": words, "problem": None})
        except SchedulerError as error:
            results.append({"id": schedule_id, "schedule": None, "problem": words_of(error)})
    failed = sum(one["problem"] is not None for one in results)
    return answer({"items": results, "total": len(results), "failed": failed})


@router.post(
    "/schedules/batch-pause/",
    summary="Pause many schedules",
    response_model=None,
    responses=says(ManyResults, "One result per id."),
)
def pause_many(office: Desk, caller: Operator, body: ManyIds) -> Response:
    """Each by itself: one that cannot be paused says why, and the others are paused."""
    return _many(office, caller, body.schedule_ids, lambda each: _pause(office, caller, each, PauseBody()))


@router.post(
    "/schedules/batch-resume/",
    summary="Resume many schedules",
    response_model=None,
    responses=says(ManyResults, "One result per id."),
)
def resume_many(office: Desk, caller: Operator, body: ManyIds) -> Response:
    """Each by itself: one that cannot be resumed says why, and the others are resumed."""

    def resume_one(schedule_id: str) -> None:
        approvals.resume_schedule(office.house, schedule_id, caller)

    return _many(office, caller, body.schedule_ids, resume_one)


@router.post(
    "/schedules/batch-delete/",
    summary="Delete many schedules",
    status_code=204,
    response_model=None,
    responses=says(None, "They are gone; ids that are unknown were passed over.", 409, status=204),
)
def delete_many(office: Desk, caller: Operator, body: ManyIds) -> Response:
    """Unknown ids, and someone else's, are ignored. One of the configuration file refuses the whole call."""
    found = []
    for schedule_id in dict.fromkeys(body.schedule_ids):
        try:
            found.append(submissions.get_entry(office.house, schedule_id, caller))
        except UnknownScheduleError:
            continue
    for entry in found:
        submissions.refuse_declared_elsewhere(entry)
    for entry in found:
        try:
            schedules.delete_schedule(
                office.house,
                entry.schedule.state.schedule_id,
                by=caller.actor,
                permit=caller.refuse_stranger,
            )
        except UnknownScheduleError:  # somebody else was faster
            continue
    return nothing()
