"""Functions as they are: any signature, arguments that are kept as JSON, and the run where a parameter wants it."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from everwhen import ConfigError, Run, Scheduler
from everwhen.scheduler.handles import JobResult
from tests.scheduler import signatures
from tests.scheduler.signatures import SHOP, Shop

LONG = 30.0


@pytest.fixture
def scheduler() -> Iterator[Scheduler]:
    with Scheduler("sqlite://", name="shop") as running:
        yield running


def ran(scheduler: Scheduler, function: Callable[..., Any], **options: Any) -> JobResult:
    scheduler.add("it", function, cron="0 0 1 1 *", **options)
    return scheduler.trigger("it").wait(LONG)


@pytest.mark.parametrize(
    ("function", "options", "result"),
    [
        (signatures.greet, {"args": ["Ada"]}, "hello Ada"),
        (signatures.greet, {"kwargs": {"name": "Ada", "greeting": "hi"}}, "hi Ada"),
        (signatures.between, {"args": [1, 2]}, [1, "it", 2]),
        (signatures.between, {"kwargs": {"first": 1, "last": 2}}, [1, "it", 2]),
        (signatures.anything, {"args": [1], "kwargs": {"run": 2}}, [[1], {"run": 2}]),
        (signatures.defaults, {}, 3),
        (signatures.defaults, {"args": [5]}, 7),
        (signatures.later, {"args": ["it runs"]}, "it runs in it"),
        (SHOP.open, {"args": [9]}, "Oslo opens at 9"),
        (Shop.kind, {}, "Shop"),
        (functools.partial(signatures.greet, greeting="hei"), {"args": ["Bo"]}, "hei Bo"),
        (functools.partial(functools.partial(SHOP.open), 10), {}, "Oslo opens at 10"),
    ],
)
def test_a_function_gets_its_arguments(
    scheduler: Scheduler, function: Callable[..., Any], options: dict[str, Any], result: Any
) -> None:
    ended = ran(scheduler, function, **options)
    assert ended.status == "succeeded", ended.error
    assert ended.result == (result if isinstance(result, str | list) else json.dumps(result))


def test_a_parameter_annotated_run_gets_the_run_and_so_does_one_of_that_name(scheduler: Scheduler) -> None:
    ended = ran(scheduler, signatures.job_of)
    assert ended.result is not None
    assert ended.result.startswith("sched-")


def test_a_function_in_a_process_of_its_own_gets_its_arguments_too(tmp_path: Path) -> None:
    with Scheduler(f"sqlite:///{tmp_path}/a.db", name="shop") as scheduler:
        run = {"python": "tests.scheduler.signatures:greet", "isolate": True, "kwargs": {"name": "Ada"}}
        scheduler.add("it", cron="0 0 1 1 *", run=run)
        assert scheduler.trigger("it").wait(LONG).result == "hello Ada"


def test_decorators_take_arguments_and_keep_the_function() -> None:
    scheduler = Scheduler("sqlite://", name="shop")
    said: list[str] = []

    @scheduler.cron("0 0 1 1 *", id="a", args=["Ada"], kwargs={"greeting": "hi"})
    def greet(name: str, greeting: str, run: Run) -> None:
        said.append(f"{greeting} {name} by {run.schedule_id}")

    with scheduler:
        assert scheduler.trigger("a").wait(LONG).is_success
    assert said == ["hi Ada by a"]
    assert greet.__name__ == "greet"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"args": [1, 2, 3]},
            r"greet\(.*\).* cannot be called with \(1, 2, 3\): too many positional arguments",
        ),
        ({"kwargs": {"nam": "Ada"}}, "missing a required argument: 'name'"),
        ({"kwargs": {"name": "Ada", "tone": 1}}, "got an unexpected keyword argument 'tone'"),
        (
            {"kwargs": {"name": {"when": [datetime(2026, 1, 1, tzinfo=UTC)]}}},
            r"kwargs\.name\.when\[0\] is a datetime",
        ),
        ({"args": [float("nan")]}, r"args\[0\] is a float, which is not JSON"),
        ({"args": [object()]}, r"args\[0\] is an object, which is not JSON"),
        ({"args": [{1: 2}]}, r"args\[0\] has the key 1, and the keys of JSON are text"),
    ],
)
def test_what_a_function_cannot_take_is_refused_when_it_is_added(
    options: dict[str, Any], message: str
) -> None:
    scheduler = Scheduler("sqlite://", name="shop")
    with pytest.raises(ConfigError, match=message):
        scheduler.add("a", signatures.greet, every="1h", **options)
    with pytest.raises(ConfigError, match=message):
        scheduler.every("1h", **options)(signatures.greet)
    assert scheduler.schedules() == []


def test_a_function_comes_first_where_the_id_is_a_keyword_or_left_out() -> None:
    scheduler = Scheduler("sqlite://", name="shop")
    assert scheduler.add(signatures.defaults, every="1h", id="sum").id == "sum"
    assert scheduler.add(signatures.defaults, every="1h").id == "tests-scheduler-signatures-defaults"


def test_a_lambda_is_added_with_an_id_and_runs_in_this_process(scheduler: Scheduler) -> None:
    said: list[str] = []
    assert ran(scheduler, lambda: said.append("here")).is_success
    assert said == ["here"]


def test_a_lambda_is_invalid_after_a_restart_until_its_id_is_added_again(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/shop.db"
    with Scheduler(url, name="shop") as first:
        first.add("it", lambda: "first", cron="0 0 1 1 *")
        assert first.trigger("it").wait(LONG).result == "first"
    with Scheduler(url, name="shop") as second:
        found = second.get_schedule("it")
        assert (found.status, found.status_reason) == ("invalid", "declare it again")
        assert second.add("it", lambda: "second", cron="0 0 1 1 *").status == "active"
        assert second.trigger("it").wait(LONG).result == "second"
        assert second.get_schedule("it").fire_count == 2
