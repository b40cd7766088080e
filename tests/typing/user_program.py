"""A program as somebody writes it who checks types strictly; `mypy` and pyright must have nothing to say about it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import psycopg
from fastapi import FastAPI
from psycopg.rows import DictRow, TupleRow

from everwhen import (
    AddOptions,
    AgentScheduleInfo,
    AsyncJobHandle,
    AsyncRequestHandle,
    AsyncScheduler,
    Backfilled,
    ConfigError,
    CronExpression,
    CronParseError,
    DuplicateScheduleError,
    IntervalParseError,
    JobHandle,
    JobInfo,
    JobResult,
    NewSchedule,
    RequestHandle,
    Run,
    RunScheduleOptions,
    ScheduleCheckResult,
    ScheduleInfo,
    ScheduleOptions,
    Scheduler,
    SchedulerError,
    SchedulerEvent,
    SchedulerLogger,
    SchedulerOptions,
    SchedulerShutdownError,
    SchedulerState,
    SchedulerStatus,
    SchedulerTriggerCallback,
    ScheduleRunnerLogger,
    ScheduleRunResult,
    ScheduleSkipReason,
    ScheduleState,
    ScheduleTriggerError,
    StopOptions,
    StoreError,
    TimetableError,
    TriggerInfo,
    TriggerMetadata,
    Upcoming,
    Why,
    WorkItem,
    build_schedule_prompt,
    calculate_next_cron_trigger,
    calculate_next_trigger,
    execute_scheduled_job,
    get_agent_schedule_states,
    get_schedule_state,
    is_schedule_due,
    is_valid_cron_expression,
    parse_cron_expression,
    parse_interval,
    recover_scheduled_jobs,
    run_schedule,
    start_scheduled_job,
    update_schedule_state,
)
from everwhen.testing import ManualClock, ManualJob, ManualScheduler, Outcome, manual_scheduler


def on_trigger(info: TriggerInfo) -> str:
    agent: str | None = info.agent
    return f"{agent} {info.schedule_name} {info.prompt} {info.metadata.attempt} {info.payload.get('a')}"


options: SchedulerOptions = {"name": "shop", "check_interval": 0.5, "on_trigger": on_trigger, "logger": None}
options["max_workers_per_owner"] = 3
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


@scheduler.every("1h", args=["Ada"], kwargs={"tone": "low"})
def greet(name: str, run: Run, *, tone: str) -> str:
    return f"{name} {tone} {run.schedule_id}"


def change() -> list[JobInfo]:
    said: str = greet("Bo", _a_run(), tone="high")  # the signature stays
    scheduler.add(greet, every="5m", args=["Ada"], kwargs={"tone": said}, replace_existing=True)
    scheduler.add("local", lambda: None, cron="@daily")
    scheduler.update("local", every=timedelta(minutes=5), max_retries=3, kwargs=None)
    scheduler.update(
        "local", jitter=None, timezone=None, only_between=None, start_at=None, circuit_breaker=None
    )
    ended: JobResult = scheduler.trigger("local").wait(timeout=30)
    orders: dict[str, int] = ended.result or {"orders": 0}
    print(orders["orders"])
    names: list[str] = [one.id for one in scheduler.schedules(status="active")]
    scheduler.print_schedules()
    if not ended.is_success:
        scheduler.rerun(scheduler.jobs(names[0], status="failed")[0].id).wait()
    scheduler.pause_all()
    scheduler.resume_all()
    removed: int = scheduler.remove_all()
    return scheduler.jobs(limit=removed)


def _a_run() -> Run: ...  # type: ignore[empty-body]


async def wait_for_it() -> str | None:
    async with AsyncScheduler("sqlite://", name="shop") as shop:
        await shop.add("a", greet, every="5m", args=["Ada"], kwargs={"tone": "low"})
        info: ScheduleInfo = await shop.pause("a", note="tea")
        handle = await shop.trigger(info.id)
        result: JobResult = await handle
        jobs: list[JobInfo] = await shop.jobs("a", status="succeeded")
        text: str | None = result.result if jobs else await handle.result()
        return text if jobs[0].job_id != jobs[0].id else None


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


@scheduler.on("job.failed", "schedule.missed")
def tell(event: SchedulerEvent) -> str:
    return f"{event.type} {event.schedule_id} {event.at:%H:%M} {event.detail['error']}"


@scheduler.on(scope="all", name="audit")
async def keep(event: SchedulerEvent) -> None:
    print(event.slot_at, event.slot_count, event.job_id or "", event.actor, event.reason)


def inside_an_application() -> FastAPI:
    app = FastAPI()
    app.mount(
        "/tools/everwhen",
        scheduler.asgi(allowed_hosts=["shop.example.com"], max_body="2MiB", max_timeout=timedelta(hours=2)),
    )
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
        raise
    return calculate_next_trigger(None, parse_interval("5m") if expression.text else "1h")


def inside_a_transaction(connection: psycopg.Connection[TupleRow]) -> JobResult:
    added: RequestHandle[ScheduleInfo] = scheduler.add("a", poll, every="1h", connection=connection)
    same: RequestHandle[ScheduleInfo] = scheduler.add(poll, id="b", every="1h", connection=connection)
    changed: RequestHandle[ScheduleInfo] = scheduler.update("a", every="2h", connection=connection)
    removed: RequestHandle[None] = scheduler.remove("b", connection=connection)
    ran: RequestHandle[JobResult] = scheduler.trigger("a", {"n": 1}, connection=connection)
    at_once: JobHandle = scheduler.trigger("a", connection=None)
    infos: list[ScheduleInfo | None] = [added.result, same.result, changed.result]
    removed.wait(1.0)
    return ran.wait(1.0) if ran.status == "done" and infos else at_once.wait()


async def inside_an_asynchronous_one(
    own: AsyncScheduler, connection: psycopg.AsyncConnection[DictRow]
) -> ScheduleInfo:
    handle: AsyncRequestHandle[ScheduleInfo] = await own.add("a", poll, every="1h", connection=connection)
    result: JobResult = await (await own.trigger("a", connection=connection))
    plain: ScheduleInfo = await own.update("a", every="1h")
    return await handle.wait(1.0) if result.is_success else plain


class Lines:
    """A logger of the program's own."""

    def debug(self, msg: str, /) -> None: ...
    def info(self, msg: str, /) -> None: ...
    def warning(self, msg: str, /) -> None: ...
    def error(self, msg: str, /) -> None: ...


def maintain(job_id: str, agents: Sequence[AgentScheduleInfo]) -> datetime | None:
    logger: SchedulerLogger = Lines()
    host: SchedulerTriggerCallback = on_trigger
    shop = Scheduler(
        "sqlite://", name="shop", logger=logger, on_trigger=host, timezone=ZoneInfo("Asia/Tokyo")
    )
    added: AddOptions = {"every": "1h", "replace_existing": True}
    new: list[NewSchedule] = [{"id": "b", "cron": "@daily", "function": poll}]
    try:
        shop.add("a", poll, **added)
        shop.add_many(new)
    except (ConfigError, DuplicateScheduleError, TimetableError, StoreError) as error:
        print(error)
    shop.set_agents(agents)
    filled: Backfilled = shop.backfill("a", "2026-01-01T00:00", datetime(2026, 1, 2), dry_run=True)
    job: JobInfo = shop.get_job(job_id) if filled.slots else shop.cancel(job_id)
    known: ScheduleInfo = shop.get_schedule("a") if shop.resume("a").status == "active" else shop.revive("a")
    count: int = shop.get_running_job_count("reviewer") + shop.get_total_running_job_count()
    reason: ScheduleSkipReason | None = shop.check_schedule("a").skip_reason
    print(shop.name, shop.timezone, shop.database, job.is_ended, count, reason, shop.is_running())
    shop.forget_listener("audit")
    shop.run()
    shop.close()
    return known.next_run_at


async def maintain_on_a_loop(shop: AsyncScheduler, agents: Sequence[AgentScheduleInfo]) -> str | None:
    await shop.start(agents)
    await shop.set_agents(agents)
    await shop.add_many([{"id": "b", "cron": "@daily", "function": report}])
    filled: Backfilled = await shop.backfill("a", "2026-01-01T00:00", "2026-01-02T00:00")
    known: ScheduleInfo = await shop.get_schedule("a")
    await shop.resume(known.id)
    await shop.revive(known.id)
    handle: AsyncJobHandle = await shop.rerun((await shop.get_job(f"{filled.slots[0]}")).id)
    await shop.cancel(handle.job_id or "")
    count: int = await shop.get_running_job_count("a") + await shop.get_total_running_job_count()
    print(count, shop.is_running(), shop.get_status(), (await shop.get_state()).check_count, shop.name)
    await shop.print_schedules(status="active")
    print(shop.timezone, shop.database, await shop.why("a"))
    removed: int = await shop.remove_all(cancel_running=True)
    await shop.pause_all()
    await shop.resume_all()
    await shop.forget_listener("audit")
    await shop.stop(wait_for_jobs=removed > 0, timeout=5)
    await shop.close()
    await shop.run()
    return await handle.error()


def one_agent_from_outside(database: str) -> bool:
    logger: ScheduleRunnerLogger = Lines()
    run = RunScheduleOptions(database=database, agent="reviewer", schedule="check", logger=logger)
    try:
        result: ScheduleRunResult = run_schedule(run)
    except ScheduleTriggerError as error:
        print(error.agent, error.schedule)
        raise
    states: dict[str, ScheduleState] = get_agent_schedule_states(database, "reviewer")
    state: ScheduleState = get_schedule_state(database, "reviewer", "check")
    update_schedule_state(database, "reviewer", "check", status="disabled")
    prompt: str = build_schedule_prompt({"prompt": "Look."}, work_item())
    number: int = recover_scheduled_jobs(database) + execute_scheduled_job(database, "a")
    print(states["check"].last_error, state.next_run_at, prompt, number, start_scheduled_job(database, "a"))
    return result.success


def work_item() -> WorkItem | None:
    return None


def metadata(info: TriggerInfo) -> TriggerMetadata:
    return info.metadata


def more_times(text: str) -> bool:
    try:
        parse_interval(text)
    except IntervalParseError as error:
        print(error.interval)
    except SchedulerError:
        raise
    next_at: datetime = calculate_next_cron_trigger("@daily", timezone="Europe/Paris")
    return is_valid_cron_expression(text) and is_schedule_due(next_at, now=datetime(2026, 1, 1))


def watch(manual: ManualScheduler) -> list[ManualJob]:
    clock: ManualClock = manual.clock
    test = manual_scheduler(
        clock.moment, of=AsyncScheduler("sqlite://"), outcome=lambda job: Outcome("failed")
    )
    test.advance(timedelta(hours=1))
    return test.jobs("poll")
