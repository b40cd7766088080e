"""The zone that schedules are read in: a program that names none is told so, and every answer shows it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from everwhen import AsyncScheduler, Scheduler, SchedulerError
from everwhen.testing import manual_scheduler
from tests.scheduler import signatures

NEVER = "0 0 1 1 *"
FAR = datetime(2090, 7, 1, 9)


@pytest.fixture
def warnings(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> Iterator[Callable[[], list[str]]]:
    """What was warned of on a machine in Berlin."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    with caplog.at_level(logging.WARNING, logger="everwhen"):
        yield lambda: [record.getMessage() for record in caplog.records]


def test_the_first_schedule_about_the_wall_clock_warns_once_of_the_zone_that_nobody_named(
    warnings: Callable[[], list[str]],
) -> None:
    scheduler = Scheduler("sqlite://", name="shop")
    scheduler.add("poll", signatures.defaults, every="1h")
    scheduler.every("24h", id="daily")(signatures.defaults)
    assert warnings() == []
    scheduler.cron("0 9 * * *", id="report")(signatures.defaults)
    scheduler.add("second", signatures.defaults, cron="0 10 * * *")
    scheduler.close()
    (text,) = warnings()
    assert text == (
        'schedule "report" is read in UTC, because no timezone is given, and this machine is in Europe/Berlin: '
        'write Scheduler(…, timezone="Europe/Berlin"), or timezone="UTC" to keep UTC'
    )
    assert scheduler.timezone == "UTC"


@pytest.mark.parametrize(
    "keys",
    [
        {"cron": NEVER},
        {"every": "monthly"},
        {"at": FAR},
        {"at": "2090-07-01T09:00"},
        {"every": "1h", "start_at": FAR},
        {"every": "1h", "end_at": "2090-07-01T09:00"},
        {"every": "1h", "only_between": "08:00-18:00"},
        {"after": "1h", "not_on": ["sun"]},
    ],
)
def test_every_key_that_reads_the_wall_clock_needs_a_zone(
    warnings: Callable[[], list[str]], keys: dict[str, Any]
) -> None:
    scheduler = Scheduler("sqlite://", name="shop")
    scheduler.add("a", signatures.defaults, **keys, timezone="UTC")
    named = Scheduler("sqlite://", name="shop", timezone="UTC")
    named.add_many([{"id": "a", "function": signatures.defaults, **keys}])  # type: ignore[typeddict-item]
    assert warnings() == []
    scheduler.add_many([{"id": "b", "function": signatures.defaults, **keys}])  # type: ignore[typeddict-item]
    scheduler.close()
    named.close()
    assert [text.partition(" because")[0] for text in warnings()] == ['schedule "b" is read in UTC,']


@pytest.mark.parametrize("keys", [{"every": "1h"}, {"after": "1h"}, {"at": "2090-07-01T09:00Z"}])
def test_elapsed_time_and_instants_with_an_offset_need_none(
    warnings: Callable[[], list[str]], keys: dict[str, Any]
) -> None:
    scheduler = AsyncScheduler("sqlite://", name="shop").scheduler
    scheduler.add("a", signatures.defaults, **keys)
    scheduler.close()
    assert warnings() == []


@pytest.mark.parametrize("host", ["UTC", "Etc/UTC", "Zulu"])
def test_nothing_is_said_where_the_clock_of_the_machine_shows_utc(
    warnings: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    monkeypatch.setenv("TZ", host)
    scheduler = Scheduler("sqlite://", name="shop")
    scheduler.add("a", signatures.defaults, cron=NEVER)
    scheduler.close()
    assert warnings() == []


def test_a_machine_whose_zone_has_no_name_is_warned_of_as_well(
    warnings: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "XYZ-3")
    scheduler = Scheduler("sqlite://", name="shop")
    scheduler.add("a", signatures.defaults, cron=NEVER)
    scheduler.close()
    (text,) = warnings()
    assert "this machine's zone has no IANA name" in text


def test_the_warning_goes_to_the_logger_of_the_program(warnings: Callable[[], list[str]]) -> None:
    logger = logging.getLogger("shop")
    scheduler = Scheduler("sqlite://", name="shop", logger=logger)
    scheduler.add("a", signatures.defaults, cron=NEVER)
    scheduler.close()
    assert len(warnings()) == 1


def test_a_naive_time_is_read_in_the_schedules_zone_and_the_answers_name_the_zone() -> None:
    scheduler = Scheduler("sqlite://", name="shop", timezone="Europe/Berlin")
    added = scheduler.add("once", signatures.defaults, at=FAR, timezone="Asia/Tokyo")
    assert (added.timezone, added.next_run_at) == ("Asia/Tokyo", datetime(2090, 7, 1, tzinfo=UTC))
    assert added.trigger == "once, at Sat 2090-07-01 09:00:00 JST +09:00"
    assert "Sat 2090-07-01 09:00:00 JST +09:00" in scheduler.why("once", FAR).sentence
    daily = scheduler.add(
        "daily", signatures.defaults, cron="0 9 * * *", start_at=FAR, end_at=datetime(2090, 7, 3)
    )
    assert daily.next_run_at == datetime(2090, 7, 1, 7, tzinfo=UTC)
    assert len(scheduler.upcoming("daily", 5)) == 2
    paused = scheduler.pause("daily", until=datetime(2090, 7, 1, 10))
    assert (paused.status, paused.timezone) == ("paused", "Europe/Berlin")
    scheduler.close()


def test_a_pause_says_who_when_until_when_and_why(capsys: pytest.CaptureFixture[str]) -> None:
    scheduler = Scheduler("sqlite://", name="shop", timezone="Asia/Tokyo")
    scheduler.add("daily", signatures.defaults, cron="0 9 * * *")
    assert scheduler.get_schedule("daily").pause is None
    paused = scheduler.pause("daily", until=datetime(2090, 7, 1, 10), note="inventory")
    assert paused.pause is not None
    assert (paused.pause.by, paused.pause.actor, paused.pause.name) == ("person", "shop", "shop")
    assert (paused.pause.until, paused.pause.note) == (datetime(2090, 7, 1, 1, tzinfo=UTC), "inventory")
    assert paused.pause.at is not None
    assert scheduler.schedules()[0].pause == paused.pause
    scheduler.print_schedules()
    assert ", until Sat 2090-07-01 10:00:00 JST +09:00 (inventory)" in capsys.readouterr().out
    assert scheduler.resume("daily").pause is None
    scheduler.close()


def test_a_backfill_between_naive_times_fills_the_slots_of_the_schedules_zone() -> None:
    program = Scheduler("sqlite://", name="shop", timezone="Asia/Tokyo")
    program.cron("0 9 * * *", id="daily")(signatures.defaults)
    manual = manual_scheduler("2026-01-05T00:30:00Z", of=program)
    program.pause("daily")
    manual.advance("3d")
    filled = program.backfill("daily", datetime(2026, 1, 6, 9), datetime(2026, 1, 7, 9), dry_run=True)
    assert filled.slots == (datetime(2026, 1, 6, tzinfo=UTC),)
    assert program.why("daily", datetime(2026, 1, 6, 9)).slot_at == datetime(2026, 1, 6, tzinfo=UTC)
    manual.close()


def test_a_table_shows_each_next_run_in_its_own_zone(capsys: pytest.CaptureFixture[str]) -> None:
    scheduler = Scheduler("sqlite://", name="shop", timezone="UTC")
    for name in ("UTC", "Europe/Berlin", "Asia/Dubai"):
        scheduler.add(
            f"at-{name[:4].strip('/')}", signatures.defaults, cron="0 9 1 7 *", start_at=FAR, timezone=name
        )
    scheduler.print_schedules()
    scheduler.close()
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition("next run ")[2] for line in lines] == [
        "Sat 2090-07-01 09:00:00 UTC",
        "Sat 2090-07-01 09:00:00 CEST +02:00",
        "Sat 2090-07-01 09:00:00 +04:00",
    ]


@pytest.mark.parametrize("zone", ["CEST", "UTC+2"])
def test_an_abbreviation_is_refused_with_zones_wherever_a_program_names_one(zone: str) -> None:
    for call in (
        lambda: Scheduler("sqlite://", timezone=zone),
        lambda: Scheduler("sqlite://").add("a", signatures.defaults, every="1h", timezone=zone),
        lambda: Scheduler("sqlite://").cron(NEVER, id="a", timezone=zone)(signatures.defaults),
    ):
        with pytest.raises(SchedulerError, match="Europe/Berlin"):
            call()
