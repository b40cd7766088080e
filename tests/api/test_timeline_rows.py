"""What the time line has beside its bars: filters, rows, closed times, holds, stretches, and spans without firings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from everwhen.api.payloads import model_of
from everwhen.model.events import Event
from everwhen.model.outcome import Outcome
from everwhen.testing.manual import ManualClock
from everwhen.views.timeline import Timeline
from tests.api.serving import Client, Service, serving
from tests.api.working import claimed_all, end

START = "2026-01-05T08:00:00Z"
TRACE = (
    'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    g()\nValueError: no luck\nat all'
)
RAISED = Outcome("failed", error=TRACE, error_type="ValueError")
DAY = ("2026-01-05T00:00:00Z", "2026-01-06T00:00:00Z")


def shown(client: Client, start: str, end: str, **filters: Any) -> dict[str, Any]:
    more = "".join(f"&{name}={value}" for name, value in filters.items())
    answer = client.get(f"/timeline/?from={start}&to={end}{more}")
    assert answer.status == 200, answer.raw
    model_of(Timeline).model_validate(answer.fields)
    found: dict[str, Any] = answer.fields
    return found


def ticked(service: Service, clock: ManualClock) -> None:
    service.runtime.slots.tick(clock.now(), limit=100, behind=False)


def beat(service: Service, now: int) -> None:
    service.runtime.slots.heartbeat(now, node="n1", version="1", is_scheduler=True)


def test_a_row_tells_what_a_person_wants_to_know_of_a_schedule(tmp_path: Path) -> None:
    clock = ManualClock(START)
    with serving(tmp_path, file="", clock=clock) as service:
        made = service.client(owner="ada").create(
            name="hourly", only_between="08:00-20:00", jitter="30s", first_run="after_interval"
        )
        service.admin.create(name="other", every="1d", first_run="after_interval")
        found = shown(service.admin, *DAY, rows=10, q="hourly")
        (row,) = found["rows"]
        assert (row["schedule_id"], row["name"], row["owner"]) == (made["id"], "hourly", "ada")
        assert (row["description_text"], row["status"], row["jitter_seconds"]) == (
            "every hour",
            "active",
            30.0,
        )
        assert [(one["from"][11:16], one["to"][11:16], one["reason"]) for one in row["closed"]] == [
            ("00:00", "08:00", "outside_window"),
            ("20:00", "00:00", "outside_window"),
        ]
        assert row["counts"] == {"upcoming": 11, "skipped": 4} and (
            row["last_outcome"],
            row["usual_seconds"],
        ) == (
            None,
            None,
        )
        assert [bar["is_skipped"] for bar in found["items"]].count(True) == 4
        assert found["schedule_count"] == 1 and shown(service.admin, *DAY)["rows"] == []


def test_what_failed_and_what_runs_comes_first_and_can_be_asked_for_alone(tmp_path: Path) -> None:
    clock = ManualClock(START)
    with serving(tmp_path, file="", clock=clock) as service:
        good, bad, busy = (service.admin.create(name=name) for name in ("good", "bad", "busy"))
        ticked(service, clock)
        claims = claimed_all(service)
        end(service, claims[good["id"]])
        end(service, claims[bad["id"]], RAISED)
        clock.advance(4)
        found, whole = shown(service.admin, *DAY, rows=2), shown(service.admin, *DAY)
        assert {row["schedule_id"] for row in found["rows"]} == {bad["id"], busy["id"]}
        assert {bar["schedule_id"] for bar in found["items"]} == {bad["id"], busy["id"]}
        assert (found["total"], found["schedule_count"]) == (len(whole["items"]), 3)
        for filters, wanted in [
            ({"failing": "true"}, bad),
            ({"running": "true"}, busy),
            ({"q": "good"}, good),
        ]:
            found = shown(service.admin, *DAY, rows=10, **filters)
            assert [row["schedule_id"] for row in found["rows"]] == [wanted["id"]]
            assert {bar["schedule_id"] for bar in found["items"]} == {wanted["id"]}
        assert shown(service.admin, *DAY, status="paused")["items"] == []
        failed = next(bar for bar in shown(service.admin, *DAY)["items"] if bar["status"] == "failed")
        assert (failed["error"], failed["retry"]) == ("ValueError: no luck", 0)


def test_skips_that_are_counted_on_the_row_are_on_the_line(tmp_path: Path) -> None:
    clock = ManualClock(START)
    with serving(tmp_path, file="", clock=clock) as service:
        made = service.admin.create(every="1m", not_on=["mon"])
        for _ in range(4):
            ticked(service, clock)
            clock.advance(60)
        bars = shown(service.admin, START, "2026-01-05T08:04:00Z")["items"]
        skipped = [bar for bar in bars if bar["kind"] == "skipped"]
        assert sum(bar["count"] for bar in skipped) == 4 and skipped[-1]["slot_at"] == "2026-01-05T08:03:00Z"
        (found,) = service.admin.get("/schedules/?recent=true").fields["items"]
        assert [slot["outcome"] for slot in found["recent"]] == ["skipped"] * 4 and found["id"] == made["id"]


def test_a_token_with_an_owner_filters_among_its_own(tmp_path: Path) -> None:
    clock = ManualClock(START)
    with serving(tmp_path, file="", clock=clock) as service:
        service.client(owner="ada").create(name="hers")
        bob = service.client("viewer", owner="bob")
        for filters in ({}, {"owner": "ada"}, {"q": "hers"}, {"group": "bot"}):
            assert shown(bob, *DAY, rows=5, **filters)["items"] == []


def test_a_held_slot_is_on_the_line_once_and_says_since_when(tmp_path: Path) -> None:
    clock = ManualClock(START)
    file = "agents: {bot: {command: [true], max_concurrent: 1}}"
    with serving(tmp_path, file=file, clock=clock) as service:
        run = {"agent": {"name": "bot"}}
        for name in ("first", "second"):
            service.admin.create(name=name, run=run)
        ticked(service, clock)
        clock.advance(5)
        found = shown(service.admin, START, "2026-01-05T08:30:00Z", held="true", rows=5)
        bars = [(bar["kind"], bar["reason"], bar["since"]) for bar in found["items"]]
        assert bars == [("held", "at_capacity", START)]
        assert found["rows"][0]["last_outcome"] == "held"


def test_a_week_is_listed_completely_when_what_fires_often_is_only_counted(tmp_path: Path) -> None:
    clock = ManualClock(START)
    week = ("2026-01-05T00:00:00Z", "2026-01-12T00:00:00Z")
    with serving(tmp_path, file="", clock=clock) as service:
        service.admin.create(name="often", every="10s", not_on=["sun"])
        service.admin.create(name="seldom", every=None, cron="0 9 * * *")
        found = shown(service.admin, *week, stretch=3600, rare=14, rows=10)
        assert (found["is_aggregated"], found["complete_until"]) == (False, week[1])
        assert len(found["stretches"]) == 168 and {bar["slot_at"][11:16] for bar in found["items"]} == {
            "09:00"
        }
        counts = {one["from"]: one["counts"] for one in found["stretches"]}
        assert counts["2026-01-06T09:00:00Z"] == {"upcoming": 361}
        assert counts["2026-01-11T10:00:00Z"] == {"skipped": 360}
        assert service.admin.get(f"/timeline/?from={week[0]}&to={week[1]}&stretch=60").status == 422


def test_times_without_a_scheduler_and_of_a_paused_system_are_spans(tmp_path: Path) -> None:
    clock = ManualClock(START)
    with serving(tmp_path, file="", clock=clock) as service:
        at = clock.now()
        down = Event("scheduler.started", at, detail={"last_heartbeat_at": at - 300 * 1_000_000})
        service.runtime.tokens.record([down])
        assert service.admin.post("/system/pause/").status == 200
        clock.advance(60)
        expected: list[dict[str, str | None]] = [
            {"kind": "down", "from": "2026-01-05T07:55:00Z", "to": START},
            {"kind": "paused", "from": START, "to": None},
        ]
        assert shown(service.admin, *DAY)["spans"] == expected
        assert service.admin.post("/system/resume/").status == 200
        expected[1]["to"] = "2026-01-05T08:01:00Z"
        assert shown(service.admin, *DAY)["spans"] == expected
        later = shown(service.admin, "2026-01-05T08:00:30Z", DAY[1])["spans"]
        assert [(one["kind"], one["from"]) for one in later] == [("paused", "2026-01-05T08:00:30Z")]


def test_a_row_tells_when_its_schedule_was_paused(tmp_path: Path) -> None:
    clock = ManualClock(START)
    with serving(tmp_path, file="", clock=clock) as service:
        made = service.admin.create(name="often", every="10m")
        path = f"/schedules/{made['id']}"
        ticked(service, clock)

        def pauses(start: str) -> list[dict[str, Any]]:
            (row,) = shown(service.admin, start, DAY[1], rows=5)["rows"]
            found: list[dict[str, Any]] = row["pauses"]
            return found

        assert pauses(DAY[0]) == []
        clock.advance(60)
        service.admin.post(f"{path}/pause/")
        now_on = {"from": "2026-01-05T08:01:00Z", "to": None}
        assert pauses(DAY[0]) == [now_on]
        clock.advance(60)
        service.admin.post(f"{path}/resume/")
        over = {"from": "2026-01-05T08:01:00Z", "to": "2026-01-05T08:02:00Z"}
        assert pauses(DAY[0]) == [over]
        assert pauses("2026-01-05T08:01:30Z") == [{**over, "from": "2026-01-05T08:01:30Z"}]
        clock.advance(60)
        service.admin.post(f"{path}/pause/")
        assert pauses(DAY[0]) == [{"from": "2026-01-05T08:03:00Z", "to": None}, over]


def test_while_no_scheduler_runs_the_last_span_is_open(tmp_path: Path) -> None:
    clock = ManualClock(START)
    with serving(tmp_path, file="", clock=clock) as service:
        beat(service, clock.now())
        assert shown(service.admin, *DAY)["spans"] == []
        clock.advance(120)
        assert shown(service.admin, *DAY)["spans"] == [{"kind": "down", "from": START, "to": None}]
        assert shown(service.client(owner="ada"), *DAY)["spans"] == []
        beat(service, clock.now())
        assert shown(service.admin, *DAY)["spans"] == []
