"""The shapes of answers about schedules: what they are, their revisions, their figures."""

from __future__ import annotations

from pydantic import Field

from everwhen.api.payloads import Shape, When
from everwhen.model.history import Cause
from everwhen.model.policy import CatchUp, IfRunning, IntervalFrom, OnExhausted, OnLost, WhenClosed
from everwhen.model.schedule import ScheduleType, Status
from everwhen.timetable.occurrences import FirstRun
from everwhen.views.values import Object


class Schedule(Shape):
    """A schedule: what it is, where it stands, and what it did."""

    id: str
    uid: str
    key: str | None
    name: str
    description: str
    group: str | None
    owner: str | None
    user_profile_id: str | None
    workflow_id: str | int | None
    trigger_node_id: str | None
    type: ScheduleType
    spec: str
    every: str | None
    cron: str | None
    at: str | None
    after: str | None
    interval_seconds: int | None
    enabled: bool
    timezone: str
    dst: Object | None
    start_at: When | None
    end_at: When | None
    first_run: FirstRun | None
    interval_from: IntervalFrom
    jitter: str | None
    only_between: str | None
    not_on: list[str]
    outside_window: WhenClosed
    quiet_hours: str | None
    quiet_hours_policy_id: str | None
    misfire_grace: str
    catch_up: CatchUp
    catch_up_policy: CatchUp
    catch_up_limit: int
    if_running: IfRunning
    queue_limit: int
    max_outstanding: int | None
    max_concurrent: int | None
    total_repeats: int
    max_retries: int | None
    retry_delay: str
    on_exhausted: OnExhausted
    on_lost: OnLost
    timeout: str
    timeout_seconds: int
    circuit_breaker: Object | None
    queue: str
    payload: Object
    trigger_payload: Object
    run: Object
    target: str
    expect: Object | None
    ping: Object | None
    status: Status
    status_reason: str | None
    paused_by: str | None
    resume_at: When | None
    description_text: str
    current_repeat: int
    current_retry: int
    failed_slots: int
    run_count: int
    error_count: int
    fire_count: int
    last_error: str | None
    last_fired_at: When | None
    last_run_at: When | None
    last_completed_at: When | None
    last_success_at: When | None
    last_success_job_id: str | None
    next_slot_at: When | None
    next_run_at: When | None
    held_slot_at: When | None
    held_reason: str | None
    held_since: When | None
    outstanding: int
    running_jobs: int
    revision: int
    created_at: When
    updated_at: When
    source: str
    source_file: str | None
    source_line: int | None


class ScheduleList(Shape):
    """A page of schedules, newest first."""

    items: list[Schedule]
    total: int
    total_is_approximate: bool = Field(description="Above 10,000 matches the total is an estimate.")
    next_cursor: str | None = Field(description="The `cursor` of the next page; null on the last one.")


class Stats(Shape):
    """How the last jobs went, at most 1,000 of them; durations in seconds."""

    jobs: int
    succeeded: int
    failed: int
    cancelled: int
    success_rate: float | None
    since: When | None
    duration_min: float | None
    duration_median: float | None
    duration_p95: float | None
    duration_max: float | None


class Revision(Shape):
    """One revision of a definition, in the words of a schedule."""

    revision: int
    in_force_at: When
    cause: Cause | None = Field(description="null: written by a release that did not keep it.")
    definition: Object


class RevisionList(Shape):
    items: list[Revision]
    total: int
