"""Schedules, jobs and policies in a line each, on one Monday of March 2026, UTC."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any

from everwhen.decide.edit import create
from everwhen.model.changes import Decision
from everwhen.model.events import Event
from everwhen.model.instants import MINUTE, SECOND, instant_of
from everwhen.model.job import Job, job_id
from everwhen.model.outcome import Outcome
from everwhen.model.policy import BreakerRule, Budget, Capacity, Guard
from everwhen.model.schedule import Definition, Plan, QuietHoursPolicy, Schedule, State, Target
from everwhen.timetable.civil_time import zone
from everwhen.timetable.cron import parse_cron
from everwhen.timetable.interval import parse_seconds
from everwhen.timetable.trigger import Cron, Once, OnRequest, Trigger, parse_every
from everwhen.timetable.windows import EVERY_WEEKDAY, QuietHours, QuietWindow, parse_window

UTC_ZONE = zone("UTC")
MONDAY = datetime(2026, 3, 2, tzinfo=UTC)
FAILED = Outcome("failed", error="exit code 1")

_DEFINITION_FIELDS = frozenset(field.name for field in fields(Definition))


def at(clock: str, *, day: int = 0) -> int:
    """An instant by the clock on the wall: `at("09:00")`, `at("09:00:10.5")`, days counted from Monday."""
    hour, minute, *second = clock.split(":")
    seconds = float(second[0]) if second else 0.0
    return instant_of(MONDAY + timedelta(days=day, hours=int(hour), minutes=int(minute), seconds=seconds))


def span(text: str) -> int:
    """A duration in microseconds: `span("1h30m")`."""
    return parse_seconds(text) * SECOND


def a_definition(
    *,
    every: str | None = None,
    cron: str | None = None,
    at_instant: int | None = None,
    on: str | None = None,
    only_between: str | None = None,
    start_at: int | None = None,
    end_at: int | None = None,
    **values: Any,
) -> Definition:
    """A definition; instants are microseconds here, like everywhere in these tests."""
    return Definition(
        trigger=_a_trigger(every, cron, at_instant, on),
        zone=values.pop("zone", UTC_ZONE),
        target=values.pop("target", Target("command")),
        only_between=parse_window(only_between) if only_between else None,
        start_at=None if start_at is None else start_at // SECOND,
        end_at=None if end_at is None else end_at // SECOND,
        **values,
    )


def _a_trigger(every: str | None, cron: str | None, at_instant: int | None, on: str | None) -> Trigger:
    if cron is not None:
        return Cron(parse_cron(cron))
    if at_instant is not None:
        return Once(at_instant // SECOND, "at", "", at_instant % SECOND)
    if on is not None:
        return OnRequest("chat" if on == "chat" else "webhook")
    return parse_every(every or "1h")


def a_plan(schedule_id: str = "reports", quiet: QuietHoursPolicy | None = None, **values: Any) -> Plan:
    return Plan(schedule_id, a_definition(**values), quiet)


def a_schedule(
    *,
    schedule_id: str = "reports",
    uid: str = "a1b2c3d4e5f6",
    created_at: int = at("08:00"),
    quiet: QuietHoursPolicy | None = None,
    jobs: Sequence[Job] = (),
    **values: Any,
) -> Schedule:
    """A schedule as it stands after creation, with any field of its definition or of its state set."""
    declared = {"every", "cron", "at_instant", "on"} | _DEFINITION_FIELDS
    plan = a_plan(schedule_id, quiet, **{key: values.pop(key) for key in declared & set(values)})
    state = create(plan, uid, created_at, may_be_past=True).state._replace(**values)
    if "next_slot_at" in values and "next_run_at" not in values:
        slot_at = state.next_slot_at
        due_at = None if slot_at is None else plan.calendar(state.anchor_at).due_at(slot_at)
        state = state._replace(next_run_at=due_at)
    return Schedule(state, plan, jobs)


def a_one_shot(instant: int, **values: Any) -> Schedule:
    return a_schedule(at_instant=instant, **values)


def a_chain(every: str = "5m", **values: Any) -> Schedule:
    return a_schedule(every=every, interval_from="completion", **values)


def with_jobs(schedule: Schedule, *jobs: Job) -> Schedule:
    """The schedule with these jobs outstanding, counted on its row as a store counts them."""
    seen = [job for job in jobs if job.origin != "backfill"]
    waiting = [job for job in seen if job.status == "queued" and job.not_before is not None]
    state = schedule.state._replace(
        outstanding=len(seen),
        running_jobs=sum(job.status == "running" for job in seen),
        waiting=len(waiting),
        retries_waiting=sum(job.origin == "retry" for job in waiting),
        fire_count=max([schedule.state.fire_count, *(job.number for job in jobs)]),
    )
    return Schedule(state, schedule.plan, jobs)


def a_job(schedule: Schedule, number: int = 1, **fields_: Any) -> Job:
    """A running job of the schedule's slot at 08:00, unless told otherwise."""
    state, definition = schedule.state, schedule.definition
    retry = fields_.get("retry", 0)
    slot_at = fields_.get("slot_at", at("08:00"))
    known: dict[str, Any] = {
        "row_id": number,
        "job_id": job_id(state.uid, number, retry),
        "schedule_row": state.row_id,
        "uid": state.uid,
        "schedule_id": state.schedule_id,
        "revision": state.revision,
        "number": number,
        "retry": retry,
        "origin": "schedule",
        "status": "running",
        "slot_at": slot_at,
        "due_at": slot_at,
        "not_before": None,
        "is_ready": True,
        "is_counted": fields_.get("not_before") is None,
        "is_probe": False,
        "attempt": 1,
        "rescues": 0,
        "payload": None,
        "queue": definition.queue,
        "guard_key": definition.guard.key if definition.guard else None,
        "capacity_key": definition.capacity.key if definition.capacity else None,
        "capacity_limit": definition.capacity.limit if definition.capacity else None,
        "breaker_key": definition.breaker.key if definition.breaker else None,
        "line": None if definition.if_running == "allow" else "own",
        "created_at": slot_at,
        "started_at": slot_at,
        "deadline_at": None,
        "ended_at": None,
        "released_at": None,
        "node": None,
        "fence": 0,
        "cancel_requested": False,
        "reason": None,
        "error": None,
        "result": None,
    }
    return Job(**{**known, **fields_})


def a_waiting_retry(schedule: Schedule, number: int = 1, **fields_: Any) -> Job:
    values = {"origin": "retry", "status": "queued", "retry": 1, "not_before": at("23:00"), **fields_}
    return a_job(schedule, number, **values)


def quiet_hours(
    *windows: str, action: str = "skip", dates: Iterable[tuple[int, int]] = ()
) -> QuietHoursPolicy:
    """A policy with these windows on all days; dates as first and last day since 1970."""
    quiet = tuple(QuietWindow(parse_window(window), EVERY_WEEKDAY) for window in windows)
    hours = QuietHours(UTC_ZONE, quiet, tuple(dates))
    return QuietHoursPolicy("nights", "Nights", hours, "defer" if action == "defer" else "skip")


def a_guard(limit: int = 1, key: str = "guard:withings:poll") -> Guard:
    return Guard(key, limit)


def a_capacity(limit: int = 1, key: str = "capacity:agent") -> Capacity:
    return Capacity(key, limit)


def a_breaker_rule(
    threshold: int = 3, reset_after: int = 30 * MINUTE, key: str = "withings:poll"
) -> BreakerRule:
    return BreakerRule(key, threshold, reset_after)


def a_budget(per_hour: int | None = None, per_day: int | None = None, key: str = "budget:agent") -> Budget:
    return Budget(key, per_hour, per_day)


# -- reading decisions --


def skips(events: Iterable[Event]) -> list[tuple[int | None, str | None]]:
    """Which slots were skipped, and why."""
    return [(event.slot_at, event.reason) for event in events if event.type == "schedule.skipped"]


def misses(events: Iterable[Event]) -> list[tuple[int | None, str | None]]:
    """Which slots were missed, and why."""
    return [(event.slot_at, event.reason) for event in events if event.type == "schedule.missed"]


def types(events: Iterable[Event]) -> list[str]:
    return [event.type for event in events]


def fired(decision: Decision) -> list[int]:
    """The slots of the jobs that were enqueued."""
    return [job.slot_at for job in decision.jobs]


def cancelled(decision: Decision) -> list[tuple[str, str]]:
    """The jobs that were cancelled, and why."""
    return [(job.job_id, reason) for job, reason in decision.cancelled]


def entries(decision: Decision, slot_at: int) -> int:
    """How often a slot stands in the ledger that this decision writes (L1 wants once)."""
    jobs = sum(job.slot_at == slot_at and job.origin in ("schedule", "catch_up") for job in decision.jobs)
    events = sum(_covers(event, slot_at) for event in decision.events)
    return jobs + events


def _covers(event: Event, slot_at: int) -> bool:
    if event.type not in ("schedule.skipped", "schedule.missed") or event.slot_at is None:
        return False
    if event.slot_count == 1:
        return event.slot_at == slot_at
    first, last = event.detail["first"], event.detail["last"]
    assert isinstance(first, int) and isinstance(last, int)
    return first <= slot_at <= last


def state_of(schedule: Schedule, **changes: Any) -> Schedule:
    """The same schedule with other state."""
    state: State = schedule.state._replace(**changes)
    return Schedule(state, schedule.plan, schedule.outstanding)
