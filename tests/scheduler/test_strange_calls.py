"""What people type at first, and what nobody should: every call is taken, or refused with what to do instead."""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from everwhen import AsyncScheduler, ConfigError, Scheduler, SchedulerError
from everwhen.model.fields import FIELDS
from everwhen.scheduler.former_names import KEYS, METHODS
from tests.scheduler import signatures
from tests.scheduler.waiting import until

LONG = 30.0
NEVER = "0 0 1 1 *"


@pytest.fixture(scope="module")
def scheduler() -> Iterator[Scheduler]:
    scheduler = Scheduler("sqlite://", name="shop")
    scheduler.add("known", signatures.greet, cron=NEVER, args=["Ada"])
    yield scheduler
    scheduler.close()


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


ADD_ASYNC: Any = AsyncScheduler("sqlite://").add
CRON_ASYNC: Any = AsyncScheduler("sqlite://").cron
ITSELF: list[Any] = []
ITSELF.append(ITSELF)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s: s.add("a", "tasks:greet", every="1h"), r'write run=\{"python": "tasks:greet"\}'),
        (lambda s: s.add("a", 42, every="1h"), '"42" cannot be called; give a function'),
        (lambda s: s.add("a", signatures.greet, every="1h", id="b"), 'two ids, "a" and "b"'),
        (lambda s: s.add(signatures.greet, "a", every="1h"), "the id and the function, or the function and"),
        (lambda s: s.add("a", signatures.greet, every="1h", args="Ada"), "args is a str; it must be a list"),
        (
            lambda s: s.add("a", signatures.greet, every="1h", kwargs=["Ada"]),
            "kwargs is a list; it must be a map",
        ),
        (lambda s: s.every("1h", id="a", args="Ada")(signatures.greet), "args is a str; it must be a list"),
        (lambda s: s.update("known", args="Ada"), "args is a str; it must be a list"),
        (lambda s: s.add("a", signatures.greet, every="1h", args=[ITSELF]), "more than 100 levels deep"),
        (
            lambda s: s.add("a", signatures.greet, every="1h", args=[nested(5_000)]),
            "more than 100 levels deep",
        ),
        (
            lambda s: s.add("a", signatures.greet, every="1h", args=[[1, float("nan")]]),
            r"args\[0\]\[1\] is a float",
        ),
        (lambda s: s.add("a", signatures.greet, every="1h", args=["x" * 70_000]), "at most 65536 are taken"),
        (
            lambda s: s.add("a", signatures.greet, every="1h", max_instances=3),
            'if_running="allow" with max_conc',
        ),
        (lambda s: s.add("a", signatures.greet, seconds=30), "every='90s' or a timedelta"),
        (lambda s: s.every("5m", max_instances=3), 'if_running="allow" with max_conc'),
        (lambda s: s.cron("0 9 * * *", minute=30), "minute: the fields of cron are one text"),
        (
            lambda s: s.every(minutes=5, id="a"),
            r'^the fields of the trigger are one argument here: every\("5m", first_run="after_interval", id="a"\)$',
        ),
        (
            lambda s: s.every(hours=1, start_date="2090-01-01", max_instances=3),
            r'every\("1h", start_at="2090-01-01T00:00"\)\nmax_instances: use if_running="allow"',
        ),
        (
            lambda s: s.cron(hour=9),
            r'^the fields of the trigger are one argument here: cron\("0 9 \* \* \*"\)$',
        ),
        (
            lambda s: s.cron(day_of_week="mon-fri", hour="9-17", timezone="Asia/Tokyo"),
            r'cron\("0 9-17 \* \* mon-fri", timezone="Asia/Tokyo"\)$',
        ),
        (lambda s: s.cron(second="*/10"), r': every\("10s"\)$'),
        (
            lambda s: s.cron(week=2),
            "one argument here, and the five fields of cron= cannot say week=2\n`everwhen im",
        ),
        (lambda s: s.at(run_date=datetime(2090, 1, 1, 9)), r': at\("2090-01-01T09:00:00"\)$'),
        (lambda s: s.after(seconds=90, jitter=5), r': after\("1m30s", jitter="5s"\)$'),
        (lambda s: s.every(), r'^every takes its trigger as the first argument: every\("5m"\)$'),
        (
            lambda s: s.every(hour=9),
            r'^every takes its trigger as the first argument: every\("5m"\)\nhour: the fields of cron are one',
        ),
        (lambda _: CRON_ASYNC(hour=9), r': cron\("0 9 \* \* \*"\)$'),
        (lambda s: s.add("a", signatures.greet, hour=7, minute=30), "hour: the fields of cron are one text"),
        (
            lambda s: s.add("a", signatures.greet, "interval", minutes=5),
            r'^the trigger is a key here: add\("a", greet, every="5m", first_run="after_interval"\)$',
        ),
        (
            lambda s: s.add("a", "interval", signatures.greet, minutes=5),
            r'^the trigger is a key here: add\("a", greet, every="5m", first_run="after_interval"\)$',
        ),
        (
            lambda s: s.add("a", "cron", "shop.tasks:greet", ["Ada"], hour=9),
            r"""add\("a", run=\{"python": "shop.tasks:greet"\}, cron="0 9 \* \* \*", args=\['Ada'\]\)$""",
        ),
        (
            lambda s: s.add("a", signatures.greet, "interval", ["Ada"], {"tone": "low"}, minutes=5),
            r"""add\("a", greet, every="5m", first_run="after_interval", args=\['Ada'\], kwargs=\{'tone': 'low'\}\)$""",
        ),
        (
            lambda s: s.add(signatures.greet, "interval", hours=1, minutes=30, jitter=30, id="a"),
            r'add\("a", greet, every="1h30m", first_run="after_interval", jitter="30s"\)$',
        ),
        (
            lambda s: s.add(signatures.greet, trigger="interval", weeks=1, max_instances=3),
            r'add\(greet, every="7d", first_run="after_interval"\)\nmax_instances: use if_running="allow"',
        ),
        (
            lambda s: s.add("a", signatures.greet, "cron", day_of_week="0-4", hour=9, timezone="Asia/Tokyo"),
            r'add\("a", greet, cron="0 9 \* \* mon-fri", timezone="Asia/Tokyo"\)$',
        ),
        (
            lambda s: s.add("a", signatures.greet, "cron", day="last", args=["Ada"]),
            r"""add\("a", greet, cron="0 0 L \* \*", args=\['Ada'\]\)$""",
        ),
        (
            lambda s: s.add("a", signatures.greet, "cron", minute="*/10", start_date="2090-01-01T00:00"),
            r'add\("a", greet, cron="\*/10 \* \* \* \*", start_at="2090-01-01T00:00"\)$',
        ),
        (
            lambda s: s.add("a", signatures.greet, "cron", second="*/7"),
            r"the trigger is a key here, and the five fields of cron= cannot say second='\*/7'\n",
        ),
        (
            lambda s: s.add("a", signatures.greet, "cron", hour="25"),
            "the five fields of cron= cannot say hour='25'",
        ),
        (
            lambda s: s.add(
                "a", signatures.greet, "date", run_date=datetime(2090, 1, 1), misfire_grace_time=60
            ),
            r'add\("a", greet, at="2090-01-01T00:00:00", misfire_grace="60s"\)$',
        ),
        (lambda s: s.add("a", signatures.greet, 5), "everything else by its name; 5 is one too many"),
        (
            lambda s: asyncio.run(ADD_ASYNC("a", print, "interval", minutes=5)),
            r'add\("a", print, every="5m"',
        ),
        (
            lambda s: s.add("a", run={"python": "tests.scheduler.signatures:gone"}, every="1h"),
            "run.python: 'tests.scheduler.signatures' has no 'gone'",
        ),
        (
            lambda s: s.update("known", run={"python": "no_such_module:gone"}),
            "run.python: cannot import 'no_such_module'",
        ),
        (lambda s: s.update("known", function=signatures.greet), "replace_existing=True changes it"),
        (
            lambda s: s.trigger("known", if_running="wait"),
            'if_running "wait" is unknown; it is one of skip, queue',
        ),
        (lambda s: s.trigger("known", [1]), "the payload is a list; it must be a mapping"),
        (lambda s: s.rerun("job", if_running="wait"), 'if_running "wait" is unknown'),
        (lambda s: s.jobs(status="ended"), 'status "ended" is unknown; it is one of queued, running'),
        (lambda s: s.jobs(limit=0), "limit is 0; it must be at least 1"),
        (lambda s: s.schedules(status="on"), 'status "on" is unknown; it is one of active, paused'),
    ],
)
def test_what_cannot_be_meant_is_refused(
    scheduler: Scheduler, call: Callable[[Any], object], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        call(scheduler)
    assert [one.id for one in scheduler.schedules()] == ["known"]


def report(text: str = "") -> str:
    return text


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ((report, "interval"), {"minutes": 5}),
        ((report, "interval"), {"days": 1, "start_date": "2090-01-01"}),
        ((report, "interval", ["a"]), {"hours": 25, "id": "x", "replace_existing": True}),
        ((), {"func": report, "trigger": "interval", "seconds": 90, "jitter": 5, "misfire_grace_time": 60}),
        (("tests.scheduler.test_strange_calls:report", "interval"), {"minutes": 5, "kwargs": {"text": "a"}}),
        ((report, "date"), {"run_date": "2090-01-01"}),
        ((report, "date"), {"run_date": date(2090, 1, 1)}),
        ((report, "date"), {"run_date": "2090-01-01 09:00:00"}),
        ((report, "cron"), {"second": "*/10"}),
        ((report, "cron"), {"day_of_week": "0-4", "hour": "9-17", "minute": "*/15"}),
        ((report, "cron"), {"day": "1st mon", "hour": 2, "end_date": "2090-01-01"}),
        ((report, "cron"), {"day": "last fri", "month": "1-6", "timezone": "Europe/Paris"}),
        ((report, "cron"), {"day": "last", "hour": 23, "minute": 59}),
    ],
)
def test_a_call_that_is_written_for_one_of_apscheduler_is_taken(
    scheduler: Scheduler, arguments: tuple[Any, ...], options: dict[str, Any]
) -> None:
    with pytest.raises(ConfigError) as caught:
        scheduler.add(*arguments, **options)
    call = re.fullmatch(r"the trigger is a key here: (add\(.*\))", str(caught.value))
    assert call is not None, str(caught.value)
    made = eval(f"scheduler.{call[1]}", {"scheduler": scheduler, "report": report})
    assert made.status == "active"
    scheduler.remove(made.id)


@pytest.mark.parametrize(
    "options",
    [
        {"second": 30},
        {"week": 3},
        {"year": 2090, "hour": 9},
        {"day": "1-7", "day_of_week": "mon"},  # both must match there; here one is enough
        {"hour": "25"},
    ],
)
def test_no_call_is_written_where_cron_cannot_say_the_same(
    scheduler: Scheduler, options: dict[str, Any]
) -> None:
    with pytest.raises(ConfigError) as caught:
        scheduler.add(report, "cron", **options)  # type: ignore[call-overload]
    assert "add(" not in str(caught.value)
    assert all(f"{name}={value!r}" in str(caught.value) for name, value in options.items())


def test_add_without_anything_says_what_it_takes(scheduler: Scheduler) -> None:
    with pytest.raises(ConfigError, match="add takes the id and the function"):
        scheduler.add(every="1h")  # type: ignore[call-overload]


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("kind", [Scheduler, AsyncScheduler])
def test_a_name_of_apscheduler_leads_to_ours(kind: type, name: str) -> None:
    with pytest.raises(AttributeError, match=f"a Scheduler has no {name}; use "):
        getattr(kind("sqlite://"), name)
    with pytest.raises(AttributeError, match="object has no attribute 'nonsense'"):
        getattr(kind("sqlite://"), "nonsense")  # noqa: B009  # not of the class


def test_an_id_that_looks_like_a_trigger_is_an_id() -> None:
    scheduler = Scheduler("sqlite://", name="shop")
    for name in ("interval", "cron", "date"):
        assert scheduler.add(name, signatures.defaults, every="1h").id == name
    scheduler.close()


@pytest.mark.parametrize(
    "call",
    [
        lambda s: s.get_schedule("gone"),
        lambda s: s.update("gone", every="1h"),
        lambda s: s.remove("gone"),
        lambda s: s.pause("gone"),
        lambda s: s.resume("gone"),
        lambda s: s.revive("gone"),
        lambda s: s.trigger("gone"),
        lambda s: s.upcoming("gone"),
        lambda s: s.why("gone"),
        lambda s: s.check_schedule("gone"),
        lambda s: s.backfill("gone", "2026-01-01T00:00", "2026-01-02T00:00"),
        lambda s: s.get_job("gone"),
        lambda s: s.cancel("gone"),
        lambda s: s.rerun("gone"),
    ],
)
def test_what_is_not_found_is_named(scheduler: Scheduler, call: Callable[[Scheduler], object]) -> None:
    with pytest.raises(SchedulerError, match='"gone"'):
        call(scheduler)


def test_no_key_of_ours_is_taken_for_one_of_apscheduler() -> None:
    assert not KEYS.keys() & FIELDS.keys()


def test_a_zone_may_be_an_object() -> None:
    scheduler = Scheduler("sqlite://", timezone=ZoneInfo("Europe/Paris"))
    assert scheduler.timezone == "Europe/Paris"
    slots = []
    zones: list[str | tzinfo] = [ZoneInfo("Asia/Tokyo"), UTC, "Europe/Paris"]
    for number, where in enumerate(zones):
        scheduler.add(f"s{number}", signatures.defaults, cron="0 9 * 1 *", timezone=where)
        slots.append(f"{scheduler.upcoming(f's{number}', 1)[0].slot_at:%H}")
    assert slots == ["00", "09", "08"]
    with pytest.raises(SchedulerError, match="a zone without an IANA name"):
        scheduler.add("x", signatures.defaults, cron=NEVER, timezone=timezone(timedelta(hours=2)))
    scheduler.close()


def test_a_function_may_stop_its_scheduler_and_has_succeeded() -> None:
    scheduler = Scheduler("sqlite://", name="shop")

    @scheduler.cron(NEVER, id="last")
    def stop() -> str:
        scheduler.stop()
        return "stopped"

    scheduler.start()
    handle = scheduler.trigger("last")
    until(lambda: scheduler.get_status() == "stopped")
    until(lambda: "everwhen-stop" not in [thread.name for thread in threading.enumerate()])
    assert handle.wait(LONG).result == "stopped"
    with scheduler:
        assert scheduler.trigger("last").wait(LONG).result == "stopped"  # and the end of the block waits
    scheduler.close()


def test_a_job_of_a_local_function_that_is_gone_fails_and_blocks_nothing(tmp_path: Path) -> None:
    """Also one that waited when its process ended: the next process has the queue of the old one."""
    url = f"sqlite:///{tmp_path}/shop.db"
    first = Scheduler(url, name="shop")
    first.start()
    first.add("local", lambda: "first", cron=NEVER)
    assert first.trigger("local").wait(LONG).result == "first"
    first.stop()
    left = first.trigger("local")
    assert left.status == "queued"
    first.close()

    second = Scheduler(url, name="shop")
    with second:
        found = second.get_schedule("local")
        assert (found.status, found.status_reason) == ("invalid", "declare it again")
        assert left.job_id is not None
        until(lambda: second.get_job(str(left.job_id)).is_ended)
        assert second.get_job(left.job_id).error == "declare it again"
        assert second.trigger("local").wait(LONG).error == "declare it again"
    with Scheduler(url, name="shop") as third:  # it was invalid before this one began
        assert third.trigger("local").wait(LONG).error == "declare it again"
        assert third.add("local", lambda: "third", cron=NEVER).status == "active"
        assert third.trigger("local").wait(LONG).result == "third"


def test_an_error_that_cannot_be_encoded_is_logged_all_the_same(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    path = tmp_path / "log"
    handler = logging.FileHandler(path, encoding="utf-8")
    log = logging.getLogger("everwhen")
    log.addHandler(handler)
    scheduler = Scheduler("sqlite://", name="shop")

    @scheduler.cron(NEVER, id="bad")
    def fail() -> None:
        raise ValueError("half of a pair: \ud83d")

    try:
        with scheduler:
            assert scheduler.trigger("bad").wait(LONG).status == "failed"
            until(lambda: "half of a pair" in path.read_text())
    finally:
        log.removeHandler(handler)
        handler.close()
        scheduler.close()
    assert r"half of a pair: \ud83d" in path.read_text()
