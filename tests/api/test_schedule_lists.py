"""Lists of schedules: orders, filters by state, counts by column, the last slots of each; figures by day and as series;
the next change of the clock in a preview."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from everwhen.api.payloads import model_of
from everwhen.model.claim import ClaimedJob
from everwhen.model.outcome import SUCCEEDED
from everwhen.testing.manual import ManualClock
from everwhen.views.schedules import ScheduleList, Stats
from tests.api.serving import Client, Service, serving
from tests.api.working import FAILED, claimed_all, end

START = "2026-01-05T08:00:00Z"


def listed(client: Client, **filters: Any) -> dict[str, Any]:
    query = "&".join(f"{name}={value}" for name, value in filters.items())
    answer = client.get(f"/schedules/?{query}")
    assert answer.status == 200, answer.raw
    model_of(ScheduleList).model_validate(answer.fields)
    found: dict[str, Any] = answer.fields
    return found


def names(client: Client, **filters: Any) -> list[str]:
    return [item["name"] for item in listed(client, **filters)["items"]]


def running(service: Service, clock: ManualClock) -> ClaimedJob:
    """The job of the only schedule, which is due."""
    service.runtime.slots.tick(clock.now(), limit=100, behind=False)
    (claim,) = claimed_all(service).values()
    return claim


def test_schedules_are_listed_in_the_order_that_is_asked_for(tmp_path: Path) -> None:
    with serving(tmp_path, file="", clock=ManualClock(START)) as service:
        for name, every in (("b", "2h"), ("a", "3h"), ("c", "1h")):
            service.admin.create(name=name, every=every, first_run="after_interval", owner=None)
        done = service.admin.create(name="d", first_run="after_interval")
        service.admin.post(f"/schedules/{done['id']}/pause/")
        assert names(service.admin, sort="next_run_at") == ["c", "b", "a", "d"]
        assert names(service.admin, sort="-next_run_at") == ["a", "b", "c", "d"]  # without a next run: last
        assert names(service.admin, sort="status")[-1] == "d" and names(
            service.admin, sort="created_at"
        ) == list("bacd")
        first = listed(service.admin, sort="next_run_at", limit=3)
        rest = listed(service.admin, sort="next_run_at", limit=3, cursor=first["next_cursor"])
        assert [item["name"] for item in rest["items"]] == ["d"] and rest["next_cursor"] is None
        assert first["total"] == 4
        for wrong in ("sort=colour", "facets=colour", "status=colour"):
            assert service.admin.get(f"/schedules/?{wrong}").problem == "invalid"


def test_columns_are_counted_whatever_state_is_asked_for(tmp_path: Path) -> None:
    clock = ManualClock(START)
    with serving(tmp_path, file="", clock=clock) as service:
        good, bad, _busy = (service.admin.create(name=name) for name in ("good", "bad", "busy"))
        paused = service.client(owner="ada").create(name="paused", first_run="after_interval")
        service.admin.post(f"/schedules/{paused['id']}/pause/", {"note": "later"})
        service.runtime.slots.tick(clock.now(), limit=100, behind=False)
        claims = claimed_all(service)
        end(service, claims[good["id"]])
        end(service, claims[bad["id"]], FAILED)
        found = listed(service.admin, status="paused", facets="status,owner")
        assert found["facets"]["status"] == {"active": 3, "paused": 1, "failing": 1, "running": 1, "held": 0}
        assert found["facets"]["owner"] == {"": 3, "ada": 1} and found["total"] == 1
        assert names(service.admin, failing="true") == ["bad"] and names(service.admin, running="true") == [
            "busy"
        ]
        paused_by = found["items"][0]["paused_by"]
        assert names(service.admin, paused_by=paused_by) == ["paused"]
        assert listed(service.client(owner="bob"), facets="status")["facets"]["status"]["failing"] == 0
        assert "facets" not in listed(service.admin) and "recent" not in listed(service.admin)["items"][0]


def test_each_schedule_of_a_list_has_its_last_slots_and_its_usual_time(tmp_path: Path) -> None:
    clock = ManualClock(START)
    with serving(tmp_path, file="", clock=clock) as service:
        service.admin.create(name="x", every="10s", not_on=["tue"])
        for number in range(32):
            claim = running(service, clock)
            clock.advance(2)
            end(service, claim, FAILED if number == 30 else SUCCEEDED)
            clock.advance(8)
        (found,) = listed(service.admin, recent="true")["items"]
        outcomes = [slot["outcome"] for slot in found["recent"]]
        assert outcomes == ["succeeded"] * 28 + ["failed", "succeeded"] and found["usual_seconds"] == 2.0
        assert found["recent"][-1]["slot_at"] == "2026-01-05T08:05:10Z"
        (short,) = service.admin.get("/schedules/?recent=true&fields=name").fields["items"]
        assert short == {name: found[name] for name in ("id", "name", "recent", "usual_seconds")}


def test_figures_come_by_day_and_as_a_series(tmp_path: Path) -> None:
    clock = ManualClock("2026-01-05T22:30:00Z")
    with serving(tmp_path, file="", clock=clock) as service:
        made = service.admin.create(name="x", every="1h", timezone="Europe/Paris")
        for number in range(3):
            service.runtime.slots.tick(clock.now(), limit=100, behind=False)
            clock.advance(1)
            (claim,) = claimed_all(service).values()
            clock.advance(2)
            end(service, claim, FAILED if number == 1 else SUCCEEDED)
            clock.advance(3_597)
        answer = service.admin.get(f"/schedules/{made['id']}/stats/?days=30&points=2")
        model_of(Stats).model_validate(answer.fields)
        assert answer.fields["days"] == [
            {"day": "2026-01-05", "counts": {"succeeded": 1}},
            {"day": "2026-01-06", "counts": {"failed": 1, "succeeded": 1}},  # 00:30 and 01:30 in Paris
        ]
        points = answer.fields["points"]
        assert [(point["status"], point["duration"], point["lag"]) for point in points] == [
            ("failed", 2.0, 1.0),
            ("succeeded", 2.0, 1.0),
        ]
        plain = service.admin.get(f"/schedules/{made['id']}/stats/").fields
        assert (plain["points"], plain["days"]) == ([], [])


@pytest.mark.parametrize(("runs", "p95"), [(19, None), (20, 10.0)])
def test_a_percentile_of_durations_is_given_where_there_are_runs_enough(
    tmp_path: Path, runs: int, p95: float | None
) -> None:
    clock = ManualClock("2026-01-05T08:00:00Z")
    with serving(tmp_path, file="", clock=clock) as service:
        made = service.admin.create(every="1m")
        for number in range(runs):
            service.runtime.slots.tick(clock.now(), limit=100, behind=False)
            (claim,) = claimed_all(service).values()
            length = 30 if number == 7 else 10  # one of twenty may be longer
            clock.advance(length)
            end(service, claim)
            clock.advance(60 - length)
        found = service.admin.get(f"/schedules/{made['id']}/stats/").fields
        assert (found["duration_jobs"], found["duration_p95"]) == (runs, p95)
        assert (found["duration_median"], found["duration_max"]) == (10.0, 30.0)


@pytest.mark.parametrize(
    ("body", "slot_at", "note"),
    [
        (
            {"cron": "30 2 * * 0", "timezone": "Europe/Berlin"},
            "2026-03-29T01:00:00Z",
            "shifted: the clock jumps from 02:00 to 03:00",
        ),
        ({"cron": "0 9 * * *", "timezone": "Europe/Berlin"}, None, None),
    ],
)
def test_a_preview_names_the_next_change_of_the_clock(
    tmp_path: Path, body: dict[str, Any], slot_at: str | None, note: str | None
) -> None:
    with serving(tmp_path, file="", clock=ManualClock(START)) as service:
        found = service.admin.post("/preview/?limit=5", body).fields["clock_change"]
        assert (found["at"], found["forward_seconds"]) == ("2026-03-29T01:00:00Z", 3_600)
        assert (found["slot_at"], found["note"]) == (slot_at, note)


def test_a_zone_without_changes_has_none_ahead(tmp_path: Path) -> None:
    with serving(tmp_path, file="") as service:
        for body in ({"cron": "0 9 * * *", "timezone": "UTC"}, {"every": "5m"}):
            assert service.admin.post("/preview/", body).fields["clock_change"] is None
