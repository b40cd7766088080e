"""Pings: what an external monitoring service receives about the runs of a schedule.

Healthchecks: `/start` at the start of an attempt, the bare URL for a success, `/{exit status}` or `/fail` for a slot
that failed for good, or whose last job was lost. A failure with a retry to come, and a skipped slot, are `/log`: a
`/fail` would alert at once. Sentry: `?status=…&check_in_id=…`; starts have the monitor's configuration, which the
channel leaves out once it was taken.
"""

from __future__ import annotations

import re
from typing import Any, Literal, NamedTuple
from uuid import NAMESPACE_URL, uuid5

from everwhen.model.events import Derived, Event
from everwhen.model.instants import MINUTE, SECOND
from everwhen.model.job import OWN_ORIGINS, Job
from everwhen.model.schedule import Definition
from everwhen.timetable.trigger import Cron, Every

PING_FOR = 5 * MINUTE  # so long a ping is tried
_EXIT = re.compile(r"exit code ([0-9]{1,3})\b")
_RETRY = re.compile(r"-rc([0-9]+)$")

PingKind = Literal["start", "success", "failure", "log"]


class PingRequest(NamedTuple):
    """One call of a schedule's URL: what is added to its path and to its query, and the body."""

    path: str
    query: dict[str, str]
    text: str
    json: dict[str, Any] | None = None


def run_id(job_id: str, attempt: int) -> str:
    """Return the id of one attempt: a UUID, since receivers refuse anything else."""
    return str(uuid5(NAMESPACE_URL, f"everwhen:{job_id}:{attempt}"))


def next_retry_of(job_id: str) -> str:
    """Return the id that the next job of the same slot would have.

    >>> next_retry_of("sched-9f2c-n5-rc0")
    'sched-9f2c-n5-rc1'
    """
    return _RETRY.sub(lambda found: f"-rc{int(found[1]) + 1}", job_id)


def is_pinged(facts: Event | Derived) -> bool:
    """Check whether a ping reports an event: starts and ends of own jobs, and slots without one."""
    if isinstance(facts, Derived):
        is_move = facts.type in ("job.started", "job.succeeded", "job.failed", "job.timed_out")
        return is_move and facts.detail.get("origin") in OWN_ORIGINS
    return facts.type in ("schedule.skipped", "job.lost") and facts.uid is not None


def is_lost_for_good(facts: Event | Derived, job: Job) -> bool:
    """Check whether an event `job.lost` is the end of its job; otherwise the job runs again under the same id."""
    return job.status == "lost" and job.ended_at == facts.at


def ping_of(
    facts: Event | Derived, definition: Definition, *, is_retried: bool, output: bytes = b""
) -> PingRequest | None:
    """Return the call that reports an event; None where the format has none for it.

    `is_retried`: the slot has a further run.
    """
    attempt = facts.detail.get("attempt")
    about = facts.job_id or f"{facts.uid}:{facts.slot_at}"
    rid = run_id(about, attempt if isinstance(attempt, int) else 0)
    kind = _kind(facts, is_retried=is_retried)
    if definition.ping_format == "sentry":
        return _for_sentry(kind, rid, definition)
    text = _text(facts, output, definition.ping_output)
    return PingRequest(_path(kind, facts), {"rid": rid}, text)


def _kind(facts: Event | Derived, *, is_retried: bool) -> PingKind:
    match facts.type:
        case "job.started":
            return "start"
        case "job.succeeded":
            return "success"
        case "job.failed" | "job.timed_out" | "job.lost":
            return "log" if is_retried else "failure"
        case _:
            return "log"


def _path(kind: PingKind, facts: Event | Derived) -> str:
    match kind:
        case "start":
            return "/start"
        case "success":
            return ""
        case "log":
            return "/log"
        case "failure":
            found = _EXIT.search(str(facts.detail.get("error") or ""))
            code = int(found[1]) if found else 0
            return f"/{code}" if 1 <= code <= 255 else "/fail"


def _text(facts: Event | Derived, output: bytes, most: int) -> str:
    """Return the reason on a line, and the end of the output: the receiver keeps the first bytes of a body."""
    if facts.type == "job.started":
        return ""
    said = facts.reason or facts.detail.get("error") or facts.type
    head = f"{facts.type}: {said}\n"[:1_000] if said != facts.type else f"{facts.type}\n"
    left = max(most - len(head.encode()), 0)
    return head + output[len(output) - min(left, len(output)) :].decode(errors="replace")


def _for_sentry(kind: PingKind, rid: str, definition: Definition) -> PingRequest | None:
    status = {"start": "in_progress", "success": "ok", "failure": "error"}.get(kind)
    if status is None:
        return None
    query = {"status": status, "check_in_id": rid.replace("-", "")}
    return PingRequest("", query, "", _monitor(definition) if kind == "start" else None)


def _monitor(definition: Definition) -> dict[str, Any] | None:
    match definition.trigger:
        case Cron():
            schedule: dict[str, Any] = {"type": "crontab", "value": definition.trigger.expression.text}
        case Every() if definition.trigger.seconds >= 60:
            minutes = _minutes(definition.trigger.seconds * SECOND)
            schedule = {"type": "interval", "value": minutes, "unit": "minute"}
        case _:
            return None
    config = {
        "schedule": schedule,
        "timezone": definition.zone.name,
        "checkin_margin": _minutes(definition.expect_grace or 5 * MINUTE),
        "max_runtime": _minutes(definition.timeout or 60 * MINUTE),
    }
    return {"monitor_config": config, "status": "in_progress"}


def _minutes(length: int) -> int:
    """Return whole minutes, rounded up: a monitor that expects a run every minute of 90 seconds would miss some.

    >>> _minutes(90 * SECOND), _minutes(2 * MINUTE)
    (2, 2)
    """
    return max(-(-length // MINUTE), 1)
