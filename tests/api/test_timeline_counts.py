"""The time line counts everything, to the end of its span, and lists what is rare; nothing that is there is blank."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from everwhen.model.events import Event
from everwhen.model.instants import DAY, HOUR, SECOND, rfc3339_text
from everwhen.model.queries import ScheduleFilter
from everwhen.operations import record, timeline, timeline_past, timeline_ranking
from everwhen.testing.manual import ManualClock
from tests.api.serving import Service, serving
from tests.api.test_timeline_rows import beat, shown, ticked
from tests.api.working import FAILED, claimed_all, end

START = "2026-01-05T08:00:00Z"
WEEK = (START, "2026-01-12T08:00:00Z")
NIGHTLY = {"name": "nightly", "every": None, "cron": "0 2 * * *"}
OFTEN = {"every": "10s", "first_run": "after_interval"}


def total_of(stretches: list[dict[str, Any]], word: str | None = None) -> int:
    return sum(number for one in stretches for name, number in one["counts"].items() if word in (None, name))


def by_id(line: dict[str, Any], schedule: dict[str, Any]) -> list[dict[str, Any]]:
    return [bar for bar in line["items"] if bar["schedule_id"] == schedule["id"]]


@pytest.mark.parametrize(
    ("days", "more"),
    [
        (7, {}),
        (7, {"rows": 60}),
        (7, {"stretch": 3600, "rare": 14, "rows": 200}),
        (31, {"stretch": 3600, "rare": 62, "rows": 200}),
        (31, {"rows": 10}),
        (365, {}),
    ],
    ids=["future", "line", "week", "month", "line-of-a-month", "year"],
)
def test_a_nightly_schedule_is_listed_beside_those_that_fire_every_ten_seconds(
    tmp_path: Path, days: int, more: dict[str, int]
) -> None:
    clock = ManualClock(START)
    with serving(tmp_path, file="", clock=clock) as service:
        often = [service.admin.create(name=f"often-{number}", **OFTEN) for number in range(4)]
        nightly = service.admin.create(**NIGHTLY)
        line = shown(service.admin, START, rfc3339_text(clock.now() + days * DAY), **more)
        each = days * DAY // (10 * SECOND) - 1
        assert len(by_id(line, nightly)) == len(line["items"]) == days
        assert [bar["slot_at"][11:] for bar in line["items"]] == ["02:00:00Z"] * days
        assert (line["total"], line["schedule_count"]) == (4 * each + days, 5)
        assert (line["unlisted_schedules"], line["unlisted_slots"]) == (4, 4 * each)
        assert total_of(line["stretches"]) == line["total"] and all(
            one["counts"] for one in line["stretches"]
        )
        for row in line["rows"]:
            is_nightly = row["schedule_id"] == nightly["id"]
            assert row["counts"] == {"upcoming": days if is_nightly else each}
            assert row["is_listed"] == is_nightly and total_of(row["stretches"]) == (
                0 if is_nightly else each
            )
        assert len(line["rows"]) in (0, 1 + len(often))


def test_no_day_is_blank_with_thousands_of_schedules(tmp_path: Path) -> None:
    clock, count = ManualClock(START), 2_000
    with serving(tmp_path, file="", clock=clock) as service:
        body = {"cron": "0 9 * * *", "run": {"http": {"url": "https://example.com/"}}}
        service.admin.post("/schedules/batch/", [{**body, "name": f"s{number}"} for number in range(count)])
        line = shown(service.admin, *WEEK, stretch=86_400, rare=14, rows=200)
        assert [one["counts"] for one in line["stretches"]] == [{"upcoming": count}] * 7
        assert line["is_aggregated"] and len(line["items"]) == 7_000  # a thousand schedules, completely
        assert (line["unlisted_schedules"], line["unlisted_slots"]) == (1_000, 7_000)
        assert line["complete_until"] == WEEK[1] and len(line["rows"]) == 200


def test_tonight_does_not_fall_to_zero(tmp_path: Path) -> None:
    clock = ManualClock("2026-01-05T20:00:00Z")
    with serving(tmp_path, file="", clock=clock) as service:
        for number in range(3):
            service.admin.create(name=f"often-{number}", **{**OFTEN, "every": "1s"})
        line = shown(service.admin, "2026-01-06T02:00:00Z", "2026-01-06T04:00:00Z", rows=60)
        assert line["is_aggregated"] and {total_of([one]) for one in line["stretches"]} == {3 * 36}


def record_skips(service: Service, schedule: dict[str, Any], first: int, number: int, step: int) -> None:
    state = service.runtime.catalogue.get(schedule["id"]).state  # type: ignore[union-attr]
    service.runtime.tokens.record(
        [
            Event(
                "schedule.skipped",
                service.runtime.clock.now(),
                schedule["id"],
                state.uid,
                owner=state.owner,
                slot_at=first + at * step,
                reason="already_running",
            )
            for at in range(number)
        ]
    )


def test_ten_thousand_skips_hide_none_of_the_others(tmp_path: Path) -> None:
    """Those that are recorded last came first, and the others were left out."""
    clock = ManualClock(START)
    with serving(tmp_path, file="", clock=clock) as service:
        clock.advance("2d")
        begin = clock.now() - DAY
        seldom = service.admin.create(**NIGHTLY)
        often = service.admin.create(name="often", **OFTEN, owner="ada")
        record_skips(service, seldom, begin + HOUR, 1, 0)
        record_skips(service, often, begin, 10_100, 8 * SECOND)
        span = ("2026-01-06T08:00:00Z", "2026-01-07T08:00:00Z")
        asked: list[dict[str, Any]] = [{}, {"rows": 5}, {"stretch": 3600, "rare": 3, "rows": 5}]
        for more in asked:
            line = shown(service.admin, *span, **more)
            assert [bar["kind"] for bar in by_id(line, seldom)] == ["skipped"]
            assert total_of(line["stretches"], "skipped") == 10_101
            assert line["unlisted_slots"] == 10_100
        (row,) = (row for row in line["rows"] if row["schedule_id"] == often["id"])
        assert row["counts"] == {"skipped": 10_100} and total_of(row["stretches"]) == 10_100
        alone = shown(service.admin, *span, q="nightly", rows=5)
        assert [bar["kind"] for bar in alone["items"]] == ["skipped"] and alone["total"] == 1
        assert shown(service.client("viewer", owner="ada"), *span, rare=0)["total"] == 10_100


def test_what_an_outage_missed_stands_where_it_was_due(tmp_path: Path) -> None:
    """It is recorded when the outage is over, which may be long after the span."""
    clock = ManualClock(START)
    with serving(tmp_path, file="", clock=clock) as service:
        beat(service, clock.now())
        hourly = service.admin.create(name="hourly", every="1h")
        caught = service.admin.create(name="caught", every="1h", catch_up="run_once")
        ticked(service, clock)
        clock.advance("50h")
        service.runtime.slots.tick(clock.now(), limit=100, behind=True)
        ticked(service, clock)
        line = shown(service.admin, "2026-01-05T20:30:00Z", "2026-01-06T08:30:00Z")
        assert {bar["kind"] for bar in line["items"]} == {"missed"}
        assert [bar["slot_at"][11:16] for bar in by_id(line, hourly)] == [
            *(f"{hour:02}:00" for hour in range(21, 24)),
            *(f"{hour:02}:00" for hour in range(9)),
        ]
        (stood_for,) = by_id(line, caught)
        assert (stood_for["reason"], stood_for["is_caught_up"], stood_for["count"]) == (None, True, 12)
        assert (stood_for["slot_at"][11:16], stood_for["last_at"][11:16]) == ("21:00", "08:00")
        assert line["total"] == 24


def test_skips_that_a_row_counts_lie_where_their_slots_are(tmp_path: Path) -> None:
    clock = ManualClock(START)
    with serving(tmp_path, file="", clock=clock) as service:
        made = service.admin.create(every="10s", not_on=["mon"])
        for _ in range(60):
            ticked(service, clock)
            clock.advance(10)
        whole = shown(service.admin, START, "2026-01-05T08:10:00Z", stretch=60)
        assert [one["counts"] for one in whole["stretches"]] == [{"skipped": 6}] * 10
        assert (whole["total"], whole["unlisted_slots"]) == (60, 0)
        begun = shown(service.admin, "2026-01-05T07:00:00Z", "2026-01-05T08:05:00Z")["items"]
        assert sum(bar["count"] for bar in by_id({"items": begun}, made)) == 30
        (part,) = shown(service.admin, "2026-01-05T08:05:00Z", "2026-01-05T08:09:00Z")["items"]
        assert (part["count"], part["slot_at"], part["last_at"]) == (
            24,
            "2026-01-05T08:05:00Z",
            "2026-01-05T08:08:50Z",
        )


def test_records_that_are_too_many_to_be_counted_are_said_to_be_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock(START)
    with serving(tmp_path, file="", clock=clock) as service:
        beat(service, clock.now())
        for number in range(5):
            service.admin.create(name=f"s{number}", every="1m", owner="ada" if number else None)
        for _ in range(2):
            ticked(service, clock)
            clock.advance("25h")
            service.runtime.slots.tick(clock.now(), limit=100, behind=True)
        ticked(service, clock)
        monkeypatch.setattr(timeline_past, "MOST_BARS", 0)
        span = (START, "2026-01-07T10:30:00Z")
        whole = shown(service.admin, *span)
        limits = (0, clock.now(), ScheduleFilter())
        ranges = [one.slot_count for one in service.runtime.ledger.skip_ranges(*limits, limit=99)]
        assert whole["uncounted"] == 0 and len(ranges) == 10
        for bound in (10, 9, 4):
            monkeypatch.setattr(timeline_past, "MOST_RANGES", bound)
            line = shown(service.admin, *span, rows=5)
            missing = ranges[bound:]
            assert (line["uncounted"], line["total"]) == (len(missing), whole["total"] - sum(missing))
        assert shown(service.client("viewer", owner="ada"), *span)["uncounted"] == 4


def test_the_days_of_a_schedule_have_every_range_of_slots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock(START)
    with serving(tmp_path, file="", clock=clock) as service:
        beat(service, clock.now())
        made = service.admin.create(every="1m")
        for _ in range(3):
            ticked(service, clock)
            clock.advance("5h")
            service.runtime.slots.tick(clock.now(), limit=100, behind=True)
        stats = f"/schedules/{made['id']}/stats/?days=30"
        days = service.admin.get(stats).fields["days"]
        assert sum(day["counts"]["missed"] for day in days) > 800
        monkeypatch.setattr(record, "MOST_RANGES", 1)
        assert service.admin.get(stats).fields["days"] == days


def test_rows_that_are_too_many_to_be_looked_at_are_said_to_be_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock(START)
    file = "agents: {bot: {command: [true], max_concurrent: 1}}"
    with serving(tmp_path, file=file, clock=clock) as service:
        for number in range(3):
            service.admin.create(name=f"closed-{number}", every="10s", not_on=["mon"])
        for number in range(4):
            service.admin.create(
                name=f"held-{number}", every="3h", run={"agent": {"name": "bot"}}, first_run="immediately"
            )
        for _ in range(6):
            ticked(service, clock)
            clock.advance(10)
        whole = shown(service.admin, START, "2026-01-05T08:01:00Z", rows=9)
        assert whole["uncounted"] == 0
        assert [one["counts"].get("held", 0) for one in whole["rows"]].count(1) == 3
        for bound, uncounted in ((3, 0), (2, 2), (1, 4)):
            monkeypatch.setattr(timeline_past, "MOST_ON_ROWS", bound)
            line = shown(service.admin, START, "2026-01-05T08:01:00Z")
            assert line["uncounted"] == uncounted
            assert [bar["kind"] for bar in line["items"]].count("held") == bound
            assert (line["total"] < whole["total"]) == bool(uncounted)
        assert shown(service.admin, "2026-01-05T07:00:00Z", START)["uncounted"] == 0


def test_a_slot_that_is_held_since_before_the_span_is_there(tmp_path: Path) -> None:
    clock = ManualClock(START)
    file = "agents: {bot: {command: [true], max_concurrent: 1}}"
    with serving(tmp_path, file=file, clock=clock) as service:
        for name in ("first", "second"):
            service.admin.create(
                name=name, every="3h", run={"agent": {"name": "bot"}}, first_run="immediately"
            )
        ticked(service, clock)
        clock.advance("1h")
        for span in ((START, "2026-01-05T08:10:00Z"), ("2026-01-05T08:30:00Z", "2026-01-05T10:00:00Z")):
            line = shown(service.admin, *span, stretch=600)
            assert [bar["kind"] for bar in line["items"]].count("held") == 1
            assert total_of(line["stretches"], "held") == 1
        assert shown(service.admin, "2026-01-05T09:30:00Z", "2026-01-05T10:00:00Z")["items"] == []


def test_a_pause_that_ends_by_itself_hides_no_slot_after_it(tmp_path: Path) -> None:
    clock = ManualClock(START)
    with serving(tmp_path, file="", clock=clock) as service:
        made = service.admin.create(name="hourly", every=None, cron="0 * * * *")
        until = {"until": "2026-01-06T00:30:00Z"}
        assert service.admin.post(f"/schedules/{made['id']}/pause/", until).status == 200
        line = shown(service.admin, START, "2026-01-06T08:00:00Z", rows=5)
        assert [bar["slot_at"][11:13] for bar in line["items"]] == [f"{hour:02}" for hour in range(1, 8)]
        assert line["rows"][0]["counts"] == {"upcoming": 7}


def test_slots_that_a_breaker_will_skip_are_counted_so(tmp_path: Path) -> None:
    clock = ManualClock(START)
    breaker = {"threshold": 1, "reset_after": "3h"}
    with serving(tmp_path, file="", clock=clock) as service:
        made = service.admin.create(every="1h", circuit_breaker=breaker)
        ticked(service, clock)
        end(service, claimed_all(service)[made["id"]], FAILED)
        clock.advance(1)
        line = shown(service.admin, START, "2026-01-05T14:00:00Z", stretch=3600, rows=1)
        kinds = [(bar["kind"], bar["is_skipped"]) for bar in line["items"]]
        assert kinds == [("job", False), *[("upcoming", True)] * 2, *[("upcoming", False)] * 3]
        assert line["stretches"][1]["counts"] == {"skipped": 1}
        assert total_of(line["stretches"], "skipped") == 2
        assert line["rows"][0]["counts"] == {"failed": 1, "skipped": 2, "upcoming": 3}


def test_a_month_has_all_of_its_closed_times(tmp_path: Path) -> None:
    clock = ManualClock(START)
    with serving(tmp_path, file="", clock=clock) as service:
        service.admin.create(every="1h", only_between="08:00-18:00", first_run="after_interval")
        line = shown(service.admin, "2026-02-01T00:00:00Z", "2026-03-04T00:00:00Z", rows=1)
        closed = line["rows"][0]["closed"]
        assert len(closed) == 32 and closed[-1]["to"] == "2026-03-04T00:00:00Z"
        assert line["rows"][0]["counts"] == {"upcoming": 31 * 10, "skipped": 31 * 14}


def test_the_past_of_what_is_rare_is_listed_beside_jobs_that_are_only_counted(tmp_path: Path) -> None:
    clock, count = ManualClock(START), 1_100
    with serving(tmp_path, file="", clock=clock) as service:
        body = {"every": "1m", "if_running": "allow", "run": {"http": {"url": "https://example.com/"}}}
        service.admin.post("/schedules/batch/", [{**body, "name": f"s{number}"} for number in range(count)])
        seldom = service.admin.create(name="seldom", every=None, cron="5 8 * * *")
        once = service.admin.create(name="once", every=None, at="2026-01-05T08:06:00Z")
        for _ in range(10):
            while service.runtime.slots.tick(clock.now(), limit=2_000, behind=False).more:
                pass
            clock.advance("1m")
        for until, following in (("2026-01-05T08:10:00Z", 0), ("2026-01-05T08:20:00Z", 10)):
            for more in ({"rows": 2}, {"rare": 3, "stretch": 60}, {}):
                line = shown(service.admin, START, until, **more)
                assert line["total"] == (10 + following) * count + 2 == total_of(line["stretches"])
                assert line["schedule_count"] == count + 2
                assert len(by_id(line, seldom)) == len(by_id(line, once)) == 1
        (row,) = shown(service.admin, START, until, rows=1, q="s1099")["rows"]
        assert row["counts"] == {"queued": 10, "upcoming": 10} and row["is_listed"]
        rows = shown(service.admin, START, until, rows=3)["rows"]
        assert {row["name"] for row in rows} >= {"seldom", "once"} and len(rows) == 3
        beside = shown(service.admin, START, until, rare=0, rows=3)["rows"]
        assert [row["is_listed"] for row in beside] == [False] * 3
        assert [total_of(row["stretches"]) for row in beside] == [
            sum(row["counts"].values()) for row in beside
        ]


@pytest.mark.parametrize("is_deleted", [False, True])
def test_what_is_rare_and_did_not_fire_is_listed_beside_jobs_that_are_only_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_deleted: bool
) -> None:
    """It neither fired since the beginning nor is it due before the end: only the record of its skips tells of it."""
    for module in (timeline_past, timeline_ranking, timeline):
        monkeypatch.setattr(module, "MOST_BARS", 100)
    clock = ManualClock(START)
    with serving(tmp_path, file="", clock=clock) as service:
        body = {"every": "1m", "if_running": "allow", "run": {"http": {"url": "https://example.com/"}}}
        service.admin.post("/schedules/batch/", [{**body, "name": f"s{number}"} for number in range(30)])
        weekly = service.admin.create(name="weekly", every=None, cron="5 8 * * 1", not_on=["mon"])
        for _ in range(10):
            while service.runtime.slots.tick(clock.now(), limit=2_000, behind=False).more:
                pass
            clock.advance("1m")
        if is_deleted:
            assert service.admin.call("DELETE", f"/schedules/{weekly['id']}/").status == 204
        for until in ("2026-01-05T08:10:00Z", "2026-01-05T08:20:00Z"):
            for more in ({"rare": 1, "stretch": 60, "rows": 40}, {}):
                line = shown(service.admin, START, until, **more)
                assert [bar["kind"] for bar in by_id(line, weekly)] == ["skipped"]
                listed = {bar["schedule_id"] for bar in line["items"]}
                assert line["schedule_count"] == 31 == line["unlisted_schedules"] + len(listed)
