"""A program as somebody writes it who checks types strictly; `mypy` must have nothing to say about it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta

from fastapi import FastAPI

from everwhen import (
    AgentScheduleInfo,
    CronExpression,
    CronParseError,
    Run,
    ScheduleCheckResult,
    ScheduleInfo,
    ScheduleOptions,
    Scheduler,
    SchedulerOptions,
    SchedulerShutdownError,
    SchedulerState,
    SchedulerStatus,
    StopOptions,
    TriggerInfo,
    Upcoming,
    Why,
    calculate_next_trigger,
    parse_cron_expression,
    parse_interval,
)


def on_trigger(info: TriggerInfo) -> str:
    agent: str | None = info.agent
    return f"{agent} {info.schedule_name} {info.prompt} {info.metadata.attempt} {info.payload.get('a')}"


options: SchedulerOptions = {"name": "shop", "check_interval": 0.5, "on_trigger": on_trigger, "logger": None}
scheduler = Scheduler("sqlite://", **options)
common: ScheduleOptions = {"timezone": "Europe/Paris", "max_retries": 3, "retry_delay": timedelta(minutes=1)}


@scheduler.every("5m", jitter="30s", interval_from="completion", id="poll")
def poll(run: Run) -> int:
    run.log("attempt %d of %s", run.attempt, run.job_id)
    slot: datetime = run.slot_at
    return 0 if run.cancelled else slot.hour


@scheduler.cron("0 9 * * 1-5", catch_up="run_once", dst={"gap": "shift"}, not_on=["sat", 0])
async def report(run: Run) -> None:
    run.log.warning(run.payload["to"])


@scheduler.every(timedelta(minutes=1), **common)
def with_common_options() -> None: ...


@scheduler.at(datetime(2030, 1, 1), circuit_breaker={"threshold": 3, "reset_after": "30m"})
def nothing_to_take() -> None: ...


@scheduler.after(timedelta(hours=1), isolate=True, expect={"within": "26h", "grace": "1h"})
def later() -> None: ...


def operate(agents: Sequence[AgentScheduleInfo]) -> SchedulerState:
    number: int = poll.__code__.co_argcount  # a decorator leaves the function what it is
    added: ScheduleInfo = scheduler.add("added", poll, every=timedelta(minutes=number))
    many: list[ScheduleInfo] = scheduler.add_many(
        [{"id": "a", "cron": "@daily", "run": {"command": ["true"]}}]
    )
    next_at: datetime | None = added.next_run_at or many[0].next_run_at
    scheduler.start(agents)
    status: SchedulerStatus = scheduler.get_status()
    job_id: str | None = scheduler.trigger("poll", {"by": "hand"}, if_running="skip").job_id
    coming: list[Upcoming] = scheduler.upcoming("poll", count=3)
    why: Why = scheduler.why("poll", at=coming[0].slot_at)
    checked: ScheduleCheckResult = scheduler.check_schedule("poll")
    if checked.skip_reason == "at_capacity":
        scheduler.pause("poll", note=f"{status} {job_id} {why.sentence} {next_at}", until="2030-01-01T00:00Z")
    gently: StopOptions = {"timeout": 5.0}
    try:
        scheduler.stop(**gently)
    except SchedulerShutdownError as error:
        print(error.running_job_count, error.timed_out)
    return scheduler.get_state()


def inside_an_application() -> FastAPI:
    app = FastAPI()
    app.mount("/tools/everwhen", scheduler.asgi(allowed_hosts=["shop.example.com"], max_body="2MiB"))
    secret: str = scheduler.create_token("me", role="admin")
    print(secret)
    Scheduler("sqlite://", name="shop", context=lambda: suppress(KeyError)).run_worker()
    return app


async def inside_a_loop() -> None:
    async with scheduler as running:
        running.subscribe(lambda event: print(event["content"]), id="inbox")


def times() -> datetime:
    try:
        expression: CronExpression = parse_cron_expression("@daily")
    except CronParseError as error:
        print(error.expression, error.field, error.example)
    return calculate_next_trigger(None, parse_interval("5m") if expression.text else "1h")
