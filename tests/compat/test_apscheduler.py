"""Scheduler objects of APScheduler 3: what comes over, and what is said about the rest."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from apscheduler.executors.pool import ProcessPoolExecutor, ThreadPoolExecutor
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.calendarinterval import CalendarIntervalTrigger
from apscheduler.triggers.combining import AndTrigger, OrTrigger
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.date import DateTrigger
from apscheduler.triggers.interval import IntervalTrigger

from everwhen.compat.importers import Imported, written_as_python
from everwhen.compat.importers.apscheduler_jobs import import_apscheduler
from everwhen.errors import ConfigError
from everwhen.timing import calculate_next_cron_trigger
from tests.scheduler import signatures
from tests.scheduler.signatures import SHOP, Shop

PARIS = ZoneInfo("Europe/Paris")
NOT_SET = {"catch_up": "skip", "if_running": "skip", "timeout": 0}


def a_scheduler(**options: Any) -> BackgroundScheduler:
    return BackgroundScheduler(timezone="Europe/Paris", **options)


def imported_job(
    function: Callable[..., Any] = signatures.defaults, trigger: Any = None, **options: Any
) -> Imported:
    scheduler = a_scheduler()
    scheduler.add_job(function, trigger or IntervalTrigger(hours=1), id="it", **options)
    return import_apscheduler(scheduler)


def keys_of(imported: Imported) -> dict[str, Any]:
    """The keys of the only schedule, without its policies and what it runs."""
    (schedule,) = imported.document["schedules"]
    left = {**NOT_SET, "run": None, "id": None}
    return {key: value for key, value in schedule.items() if key not in left}


@pytest.mark.parametrize(
    ("trigger", "keys"),
    [
        (IntervalTrigger(minutes=90), {"every": "1h30m", "first_run": "after_interval"}),
        (
            IntervalTrigger(weeks=1, jitter=120),
            {"every": "7d", "first_run": "after_interval", "jitter": "2m"},
        ),
        (
            IntervalTrigger(hours=6, start_date="2030-01-01 03:00:00", end_date="2030-02-01", timezone=PARIS),
            {
                "every": "6h",
                "start_at": "2030-01-01T03:00:00+01:00",
                "end_at": "2030-02-01T00:00:01+01:00",
            },
        ),
        (DateTrigger(datetime(2090, 12, 24, 18, tzinfo=PARIS)), {"at": "2090-12-24T18:00:00+01:00"}),
        (DateTrigger(datetime(2090, 1, 1, microsecond=1, tzinfo=UTC)), {"at": "2090-01-01T00:00:01+00:00"}),
        (
            CalendarIntervalTrigger(months=1, hour=3, start_date="2020-01-31", timezone=PARIS),
            {"cron": "0 3 31 * *", "timezone": "Europe/Paris"},
        ),
        (
            CalendarIntervalTrigger(months=3, hour=3, start_date=date(2090, 11, 5), timezone="UTC"),
            {"cron": "0 3 5 2,5,8,11 *", "timezone": "UTC", "start_at": "2090-11-05T00:00:00+00:00"},
        ),
        (
            CalendarIntervalTrigger(
                weeks=1, minute=5, start_date="2026-01-07", end_date="2090-01-01", timezone="UTC"
            ),
            {"cron": "5 0 * * wed", "timezone": "UTC", "end_at": "2090-01-02T00:00:00+00:00"},
        ),
        (
            CalendarIntervalTrigger(years=1, start_date="2026-01-07", timezone="UTC"),
            {"cron": "0 0 7 1 *", "timezone": "UTC"},
        ),
        (
            CalendarIntervalTrigger(days=1, hour=4, timezone="UTC"),
            {"cron": "0 4 * * *", "timezone": "UTC"},
        ),
    ],
)
def test_a_trigger_becomes_the_keys_of_a_schedule(trigger: Any, keys: dict[str, Any]) -> None:
    assert keys_of(imported_job(trigger=trigger)) == keys


CRON: dict[str, dict[str, Any]] = {
    "0 3 * * *": {"hour": 3},
    "*/15 9-17 * * mon,tue,wed,thu,fri": {"day_of_week": "mon-fri", "hour": "9-17", "minute": "*/15"},
    "0 0 * * mon,sun": {"day_of_week": "0,6"},  # 0 is Monday there, and Sunday in cron
    "5-59/20 * * * *": {"minute": "5/20"},
    "0 0 1 1-3,12 *": {"month": "jan-mar,dec"},
    "30 6 L * *": {"day": "last", "hour": 6, "minute": 30},
    "0 9 * * 1#1": {"day": "1st mon", "hour": 9},
    "0 9 * * 5L": {"day": "last fri", "hour": 9},
    "0 9 15 * 0#2": {"day": "2nd sun,15", "hour": 9},
    "0 0 1-31/10 * 1#1": {"day": "*/10,1st mon"},
    "0 0 */10 * *": {"day": "*/10"},
    "0 7 13 * *": {"day": 13, "day_of_week": "fri", "hour": 7},
    "0 0 * * tue,thu,sat": {"day_of_week": "1-6/2"},
}


@pytest.mark.parametrize("expression", CRON)
def test_the_fields_of_cron_mean_the_same_times(expression: str) -> None:
    trigger = CronTrigger(**CRON[expression], timezone=PARIS)
    keys = keys_of(imported_job(trigger=trigger))
    assert (keys["cron"], keys["timezone"]) == (expression, "Europe/Paris")
    closed = [("mon", "tue", "wed", "thu", "fri", "sat", "sun").index(day) for day in keys.get("not_on", ())]
    here = there = datetime(2026, 4, 1, tzinfo=PARIS)  # and the summer, in which no clock changes
    for _ in range(40):
        there = trigger.get_next_fire_time(None, there + timedelta(seconds=1))
        here = calculate_next_cron_trigger(expression, here, "Europe/Paris").astimezone(PARIS)
        while here.weekday() in closed:
            here = calculate_next_cron_trigger(expression, here, "Europe/Paris").astimezone(PARIS)
        if here > datetime(2026, 10, 1, tzinfo=PARIS):
            break
        assert here == there


def test_seconds_at_even_distances_become_an_interval() -> None:
    trigger = CronTrigger(second="5/20", timezone="UTC")
    assert keys_of(imported_job(trigger=trigger)) == {"every": "20s", "start_at": "2000-01-01T00:00:05+00:00"}
    later = CronTrigger(second="*/10", start_date=datetime(2090, 1, 1, 0, 0, 3, tzinfo=UTC), timezone="UTC")
    assert keys_of(imported_job(trigger=later)) == {"every": "10s", "start_at": "2090-01-01T00:00:10+00:00"}


class OwnTrigger(IntervalTrigger):  # type: ignore[misc]
    pass


@pytest.mark.parametrize(
    ("trigger", "reason"),
    [
        (IntervalTrigger(seconds=0.5), "every 0.5 s cannot be kept; slots are whole seconds"),
        (DateTrigger(datetime(2020, 1, 1, tzinfo=UTC)), "its date 2020-01-01T00:00:00+00:00 is past"),
        (DateTrigger(), "is past; a job without a trigger, which runs when the program starts"),
        (CronTrigger(hour=3, second=30), "second=30: the five fields of cron have no seconds"),
        (CronTrigger(second="1,2"), "second=1,2: the five fields of cron have no seconds"),
        (CronTrigger(week="*/2"), "week=*/2: the five fields of cron have no week"),
        (
            CronTrigger(year=2090),
            "year=2090: the five fields of cron have no year; start_at and end_at bound it",
        ),
        (CalendarIntervalTrigger(days=2), "cron cannot count days over the end of a month or year"),
        (CalendarIntervalTrigger(months=5), "cron cannot count days over the end of a month or year"),
        (CalendarIntervalTrigger(days=1, second=5), "the five fields of cron have no seconds"),
        (
            OrTrigger([CronTrigger(hour=3), CronTrigger(hour=4)]),
            "its trigger is or[cron[hour='3'], cron[hour='4']]: give each of its triggers a schedule of its own",
        ),
        (AndTrigger([CronTrigger(hour=3)]), "write the times that all of them mean as one cron expression"),
        (OwnTrigger(hours=1), "there is no such trigger here"),
        (CronTrigger(hour=3, timezone=UTC), None),
        (CronTrigger(hour=3, timezone=datetime.fromisoformat("2026-01-01T00:00+02:00").tzinfo), "UTC+02:00"),
    ],
)
def test_a_trigger_that_has_no_form_here_is_named(trigger: Any, reason: str | None) -> None:
    imported = imported_job(trigger=trigger)
    assert bool(imported.document["schedules"]) is (reason is None)
    if reason is not None:
        (note,) = imported.notes
        assert note.startswith("it: left out: ")
        assert reason in note


@pytest.mark.parametrize(
    ("options", "keys", "note"),
    [
        ({}, NOT_SET, "misfire_grace_time=1, the default there, is left out"),
        ({"misfire_grace_time": 90}, {**NOT_SET, "misfire_grace": "1m30s"}, None),
        (
            {"misfire_grace_time": 90, "coalesce": False},
            {**NOT_SET, "misfire_grace": "1m30s"},
            "it: coalesce=False with misfire_grace_time=90: of several runs that are late by less, only",
        ),
        (
            {"misfire_grace_time": None},
            {**NOT_SET, "catch_up": "run_once"},
            "it: misfire_grace_time=None is catch_up: run_once, which also holds for runs that were missed",
        ),
        (
            {"misfire_grace_time": None, "coalesce": False},
            {**NOT_SET, "catch_up": "run_all"},
            "at most catch_up_limit (100) of them",
        ),
        (
            {"max_instances": 3},
            {**NOT_SET, "if_running": "allow", "max_concurrent": 3},
            "it: max_instances=3: a run beyond it is skipped there; here it waits until another has ended",
        ),
        ({"next_run_time": None}, {**NOT_SET, "enabled": False}, None),
        (
            {"next_run_time": datetime(2020, 1, 1, tzinfo=UTC)},
            {**NOT_SET, "first_run": "immediately"},
            None,
        ),
        (
            {"next_run_time": datetime(2090, 1, 1, tzinfo=UTC)},
            NOT_SET,
            "it: next_run_time=2090-01-01T00:00:00+00:00 is left out; start_at and first_run say when it begins",
        ),
        (
            {"trigger": IntervalTrigger(seconds=10, jitter=10)},
            NOT_SET,
            "it: jitter=10 is left out; it must be smaller than the interval",
        ),
    ],
)
def test_settings_of_a_job_become_policies(
    options: dict[str, Any], keys: dict[str, Any], note: str | None
) -> None:
    imported = imported_job(**options)
    (schedule,) = imported.document["schedules"]
    own = {"id", "every", "run"} if "first_run" in keys else {"id", "every", "run", "first_run"}
    assert {key: value for key, value in schedule.items() if key not in own} == keys
    if note is not None:
        assert [text for text in imported.notes if note in text]


def test_defaults_of_the_scheduler_hold_for_jobs_that_say_nothing() -> None:
    scheduler = a_scheduler(job_defaults={"coalesce": False, "misfire_grace_time": 60, "max_instances": 2})
    scheduler.add_job(signatures.defaults, "interval", hours=1, id="it")
    (schedule,) = import_apscheduler(scheduler).document["schedules"]
    assert (schedule["misfire_grace"], schedule["max_concurrent"]) == ("1m", 2)


def unnamed() -> None: ...


unnamed.__qualname__ = "other_name"


@pytest.mark.parametrize(
    ("function", "options", "run"),
    [
        (
            signatures.greet,
            {"args": ("Ada",)},
            {"python": "tests.scheduler.signatures:greet", "args": ["Ada"]},
        ),
        (
            functools.partial(signatures.greet, "Ada", greeting="hi"),
            {},
            {"python": "tests.scheduler.signatures:greet", "args": ["Ada"], "kwargs": {"greeting": "hi"}},
        ),
        (Shop.kind, {}, {"python": "tests.scheduler.signatures:Shop.kind"}),
        ("tests.scheduler.signatures:defaults", {}, {"python": "tests.scheduler.signatures:defaults"}),
    ],
)
def test_a_function_is_named_with_its_arguments(
    function: Any, options: dict[str, Any], run: dict[str, Any]
) -> None:
    (schedule,) = imported_job(function, **options).document["schedules"]
    assert schedule["run"] == run


@pytest.mark.parametrize(
    ("function", "options", "reason"),
    [
        (lambda: None, {}, "<lambda> cannot be imported; move it to the top level of a module"),
        (unnamed, {}, "other_name cannot be imported"),
        (SHOP.open, {"args": [9]}, "is a method of an object; `Scheduler.add` takes it"),
        (signatures.greet, {"args": [SHOP]}, "args[0] is a Shop, which is not JSON"),
        (signatures.greet, {"kwargs": {"name": {1, 2}}}, "kwargs.name is a set, which is not JSON"),
        (signatures.greet, {"args": ["${HOME}"]}, "which a file reads as a variable of the environment"),
    ],
)
def test_what_cannot_be_kept_as_text_is_left_out_by_name(
    function: Any, options: dict[str, Any], reason: str
) -> None:
    imported = imported_job(function, **options)
    assert imported.document["schedules"] == []
    (note,) = imported.notes
    assert note.startswith("it: left out: ")
    assert reason in note


def test_ids_are_kept_and_those_that_were_made_up_give_way_to_the_name() -> None:
    scheduler = a_scheduler()
    scheduler.add_job(signatures.defaults, "interval", hours=1, id="Nightly_Run")
    scheduler.add_job(signatures.defaults, "interval", hours=1)
    scheduler.add_job(signatures.defaults, "interval", hours=1, name="Sum up: all")
    scheduler.add_job(signatures.defaults, "interval", hours=1, id="sum.up")
    found = [(one["id"], one.get("name")) for one in import_apscheduler(scheduler).document["schedules"]]
    assert found == [
        ("Nightly_Run", None),
        ("defaults", None),
        ("sum-up-all", "Sum up: all"),
        ("sum-up", None),
    ]


def test_executors_job_stores_and_listeners_are_named(tmp_path: Path) -> None:
    scheduler = a_scheduler(
        executors={"default": ThreadPoolExecutor(4), "cpu": ProcessPoolExecutor(1)},
        jobstores={"reports": SQLAlchemyJobStore(f"sqlite:///{tmp_path}/none.db")},
    )
    scheduler.add_job(signatures.defaults, "interval", hours=1, id="it", executor="cpu", jobstore="reports")
    scheduler.add_listener(unnamed)
    imported = import_apscheduler(scheduler)
    scheduler._executors["cpu"].shutdown()
    (schedule,) = imported.document["schedules"]
    assert schedule["run"] == {"python": "tests.scheduler.signatures:defaults", "isolate": True}
    text = "\n".join(imported.notes)
    assert "executor default (ThreadPoolExecutor): left out; jobs run on the threads of a node" in text
    assert (
        "executor cpu (ProcessPoolExecutor): left out; isolate runs each job in a process of its own" in text
    )
    assert "job store reports: its name is left out; all schedules are in one database" in text
    assert "listener other_name: left out; events are in the audit" in text


def a_filled_store(path: Path) -> SQLAlchemyJobStore:
    """A store with jobs as a program leaves it behind: one paused, one whose function is gone."""
    store = SQLAlchemyJobStore(f"sqlite:///{path}")
    scheduler = a_scheduler(jobstores={"default": store})
    scheduler.start(paused=True)
    scheduler.add_job(signatures.greet, "cron", hour=3, args=["Ada"], id="greet", misfire_grace_time=60)
    scheduler.add_job(signatures.defaults, "interval", hours=1, id="paused", next_run_time=None)
    scheduler.add_job(signatures.defaults, "interval", hours=1, id="gone")
    with store.engine.begin() as connection:
        (row,) = connection.execute(store.jobs_t.select().where(store.jobs_t.c.id == "gone"))
        state = row.job_state.replace(b"signatures:defaults", b"signatures:vanished")
        connection.execute(store.jobs_t.update().where(store.jobs_t.c.id == "gone").values(job_state=state))
    scheduler.shutdown()
    store.engine.dispose()  # its thread may have connected once more while the store was shut down
    return SQLAlchemyJobStore(f"sqlite:///{path}")


def ids_in(store: SQLAlchemyJobStore) -> list[str]:
    with store.engine.connect() as connection:
        found = sorted(row.id for row in connection.execute(store.jobs_t.select()))
    store.engine.dispose()
    return found


def test_the_zone_of_the_scheduler_comes_over() -> None:
    assert import_apscheduler(a_scheduler()).document["service"] == {"timezone": "Europe/Paris"}
    assert import_apscheduler(BackgroundScheduler(timezone=UTC)).document["service"] == {"timezone": "UTC"}
    offset = import_apscheduler(BackgroundScheduler(timezone=timezone(timedelta(hours=2))))
    assert "service" not in offset.document
    assert any(note.startswith("timezone: left out, so schedules that are") for note in offset.notes)


def test_jobs_in_a_store_come_over_and_the_store_is_only_read(tmp_path: Path) -> None:
    store = a_filled_store(tmp_path / "jobs.db")
    imported = import_apscheduler(a_scheduler(jobstores={"default": store}))
    greet, paused = imported.document["schedules"]
    assert (greet["id"], greet["cron"], greet["timezone"]) == ("greet", "0 3 * * *", "Europe/Paris")
    assert (greet["misfire_grace"], greet["run"]["args"]) == ("1m", ["Ada"])
    assert (paused["id"], paused["every"], paused["enabled"]) == ("paused", "1h", False)
    assert datetime.fromisoformat(paused["start_at"]).tzinfo is not None  # its slots go on where they were
    assert any(
        note.startswith("gone: left out, it cannot be restored: LookupError") for note in imported.notes
    )
    assert ids_in(store) == ["gone", "greet", "paused"]


def test_a_declared_job_stands_before_the_stored_one_of_its_id(tmp_path: Path) -> None:
    store = a_filled_store(tmp_path / "jobs.db")
    scheduler = a_scheduler(jobstores={"default": store})
    scheduler.add_job(signatures.greet, "cron", hour=4, args=["Bo"], id="greet", replace_existing=True)
    scheduler.add_job(signatures.defaults, "interval", hours=2, id="paused")
    imported = import_apscheduler(scheduler)
    greet, paused = imported.document["schedules"]
    assert (greet["cron"], greet["run"]["args"], paused["every"]) == ("0 4 * * *", ["Bo"], "2h")
    assert (
        "paused: is declared, and in the job store default as well; the declared one is taken"
        in imported.notes
    )


def test_a_store_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "broken.db").write_text("this is not a database, " * 100)
    broken = SQLAlchemyJobStore(f"sqlite:///{tmp_path}/broken.db")
    empty = SQLAlchemyJobStore(f"sqlite:///{tmp_path}/empty.db")
    scheduler = a_scheduler(jobstores={"default": broken, "empty": empty})
    scheduler._jobstores["redis"] = SimpleNamespace()  # a store of another kind, whose server nobody needs
    notes = import_apscheduler(scheduler).notes
    assert any(note.startswith("job store default: cannot be read: ") for note in notes)
    assert any(note.startswith("job store redis (SimpleNamespace): is not read") for note in notes)
    assert not any(note.startswith("job store empty: cannot") for note in notes)


def test_a_scheduler_that_runs_already_is_stopped_and_its_jobs_come_over() -> None:
    scheduler = a_scheduler()
    scheduler.add_job(signatures.defaults, "interval", hours=1, id="it")
    scheduler.start(paused=True)
    imported = import_apscheduler(scheduler)
    assert not scheduler.running
    assert keys_of(imported) == {"every": "1h", "first_run": "after_interval"}
    assert any(
        note.startswith("the module starts its scheduler when it is imported") for note in imported.notes
    )


def test_another_object_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"this is a builtins\.dict, not a scheduler of APScheduler 3"):
        import_apscheduler({})


def test_the_program_that_is_printed_adds_the_same_schedules(tmp_path: Path) -> None:
    scheduler = a_scheduler(executors={"cpu": ProcessPoolExecutor(1)})
    scheduler.add_job(signatures.greet, "cron", hour=3, args=["Ada"], kwargs={"greeting": "hi"}, id="greet")
    scheduler.add_job(signatures.defaults, "interval", hours=2, id="alone", executor="cpu")
    imported = import_apscheduler(scheduler)
    scheduler._executors["cpu"].shutdown()
    text = "\n".join(written_as_python(imported.document["schedules"]))
    names: dict[str, Any] = {}
    exec(text.replace("sqlite:///everwhen.db", "sqlite://"), names)
    added = names["scheduler"]
    assert [(one.id, one.trigger) for one in added.schedules()] == [
        ("greet", "every day at 03:00"),
        ("alone", "every 2 hours"),
    ]
    with added:
        assert added.trigger("greet").wait(30).result == "hi Ada"
        assert json.loads(added.trigger("alone").wait(30).result) == 3
    added.close()
