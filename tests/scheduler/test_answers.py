"""What calls answer: one complete shape for a schedule, a job by the same names everywhere, results as they were."""

from __future__ import annotations

import dataclasses
import json
import logging
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from everwhen import AsyncScheduler, JobInfo, Run, ScheduleInfo, Scheduler, SchedulerError
from everwhen.cli.main import everwhen
from tests.scheduler import signatures
from tests.scheduler.waiting import until

LONG = 30.0
NEVER = "0 0 1 1 *"


@pytest.fixture
def scheduler() -> Iterator[Scheduler]:
    scheduler = Scheduler("sqlite://", name="shop", timezone="Europe/Paris")
    yield scheduler
    scheduler.close()


def in_list(scheduler: Scheduler, schedule_id: str) -> ScheduleInfo:
    (info,) = [one for one in scheduler.schedules() if one.id == schedule_id]
    return info


@pytest.mark.parametrize(
    "call",
    [
        lambda s: s.add("new", signatures.defaults, every="1h", name="New"),
        lambda s: s.add("new", lambda: None, cron=NEVER),
        lambda s: s.add("a", signatures.defaults, every="2h", replace_existing=True),
        lambda s: s.add_many([{"id": "new", "function": signatures.defaults, "cron": NEVER}])[0],
        lambda s: s.update("a", every="90m", timezone="Asia/Tokyo"),
        lambda s: s.get_schedule("a"),
        lambda s: s.get_schedule("declared"),
        lambda s: s.pause("a", note="tea"),
        lambda s: s.resume("paused"),
        lambda s: s.revive("once"),
    ],
)
def test_every_answer_about_a_schedule_is_the_one_that_lists_show(
    scheduler: Scheduler, call: Callable[[Scheduler], ScheduleInfo]
) -> None:
    scheduler.cron(NEVER, id="declared")(signatures.defaults)
    scheduler.add("a", signatures.defaults, every="1h", first_run="after_interval")
    scheduler.add("paused", signatures.defaults, every="1h")
    scheduler.pause("paused")
    with scheduler:
        scheduler.add("once", signatures.defaults, every="1s", total_repeats=1)
        until(lambda: scheduler.get_schedule("once").status == "done")
    answer = call(scheduler)
    assert answer == in_list(scheduler, answer.id)
    assert answer.trigger and answer.timezone and answer.source.startswith("python")
    assert None not in (answer.trigger, answer.timezone, answer.source, answer.name)


def test_a_request_in_lists_and_calls_have_all_fields(scheduler: Scheduler) -> None:
    added = scheduler.add("a", signatures.defaults, cron="0 9 * * *", name="Nine")
    assert (added.name, added.trigger, added.timezone) == ("Nine", "every day at 09:00", "Europe/Paris")
    assert added.source == "python"
    assert all(field.default is dataclasses.MISSING for field in dataclasses.fields(ScheduleInfo))


def test_a_job_has_its_id_under_the_name_that_everything_else_uses(scheduler: Scheduler) -> None:
    scheduler.add("a", signatures.job_of, cron=NEVER)
    with scheduler:
        handle = scheduler.trigger("a")
        ended = handle.wait(LONG)
    (job,) = scheduler.jobs("a")
    assert job.job_id == job.id == handle.job_id == ended.result
    assert "job_id" in {field.name for field in dataclasses.fields(JobInfo)}


def orders() -> dict[str, Any]:
    return {"orders": [1, 2], "open": True}


def pair() -> tuple[int, None]:
    return 1, None


def text() -> str:
    return '{"orders": 3}'


def figure() -> int:
    return 3


def odd() -> dict[Any, Any]:
    return {("a", "key"): 1}


def long() -> list[str]:
    return ["x" * 70_000]


async def awaited(run: Run) -> dict[str, str]:
    return {"id": run.schedule_id}


RESULTS: dict[str, tuple[Callable[..., Any], Any]] = {
    "object": (orders, {"orders": [1, 2], "open": True}),
    "list": (pair, [1, None]),
    "async": (awaited, {"id": "async"}),
    "text": (text, '{"orders": 3}'),
    "number": (figure, "3"),
    "odd": (odd, "{('a', 'key'): 1}"),
}


def fails() -> None:
    raise ValueError("boom")


async def fails_async() -> None:
    raise json.JSONDecodeError("boom", "", 0)


FAILING: dict[str, tuple[Callable[..., Any] | str, str, str]] = {
    "sync": (fails, "ValueError", "boom"),
    "async": (fails_async, "json.decoder.JSONDecodeError", "boom: line 1 column 1 (char 0)"),
    "isolated": ("tests.targets.functions:awaits_and_raises", "ValueError", "async"),
}


@pytest.fixture(params=("sqlite", "postgres"))
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/shop.db"
    found: str = request.getfixturevalue("postgres_url")
    return found


def test_the_last_error_is_the_message_and_its_type_stands_beside_it(url: str) -> None:
    with Scheduler(url, name="shop") as scheduler:
        for name, (function, _, _) in FAILING.items():
            if isinstance(function, str):
                scheduler.add(name, every="1d", run={"python": function, "isolate": True})
            else:
                scheduler.add(name, function, every="1d")
        until(lambda: all(scheduler.get_schedule(name).error_count for name in FAILING))
        for name, (_, error_type, message) in FAILING.items():
            schedule = scheduler.get_schedule(name)
            assert (schedule.last_error_type, schedule.last_error) == (error_type, message)
            (job,) = scheduler.jobs(schedule=name)
            assert (job.error_type, job.error_message) == (error_type, message)
            assert job.error is not None and job.error.startswith("Traceback")
            ended = scheduler.trigger(name).wait(LONG)
            assert (ended.error_type, ended.error_message) == (error_type, message)
            assert f"{error_type}: {message}" in scheduler.why(name).sentence
    scheduler.close()


def test_every_surface_has_the_message_of_an_error_beside_its_type(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/shop.db"
    with Scheduler(url, name="shop") as scheduler:
        scheduler.add("a", fails, every="1d")
        until(lambda: bool(scheduler.get_schedule("a").error_count))
    scheduler.close()

    def answer(*line: str) -> Any:
        return json.loads(CliRunner().invoke(everwhen, [*line, "--database", url, "--json"]).stdout)

    schedule, (job,) = answer("schedules", "show", "a"), answer("jobs", "list")
    assert (schedule["last_error"], schedule["last_error_type"]) == ("boom", "ValueError")
    assert (job["error_message"], job["error_type"]) == ("boom", "ValueError")
    assert job["error"].startswith("Traceback")
    assert "its job failed: ValueError: boom" in answer("why", "a")["sentence"]
    shown = CliRunner().invoke(everwhen, ["jobs", "list", "--database", url]).stdout
    assert "ValueError: boom" in shown and "Traceback" not in shown


def test_an_object_or_a_list_that_a_function_returns_comes_back_as_one(url: str) -> None:
    with Scheduler(url, name="shop") as scheduler:
        for name, (function, _) in RESULTS.items():
            scheduler.add(name, function, every="1d", first_run="after_interval")
        handles = {name: scheduler.trigger(name) for name in RESULTS}
        ended = {name: handle.wait(LONG).result for name, handle in handles.items()}
        assert ended == {name: result for name, (_, result) in RESULTS.items()}
        assert {name: handle.result for name, handle in handles.items()} == ended
        assert {job.schedule_id: job.result for job in scheduler.jobs()} == ended
    scheduler.close()


def test_an_isolated_function_returns_an_object_as_well_and_a_cut_result_stays_text(
    scheduler: Scheduler,
) -> None:
    scheduler.add("own", run={"python": f"{__name__}:orders", "isolate": True}, cron=NEVER)
    scheduler.add("cut", long, cron=NEVER)
    scheduler.add("printed", run={"command": ["echo", '{"n": 1}']}, cron=NEVER)
    with scheduler:
        own, cut, printed = (scheduler.trigger(name).wait(LONG).result for name in ("own", "cut", "printed"))
    assert own == {"orders": [1, 2], "open": True}
    assert (type(cut), len(cut), printed) == (str, 65_536, '{"n": 1}')


def test_the_removal_of_a_declared_schedule_says_that_it_comes_back(
    scheduler: Scheduler, caplog: pytest.LogCaptureFixture
) -> None:
    scheduler.cron(NEVER, id="declared")(signatures.defaults)
    scheduler.add("added", signatures.defaults, every="1h")
    with scheduler, caplog.at_level(logging.WARNING, logger="everwhen"):
        scheduler.remove("added")
        assert caplog.messages == []
        scheduler.remove("declared")
        (text,) = caplog.messages
        assert (
            'schedule "declared" is declared by the program "shop", and comes back at its next start' in text
        )
    with scheduler:
        assert scheduler.get_schedule("declared").status == "active"


def test_an_add_that_fails_leaves_the_function_that_was_added_first(tmp_path: Path) -> None:
    """Whether it is refused as it is read, or the database cannot write it."""
    scheduler = Scheduler(f"sqlite:///{tmp_path}/shop.db", name="shop")
    scheduler.add("local", lambda: "first", cron=NEVER)
    with pytest.raises(SchedulerError):
        scheduler.add("local", lambda: "second", every="5x")
    refuse = "CREATE TRIGGER refuse BEFORE INSERT ON schedule_revisions BEGIN SELECT RAISE(ABORT, 'no'); END"
    with closing(sqlite3.connect(tmp_path / "shop.db", isolation_level=None)) as connection:
        connection.execute(refuse)
        with pytest.raises(Exception, match="no"):
            scheduler.add("local", lambda: "third", every="1h")
        with pytest.raises(Exception, match="no"):
            scheduler.add("other", lambda: "other", every="1h")
        connection.execute("DROP TRIGGER refuse")
    with scheduler:
        assert scheduler.trigger("local").wait(LONG).result == "first"
    assert [one.id for one in scheduler.schedules()] == ["local"]
    scheduler.close()


def test_keywords_of_a_partial_do_not_override_those_that_are_given(scheduler: Scheduler) -> None:
    polite = partial(partial(signatures.greet, greeting="dear"), greeting="good morning")
    scheduler.add("given", polite, args=["Ada"], kwargs={"greeting": "hi"}, cron=NEVER)
    scheduler.add("partial", polite, args=["Ada"], cron=NEVER)
    scheduler.cron(NEVER, id="declared", kwargs={"greeting": "hi"})(partial(polite, "Bo"))
    with scheduler:
        results = [scheduler.trigger(name).wait(LONG).result for name in ("given", "partial", "declared")]
    assert results == ["hi Ada", "good morning Ada", "hi Bo"]


def test_a_program_that_runs_logs_what_runs_next_and_in_which_zone(
    caplog: pytest.LogCaptureFixture, scheduler: Scheduler
) -> None:
    scheduler.cron("0 9 1 7 *", id="report", start_at="2090-01-01T00:00")(signatures.defaults)
    scheduler.add("often", signatures.defaults, every="1h", start_at="2089-01-01T00:00Z")
    agents = {
        "reviewer": {"command": ["true"], "schedules": {"check": {"type": "webhook", "secret": "x" * 20}}}
    }
    running = threading.Thread(target=scheduler.run, args=(agents,))
    with caplog.at_level(logging.INFO, logger="everwhen"):
        running.start()
        until(lambda: any("other active schedule" in text for text in caplog.messages))
    scheduler.stop()
    running.join()
    lines = caplog.messages[
        [text.startswith("scheduler shop started") for text in caplog.messages].index(True) + 1 :
    ]
    assert lines[:3] == [
        "often   every hour                                  next run Sat 2089-01-01 01:00:00 CET +01:00",
        "report  at 09:00, on the 1st of the month, in July  next run Sat 2090-07-01 09:00:00 CEST +02:00",
        "and 1 other active schedule",
    ]


def test_a_program_whose_only_schedule_runs_already_logs_that(
    caplog: pytest.LogCaptureFixture, scheduler: Scheduler
) -> None:
    agents = {"bot": {"command": ["true"], "schedules": {"ask": {"type": "chat"}}}}
    running = threading.Thread(target=scheduler.run, args=(agents,))
    with caplog.at_level(logging.INFO, logger="everwhen"):
        running.start()
        until(lambda: "1 active schedule: what runs now, or is fired by requests" in caplog.messages)
    scheduler.stop()
    running.join()


def test_an_asyncio_program_logs_it_as_well(caplog: pytest.LogCaptureFixture) -> None:
    import asyncio

    shop = AsyncScheduler("sqlite://", name="shop", timezone="UTC")
    shop.cron("0 9 1 7 *", id="report", start_at="2090-01-01T00:00")(signatures.defaults)

    async def main() -> None:
        task = asyncio.create_task(shop.run())
        while not any("next run Sat 2090-07-01 09:00:00 UTC" in text for text in caplog.messages):
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.wait([task])
        await shop.close()

    with caplog.at_level(logging.INFO, logger="everwhen"):
        asyncio.run(main())
