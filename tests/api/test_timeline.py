"""The time line over REST: past and future on one line, bounded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from everwhen.api.payloads import model_of
from everwhen.testing.manual import ManualClock
from everwhen.views.timeline import Timeline
from tests.api.serving import Client, serving
from tests.api.working import ran

START = "2026-01-05T08:00:00Z"


def shown(client: Client, start: str, end: str) -> dict[str, Any]:
    answer = client.get(f"/timeline/?from={start}&to={end}")
    assert answer.status == 200, answer.raw
    model_of(Timeline).model_validate(answer.fields)
    found: dict[str, Any] = answer.fields
    return found


def test_the_past_comes_from_the_ledger_and_the_future_from_the_calendar(tmp_path: Path) -> None:
    clock = ManualClock(START)
    with serving(tmp_path, file="", clock=clock) as service:
        made = service.client(owner="ada").create(name="hourly", not_on=["tue"])
        service.runtime.slots.tick(clock.now(), limit=10, behind=False)
        (job,) = service.admin.get("/jobs/").fields["items"]
        ran(service, job["id"])
        found = shown(service.admin, "2026-01-05T07:00:00Z", "2026-01-05T11:00:00Z")
        assert [(bar["kind"], bar["slot_at"]) for bar in found["items"]] == [
            ("job", "2026-01-05T08:00:00Z"),
            ("upcoming", "2026-01-05T09:00:00Z"),
            ("upcoming", "2026-01-05T10:00:00Z"),
        ]
        first = found["items"][0]
        assert (first["job_id"], first["status"], first["schedule_id"]) == (
            job["id"],
            "succeeded",
            made["id"],
        )
        assert (found["is_aggregated"], found["complete_until"]) == (False, "2026-01-05T11:00:00Z")
        tuesday = shown(service.admin, "2026-01-06T00:00:00Z", "2026-01-06T02:00:00Z")["items"]
        assert [bar["reason"] for bar in tuesday] == ["excluded_day", "excluded_day"]
        bob = shown(service.client("viewer", owner="bob"), "2026-01-05T07:00:00Z", "2026-01-05T11:00:00Z")
        assert bob["items"] == []
        ada = shown(service.client("viewer", owner="ada"), "2026-01-05T07:00:00Z", "2026-01-05T11:00:00Z")
        assert ada["items"] == found["items"]


def test_a_skip_is_on_the_line(tmp_path: Path) -> None:
    clock = ManualClock(START)
    with serving(tmp_path, file="", clock=clock) as service:
        service.client(owner="ada").create(not_on=["mon"])
        service.runtime.slots.tick(clock.now(), limit=10, behind=False)
        found = shown(service.admin, "2026-01-05T07:00:00Z", "2026-01-05T08:30:00Z")["items"]
        assert [(bar["kind"], bar["reason"]) for bar in found] == [("skipped", "excluded_day")]
        assert (
            shown(service.client(owner="bob"), "2026-01-05T07:00:00Z", "2026-01-05T08:30:00Z")["items"] == []
        )


def test_too_many_bars_are_counted_by_stretches(tmp_path: Path) -> None:
    clock = ManualClock(START)
    with serving(tmp_path, file="", clock=clock) as service:
        service.admin.create(every="1s")
        service.runtime.slots.tick(clock.now(), limit=10, behind=False)
        found = shown(service.admin, START, "2026-01-06T08:00:00Z")
        assert (found["is_aggregated"], found["items"], len(found["stretches"])) == (True, [], 200)
        assert sum(one["counts"].get("queued", 0) for one in found["stretches"]) == 1
        upcoming = sum(one["counts"].get("upcoming", 0) for one in found["stretches"])
        assert upcoming == 86_399 and found["total"] == 86_400
        assert {sum(one["counts"].values()) for one in found["stretches"]} == {432}  # to the end, and evenly
        assert found["complete_until"] == "2026-01-06T08:00:00Z"
        assert (found["unlisted_schedules"], found["unlisted_slots"]) == (1, 86_400)


def test_jobs_are_all_counted_where_they_are_too_many_to_be_read(tmp_path: Path) -> None:
    clock, count = ManualClock(START), 1_002
    with serving(tmp_path, file="", clock=clock) as service:
        body = {"every": "1m", "if_running": "allow", "run": {"http": {"url": "https://example.com/"}}}
        service.admin.post("/schedules/batch/", [{**body, "name": f"s{number}"} for number in range(count)])
        for _ in range(10):
            while service.runtime.slots.tick(clock.now(), limit=2_000, behind=False).more:
                pass
            clock.advance("1m")
        span = f"/timeline/?from={START}&to=2026-01-05T08:10:00Z"
        line, map_of_it = (
            service.admin.get(span).fields,
            service.admin.get(f"{span}&stretch=60&rare=0").fields,
        )
        assert (line["is_aggregated"], len(line["items"]), line["total"]) == (True, 10_000, 10 * count)
        assert (line["unlisted_schedules"], line["unlisted_slots"]) == (2, 20)
        assert map_of_it["items"] == [] and map_of_it["unlisted_slots"] == map_of_it["total"] == 10 * count
        assert [one["counts"] for one in map_of_it["stretches"]] == [{"queued": count}] * 10
        assert line["schedule_count"] == map_of_it["schedule_count"] == count
        one = service.admin.get(f"{span}&q=s1001&rows=5").fields
        assert (one["is_aggregated"], len(one["items"]), len(one["rows"])) == (False, 10, 1)


def test_a_span_of_next_year_is_shown_and_chains_are_estimates(tmp_path: Path) -> None:
    clock = ManualClock(START)
    with serving(tmp_path, file="", clock=clock) as service:
        service.admin.create(every="1s")
        chain = service.admin.create(every="1h", interval_from="completion")
        found = shown(service.admin, "2027-01-05T08:00:00Z", "2027-01-05T08:00:02Z")
        assert [bar["slot_at"][-3:] for bar in found["items"]] == ["00Z", "00Z", "01Z"]
        assert [bar["is_estimate"] for bar in found["items"]].count(True) == 1
        near = shown(service.admin, START, "2026-01-05T08:00:01Z")["items"]  # due, and not decided yet
        assert {(bar["kind"], bar["is_estimate"]) for bar in near} == {("upcoming", False)}
        assert chain["id"] in {bar["schedule_id"] for bar in near}


def test_a_span_that_cannot_be_is_refused(tmp_path: Path) -> None:
    with serving(tmp_path) as service:
        for start, end in [(START, START), (START, "2029-01-01T00:00:00Z"), (START, "2026-01-05T07:00:00Z")]:
            answer = service.admin.get(f"/timeline/?from={start}&to={end}")
            assert (answer.status, answer.problem) == (422, "invalid")
        assert service.admin.get("/timeline/").status == 422
        assert service.admin.get(f"/timeline/?from=0001-01-01T00:00:00Z&to={START}").status == 422
        assert service.nobody.get(f"/timeline/?from={START}&to={START}").status == 401
