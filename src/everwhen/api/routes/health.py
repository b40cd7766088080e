"""Whether this process is alive, whether it does its work (G3), and its metrics. No token: what is told is counts."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from everwhen.api.calls import Context, answer
from everwhen.api.payloads import Shape

router = APIRouter(tags=["health"])
_FRESH = {"cache-control": "no-store"}


class Health(Shape):
    """One word, and a sentence where it is not the good one."""

    status: Literal["ok", "ready", "unready"]
    reason: str | None = Field(default=None, description="Why it is not ready.")


@router.get(
    "/healthz",
    summary="Is the process alive?",
    response_model=None,
    responses={200: {"model": Health, "description": "It answers."}},
)
async def healthz() -> Response:
    """It says nothing of the database: a process is not restarted because something else is away."""
    return answer({"status": "ok", "reason": None}, headers=_FRESH)


@router.get(
    "/readyz",
    summary="Does it do its work?",
    response_model=None,
    responses={
        200: {
            "model": Health,
            "description": "The loop evaluates, nothing is left behind, the database answers.",
        },
        503: {"model": Health, "description": "It does not; `reason` says why."},
    },
)
async def readyz(context: Context) -> Response:
    """Unready when the loop has ended no evaluation for ten check intervals, or a schedule is left behind."""
    reason = await context.readiness.reason()
    fields = {"status": "ready" if reason is None else "unready", "reason": reason}
    return answer(fields, 200 if reason is None else 503, _FRESH)


@router.get(
    "/metrics",
    summary="Metrics for Prometheus",
    response_model=None,
    responses={200: {"description": "In the format that is asked for.", "content": {"text/plain": {}}}},
)
def metrics(context: Context, request: Request) -> Response:
    """Counts of the whole database, and what only this process knows; a look is shared by all who ask at once."""
    text, media_type = context.metrics.text(request.headers.get("accept", ""))
    return Response(text, headers={**_FRESH, "content-type": media_type})
