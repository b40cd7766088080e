"""Jobs: listed, looked at, their output, cancelled, run again; and outcomes that are reported from elsewhere."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from fastapi import Header, Path, Query, Request
from pydantic import Field
from starlette.responses import Response

from everwhen.api.access import AuthenticatedRoute, Operator, Viewer, refuse_guessing
from everwhen.api.calls import (
    DEFAULT_LIMIT,
    Context,
    Cursor,
    Limit,
    Offset,
    Word,
    answer,
    described,
    fired,
    instant_in,
    make_router,
    row_in,
)
from everwhen.api.costs import cheap, expensive, job_page_cost
from everwhen.api.payloads import AwareInstant, Line, Shape
from everwhen.api.problems import InvalidError, RefusedError
from everwhen.errors import UnknownJobError
from everwhen.model.job import JobStatus, Origin
from everwhen.model.policy import IfRunning
from everwhen.model.queries import JobFilter
from everwhen.operations import job_access, jobs
from everwhen.operations.labels import labels_of
from everwhen.views import jobs as view

router = make_router("jobs", route_class=AuthenticatedRoute)
JobId = Annotated[str, Path(max_length=300, pattern=r"^[^\x00]+$", examples=["sched-a1b2c3d4e5f6-n5-rc0"])]
After = Annotated[str | None, Query(max_length=1_000, description="`next_after` of the answer before.")]
_TOKEN = "The one-time token of the request that was answered 202."
OutcomeToken = Annotated[
    str | None, Header(alias="Everwhen-Outcome-Token", max_length=500, description=_TOKEN)
]


class RerunBody(Shape):
    """What to do when another job of the schedule is there still."""

    if_running: IfRunning = "queue"


class OutcomeBody(Shape):
    """How work ended that was answered 202."""

    status: Literal["succeeded", "failed"]
    result: Annotated[Any, Field(description="Any value; anything but text is stored as JSON.")] = None
    error: Line | None = None
    retry: bool = Field(
        default=True, description="Set it to false to prevent retries, whatever max_retries is."
    )
    cost: Annotated[
        Any, Field(description='What it cost: "0.42 USD", or an object with amount and currency.')
    ] = None


@router.get("/jobs/", **described("List jobs", view.JobList, "A page."))
@expensive(job_page_cost)
def list_jobs(
    context: Context,
    caller: Viewer,
    schedule_id: Annotated[Word, Query(description="The id, or the uid, of a schedule.")] = None,
    group: Word = None,
    status: JobStatus | None = None,
    origin: Origin | None = None,
    from_: Annotated[AwareInstant | None, Query(alias="from", description="Slots from here on.")] = None,
    to: Annotated[AwareInstant | None, Query(description="Slots before this.")] = None,
    limit: Limit = DEFAULT_LIMIT,
    offset: Offset = 0,
    cursor: Cursor = None,
) -> Response:
    """Newest first. All filters must match. `group` is the current group of the schedule."""
    wanted = JobFilter(
        statuses=() if status is None else (status,),
        origins=() if origin is None else (origin,),
        since=instant_in(from_),
        until=instant_in(to),
        group=group,
    )
    before = row_in(cursor)
    page = job_access.list_jobs(
        context.runtime,
        wanted,
        caller,
        schedule_id=schedule_id,
        limit=limit,
        before=before,
        offset=0 if before else offset,
    )
    return answer(view.jobs_page(page, labels_of(context.runtime, (job.uid for job in page.jobs))))


@router.get("/jobs/{job_id}/", **described("Get a job", view.JobInDetail, "The job.", 404))
@cheap
def get_job(context: Context, caller: Viewer, job_id: JobId) -> Response:
    """The current state of the job."""
    job = job_access.get_job(context.runtime, job_id, caller)
    return answer(
        view.job_in_detail(
            job, job_access.delivery_of(context.runtime, job_id), labels_of(context.runtime, [job.uid])
        )
    )


_AS_TEXT = "As JSON, or as plain text with `Accept: text/plain`."


@router.get(
    "/jobs/{job_id}/log/",
    **described("What a job printed", view.Log, _AS_TEXT, 404, media_type="text/plain"),
)
@expensive(10)
def get_job_log(
    context: Context,
    caller: Viewer,
    job_id: JobId,
    after: After = None,
    accept: Annotated[str, Header(include_in_schema=False)] = "",
) -> Response:
    """The first 64 KiB and the last 192 KiB of each stream of each attempt. Ask again with `after` to follow it."""
    seen = view.read_positions(after)
    if seen is None:
        raise InvalidError(
            "after", "must be a position", "after must be the next_after of a previous answer."
        )
    job, pieces = job_access.get_output(context.runtime, job_id, caller)
    is_over = not job.is_outstanding
    found = view.log_to_json(pieces, seen, is_over=is_over)
    if _wants_text(accept):
        headers = {"everwhen-next-after": found["next_after"], "everwhen-is-over": str(is_over).lower()}
        return Response(view.log_text(found["items"]).encode(), 200, headers, "text/plain; charset=utf-8")
    return answer(found)


def _wants_text(accept: str) -> bool:
    kinds = [kind.partition(";")[0].strip() for kind in accept.lower().split(",")]
    wanted = next((kind for kind in kinds if kind in ("application/json", "text/plain", "text/*")), "")
    return wanted.startswith("text/")


@router.post("/jobs/{job_id}/cancel/", **described("Cancel a job", view.Job, "The job, cancelled.", 404))
@cheap
def cancel_job(context: Context, caller: Operator, job_id: JobId) -> Response:
    """A queued one is over at once; what runs gets SIGTERM, and SIGKILL 5 seconds later. It counts as nothing."""
    return answer(view.Job.of(job_access.cancel_job(context.runtime, job_id, caller)))


@router.post(
    "/jobs/{job_id}/rerun/",
    **described("Run a job again", view.Fired, "The new job, or why there is none.", 404, 409, status=202),
)
@cheap
def rerun_job(context: Context, caller: Operator, job_id: JobId, body: RerunBody | None = None) -> Response:
    """One that has ended: the same slot and payload, by the definition of today. Counters do not move."""
    if_running = (body or RerunBody()).if_running
    return fired(context, job_access.rerun_job(context.runtime, job_id, caller, if_running=if_running))


@router.post(
    "/jobs/{job_id}/outcome/",
    **described("Report the outcome of a job", view.Job, "The job, over.", 404, 409),
    openapi_extra={"security": []},
)
@cheap
def report_outcome(
    request: Request,
    context: Context,
    job_id: JobId,
    body: OutcomeBody,
    outcome_token: OutcomeToken = None,
) -> Response:
    """Of a request that was answered 202. The token is good for one report; no other token is needed."""
    if not outcome_token:
        raise RefusedError(401, "Send the token of the request: Everwhen-Outcome-Token: TOKEN.")
    result = body.result
    if result is not None and not isinstance(result, str):
        result = json.dumps(result, ensure_ascii=False)
    try:
        job = jobs.report_outcome(
            context.runtime,
            job_id,
            outcome_token,
            status=body.status,
            result=result,
            error=body.error,
            retry=body.retry,
            cost=body.cost,
        )
    except UnknownJobError:
        refuse_guessing(context, request)
        raise
    return answer(view.Job.of(job))
