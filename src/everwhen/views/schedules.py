"""Schedules as they are answered: what they are, their revisions, their figures."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING

from everwhen.model.fast_values import by_identity
from everwhen.model.fields import GENERAL, Definition, ScheduleType, SignatureScheme, answer_to_json
from everwhen.model.history import Cause
from everwhen.model.instants import SECOND, rfc3339_text
from everwhen.model.job import JobStatus
from everwhen.model.masks import MASK
from everwhen.model.policy import CatchUp
from everwhen.model.queries import Entry
from everwhen.model.schedule import Status
from everwhen.operations.access import SchedulePage, key_of
from everwhen.operations.recent import Recent, SlotOutcome
from everwhen.timetable.describe import describe
from everwhen.timetable.trigger import Cron, Every, EveryMonth, Once, OnRequest, Trigger
from everwhen.views.jobs import JobCost
from everwhen.views.shape import Object, View, When, cursor_of, each, field, when_text

if TYPE_CHECKING:
    from everwhen.operations.record import Figures


class _State(View):
    """Where a schedule stands, and what it did."""

    id: str = field("schedule_id")
    uid: str
    status: Status
    status_reason: str | None
    paused_by: str | None
    resume_at: When | None
    next_slot_at: When | None
    next_run_at: When | None
    held_slot_at: When | None
    held_reason: str | None
    held_since: When | None
    outstanding: int
    running_jobs: int
    current_repeat: int
    current_retry: int
    failed_slots: int
    run_count: int = field(
        about="How many of its own runs have succeeded; manual runs and backfill do not count."
    )
    error_count: int = field(about="How many of its own runs have failed, each attempt.")
    fire_count: int = field("firings", about="How often it has fired, for whatever reason.")
    last_error: str | None = field(about="The message of the last own failure; kept after a success.")
    last_error_type: str | None = field(about="Of the exception whose message that is; null: it was none.")
    last_fired_at: When | None
    last_run_at: When | None
    last_completed_at: When | None
    last_success_at: When | None
    last_success_job_id: str | None
    revision: int


def _spec(trigger: Trigger) -> str:
    """Return a trigger as the text of `spec`: seconds, an expression, an instant."""
    match trigger:
        case Every():
            return str(trigger.seconds)
        case Cron():
            return trigger.expression.text
        case Once():
            return rfc3339_text(trigger.due_at)
        case EveryMonth():
            return trigger.text
        case OnRequest():
            return trigger.kind


class _Definition(View):
    """What only a new revision changes, beside the keys of `model.fields`."""

    group: str | None
    user_profile_id: str | None = field("owner")
    workflow_id: str | int | None
    trigger_node_id: str | None
    type: ScheduleType
    spec: str = field("trigger", via=_spec)
    interval_seconds: int | None = field(
        "trigger", via=lambda found: found.seconds if isinstance(found, Every) else None
    )
    quiet_hours_policy_id: str | None = field("quiet_hours_id")
    catch_up_policy: CatchUp
    timeout_seconds: int = field(lambda definition: (definition.timeout or 0) // SECOND)
    trigger_payload: Object
    target: str = field("target.kind")
    secret: str | None = field(via=lambda _: MASK, about="Always masked; null where the schedule has none.")
    signature: SignatureScheme
    description_text: str = field(lambda definition: describe(definition.trigger, definition.zone))


class Pause(View):
    """Who paused a schedule, since when, until when, and with what note."""

    by: str | None = field(about="person, token, config, approval or budget.")
    actor: str | None = field(
        about="Who it was, as the audit records it.", examples=["token:tok_eefa9d2a251d"]
    )
    name: str | None = field(about="The name of that token, user or program.", examples=["mira"])
    at: When | None
    until: When | None = field(about="When it resumes by itself.")
    note: str | None


class RecentSlot(View):
    """One of the last slots."""

    slot_at: When
    outcome: SlotOutcome


class Schedule(_State, _Definition):
    """A schedule: its definition, its state and its history in numbers."""

    key: str | None
    created_at: When
    updated_at: When
    source: str
    created_by: str | None = field(about="The token that made it; of runs of an agent, `token:agent:NAME`.")
    created_in_job: str | None = field(about="The run of an agent that made it.")
    depth: int = field(about="0: made by a person or a program; 1: by a run of such a schedule; and so on.")
    source_file: str | None
    source_line: int | None
    pause: Pause | None = field(about="While it is paused: who paused it, since when, until when, and why.")


class ListedSchedule(Schedule):
    """A schedule in a list: all fields of a schedule, or those that `fields` and `include` name."""

    recent: list[RecentSlot] = field(
        is_optional=True, about="Its last slots, the oldest first; only with `recent=true`."
    )
    usual_seconds: float | None = field(
        is_optional=True,
        about="The median run time of its last jobs that succeeded; only with `recent=true`.",
    )


class OwnFields(View):
    """What makes the same schedule again."""

    body: Object = field(about="The body of a POST: every key that is set, without secrets.")
    left_out: list[str] = field(about="The paths of secrets, which nobody can read.")


class ScheduleList(View):
    """A page of schedules, newest first."""

    items: list[ListedSchedule]
    total: int
    total_is_approximate: bool = field(about="Above 10,000 matches the total is an estimate.")
    next_cursor: str | None = field(about="The `cursor` of the next page; null on the last one.")
    facets: dict[str, dict[str, int]] = field(
        is_optional=True,
        about="The number of schedules by each value of a column; only with `facets`. The filters `status`, "
        "`paused_by`, `failing`, `running` and `held` do not apply. `status` also has `failing`, `running` and `held`.",
    )


FIELD_NAMES = (*GENERAL, *(name for name in Schedule.fields() if name not in GENERAL))
"""The names of all fields of a schedule."""

_STATE = tuple(name for name in _State.fields() if name not in ("id", "uid", "revision"))
_SOURCE = ("revision", "created_at", "updated_at", "source", "source_file", "source_line")
_TRIGGER = (
    "type", "spec", "every", "cron", "at", "after", "interval_seconds", "timezone", "dst", "start_at", "end_at",
    "first_run", "interval_from", "jitter", "description_text",
)  # fmt: skip
_TARGET = ("run", "target", "payload", "trigger_payload", "workflow_id", "trigger_node_id", "queue", "timeout",
    "timeout_seconds", "secret", "signature")  # fmt: skip
_IDENTITY = ("id", "uid", "key", "name", "description", "group", "owner", "user_profile_id", "enabled")
_OTHERS = {*_STATE, "pause", *_SOURCE, *_TRIGGER, *_TARGET, *_IDENTITY}
FIELD_GROUPS: dict[str, tuple[str, ...]] = {
    "summary": (
        "id", "key", "name", "status", "type", "description_text", "next_run_at", "last_run_at", "last_error",
        "last_error_type",
    ),
    "identity": _IDENTITY,
    "trigger": _TRIGGER,
    "target": _TARGET,
    "policies": tuple(name for name in FIELD_NAMES if name not in _OTHERS),
    "state": (*_STATE, "pause"),
    "source": _SOURCE,
}  # fmt: skip
"""Fields that are asked for by one word. Every field is in one of the groups, and some are in the summary as well."""


@by_identity(most=4_096, size=attrgetter("size"))
def _definition_to_json(definition: Definition) -> Object:
    fields = answer_to_json(definition)
    workflow = fields["run"].get("workflow") or {}
    more = _Definition.of(
        definition,
        workflow_id=workflow.get("id"),
        trigger_node_id=workflow.get("trigger_node_id"),
        trigger_payload=fields["payload"],
    )
    return {**fields, **more}


def schedule_to_json(entry: Entry, place: str | None = None) -> Object:
    state = entry.schedule.state
    made = entry.schedule.definition.made
    file, _, line = (place or "").rpartition(":")
    return {
        **_State.of(state),
        **_definition_to_json(entry.schedule.definition),
        "enabled": state.status == "active",
        "key": key_of(entry),
        "created_at": when_text(entry.created_at),
        "updated_at": when_text(entry.updated_at),
        "created_by": None if entry.token_id is None else f"token:{entry.token_id}",
        "created_in_job": None if made is None else made.job_id,
        "depth": 0 if made is None else made.depth,
        "source": entry.source.partition(":")[0],  # `python:shop` is Python's
        "source_file": file or None,
        "source_line": int(line) if line.isdecimal() else None,
        "pause": None if entry.pause is None else Pause.of(entry.pause),
    }


def schedules_page(
    page: SchedulePage,
    place_of: Callable[[Entry], str | None],
    *,
    fields: Collection[str] | None = None,
    following: int | None = None,
    recent: Mapping[str, Recent] | None = None,
) -> Object:
    """Return a page of schedules, each with these fields; None: with all.

    `following`: where the next page begins, if that is not the last row_id.
    """
    items = [schedule_to_json(entry, place_of(entry)) for entry in page.entries]
    if fields is not None:
        items = [{name: item[name] for name in item if name in fields} for item in items]
    if recent is not None:
        uids = [entry.schedule.state.uid for entry in page.entries]
        items = [{**item, **recent_to_json(recent[uid])} for item, uid in zip(items, uids, strict=True)]
    last = following if following is not None or not items else page.entries[-1].schedule.state.row_id
    found: Object = {
        "items": items,
        "total": page.total,
        "total_is_approximate": page.is_approximate,
        "next_cursor": cursor_of(last or 0) if page.has_more else None,
    }
    return found if page.facets is None else {**found, "facets": page.facets}


def recent_to_json(recent: Recent) -> Object:
    usual = None if recent.usual is None else recent.usual / SECOND
    return {"recent": [RecentSlot.of(slot) for slot in recent.slots], "usual_seconds": usual}


# -- figures and revisions --


def _success_rate(figures: Figures) -> float | None:
    ended = figures.succeeded + figures.failed
    return round(figures.succeeded / ended, 4) if ended else None


def _seconds(duration: int) -> float:
    return duration / SECOND


def _elapsed(start: int | None, end: int | None) -> float | None:
    return None if start is None or end is None else (end - start) / SECOND


class StatsPoint(View):
    """One job of a series."""

    job_id: str
    slot_at: When
    status: JobStatus
    duration: float | None = field(
        lambda job: _elapsed(job.started_at, job.ended_at), about="In seconds, from its start to its end."
    )
    lag: float | None = field(
        lambda job: _elapsed(job.due_at, job.started_at),
        about="In seconds, from when it was due to its start.",
    )
    cost: JobCost | None = field(JobCost.of_job, about="What it cost; null: not known.")
    estimated_cost: JobCost | None = field(JobCost.estimated_of_job, about="What of it is estimated.")


class StatsDay(View):
    """One day in the schedule's zone."""

    day: str = field(via=str, examples=["2026-11-16"])
    counts: dict[str, int] = field(about="Jobs by status, and slots that were skipped or missed.")


class Stats(View):
    """How the last jobs went, at most 1,000 of them; durations in seconds."""

    jobs: int = field("looked_at")
    succeeded: int
    failed: int
    cancelled: int
    success_rate: float | None = field(_success_rate)
    since: When | None
    duration_jobs: int = field("timed", about="How many of them began and ended: those that have a duration.")
    duration_min: float | None = field("shortest", via=_seconds)
    duration_median: float | None = field("median", via=_seconds)
    duration_p95: float | None = field(
        "nearly_longest", via=_seconds, about="null: fewer than 20 have a duration, too few to tell."
    )
    duration_max: float | None = field("longest", via=_seconds)
    points: list[StatsPoint] = field(about="The last jobs, the oldest first: as many as `points` asks for.")
    days: list[StatsDay] = field(
        about="The last days in the schedule's zone, the oldest first, without empty ones: as many as `days` asks for."
    )


class Revision(View):
    """One revision of a definition, with the fields of a schedule."""

    revision: int
    in_force_at: When
    cause: Cause | None = field(about="Why it was written; null when an older release wrote it.")
    definition: Object = field("plan.definition", via=_definition_to_json)


class RevisionList(View):
    """A page of revisions, newest first. While `next_cursor` is there, there are more, also behind a short page."""

    items: list[Revision] = field("revisions", via=each(Revision.of))
    total: int
    next_cursor: str | None = field("next_before", via=cursor_of)


# -- actions --


class BackfillAnswer(View):
    slots: list[When] = field(via=each(when_text))
    count: int = field(lambda found: len(found.slots))
    dry_run: bool
    skipped: str | None = field("skip_reason")
    warnings: list[str] = field(
        via=list, about="A sentence for the budget of a group or an owner that the jobs exceed."
    )
