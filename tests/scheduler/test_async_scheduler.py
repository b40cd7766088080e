"""The scheduler of an asyncio program: the same names, awaitable, and nothing that blocks the loop."""

from __future__ import annotations

import asyncio
import inspect
from pathlib import Path

import pytest

from everwhen import AsyncScheduler, Run, Scheduler
from tests.scheduler import signatures

LONG = 30.0
NEVER = "0 0 1 1 *"


def public_names(of: type) -> set[str]:
    return {name for name in dir(of) if not name.startswith("_")}


def test_it_has_every_name_of_the_plain_scheduler() -> None:
    # What a test or another part of everwhen asks of a scheduler, and what is asked of `.scheduler`.
    own = {
        "check_on",
        "declare_on",
        "functions",
        "lend",
        "listeners",
        "on_trigger",
        "queues",
        "start_on_loop",
    }
    assert public_names(Scheduler) - own <= public_names(AsyncScheduler)


def test_whatever_asks_the_database_is_awaited() -> None:
    plain = {"every", "cron", "at", "after", "subscribe", "on", "asgi", "is_running", "get_status"}
    plain |= {"name", "timezone", "database"}
    for name in public_names(AsyncScheduler) - plain:
        assert inspect.iscoroutinefunction(getattr(AsyncScheduler, name)), name


def test_a_second_cancellation_leaves_the_stop_to_its_end(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    scheduler = AsyncScheduler(f"sqlite:///{tmp_path}/shop.db", name="shop")
    began, may_end = asyncio.Event(), asyncio.Event()

    @scheduler.cron(NEVER, id="long")
    async def long() -> str:
        began.set()
        await may_end.wait()
        return "done"

    async def live() -> None:
        async with scheduler:
            await scheduler.trigger("long")
            await asyncio.Event().wait()

    async def main() -> str | None:
        task = asyncio.create_task(live())
        await asyncio.wait_for(began.wait(), LONG)
        task.cancel()
        while scheduler.get_status() == "running":
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        may_end.set()
        while scheduler.get_status() != "stopped":
            await asyncio.sleep(0.01)
        found = await scheduler.jobs("long")
        await scheduler.close()
        text: str | None = found[0].result
        return text

    assert asyncio.run(main()) == "done"
    assert "was closed" not in caplog.text


def test_a_life_of_a_schedule_without_leaving_the_loop(tmp_path: Path) -> None:
    scheduler = AsyncScheduler(f"sqlite:///{tmp_path}/shop.db", name="shop")
    loops: list[object] = []

    @scheduler.cron(NEVER, id="declared")
    async def declared(run: Run) -> str:
        loops.append(asyncio.get_running_loop())
        return run.schedule_id

    async def main() -> None:
        async with scheduler:
            assert (await (await scheduler.trigger("declared"))).result == "declared"
            assert loops == [asyncio.get_running_loop()]
            await scheduler.add("a", signatures.greet, args=["Ada"], cron=NEVER)
            assert (await scheduler.update("a", name="Greeting")).revision == 2
            handle = await scheduler.trigger("a")
            assert (await handle.wait(LONG)).result == "hello Ada"
            assert (await handle.status(), await handle.result()) == ("succeeded", "hello Ada")
            assert [one.id for one in await scheduler.schedules()] == ["declared", "a"]
            assert [job.result for job in await scheduler.jobs("a")] == ["hello Ada"]
            await scheduler.remove("a")
        assert scheduler.get_status() == "stopped"

    asyncio.run(main())


def test_a_cancelled_job_cancels_its_coroutine_and_waiting_has_a_bound(tmp_path: Path) -> None:
    scheduler = AsyncScheduler(f"sqlite:///{tmp_path}/shop.db", name="shop")
    reported: list[str] = []

    async def main() -> None:
        begun = asyncio.Event()

        @scheduler.cron(NEVER, id="long")
        async def long() -> None:
            begun.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                reported.append("cancelled")
                raise

        async with scheduler:
            handle = await scheduler.trigger("long")
            await begun.wait()
            with pytest.raises(TimeoutError):
                await handle.wait(0.01)
            assert handle.job_id is not None
            await scheduler.cancel(handle.job_id)
            assert (await handle).status == "cancelled"

    asyncio.run(main())
    assert reported == ["cancelled"]


def test_a_program_that_is_cancelled_stops_its_scheduler(tmp_path: Path) -> None:
    scheduler = AsyncScheduler(f"sqlite:///{tmp_path}/shop.db", name="shop")

    async def main() -> None:
        running = asyncio.create_task(scheduler.run())
        while not scheduler.is_running():
            await asyncio.sleep(0.01)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert scheduler.get_status() == "stopped"

    asyncio.run(main())
