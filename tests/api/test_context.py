"""What a caller is told before it makes a schedule: /me/ and /preview/; and a trigger that is sent twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from everwhen.testing.manual import ManualClock
from tests.api.serving import HTTP_RUN, Service, serving

FILE = """
agents: {bot: {command: ["true"], owner: ada}, hidden: {command: ["true"], owner: bob}}
workflows: {"1": {name: Report, owner: ada, run: {http: {url: "http://127.0.0.1:9/run"}}}}
"""


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock("2026-11-16T09:04:00Z")


@pytest.fixture
def service(tmp_path: Path, clock: ManualClock) -> Iterator[Service]:
    with serving(tmp_path, file=FILE, clock=clock) as found:
        yield found


def test_a_token_learns_the_time_its_targets_and_what_is_left(service: Service) -> None:
    limits: dict[str, Any] = {
        "max_schedules": 3,
        "fires_per_hour": 10,
        "targets": ["http", "agent"],
        "approval": "recurring",
    }
    agent = service.client(owner="ada", **limits)
    made = agent.create(every=None, after="1d", timezone="Asia/Tokyo")
    assert agent.post(f"/schedules/{made['id']}/trigger/").status == 202
    me = agent.get("/me/").fields
    assert (me["now"], me["weekday"], me["timezone"]) == ("2026-11-16T09:04:00Z", "Monday", "UTC")
    assert (me["local_now"], me["timezones"]) == ("2026-11-16T09:04:00+00:00", ["Asia/Tokyo"])
    assert me["approval"] == "recurring"
    unlimited = dict.fromkeys(("fires_today", "cost_today", "cost_this_month"))
    assert me["left"] == {"schedules": 2, "fires_this_hour": 9, **unlimited}
    targets = {"kinds": ["http", "agent"], "agents": ["bot"], "workflows": [], "plugins": []}
    assert me["targets"] == {**targets, "kinds": me["targets"]["kinds"]}
    assert sorted(me["targets"]["kinds"]) == ["agent", "http"]


def test_a_token_with_a_budget_learns_what_is_left_of_its_cost(service: Service) -> None:
    agent = service.client(cost_per_day="5 USD", cost_per_month="20 USD", cost_per_run="0.5 USD")
    made = agent.create(every="1h")
    assert agent.post(f"/schedules/{made['id']}/trigger/").status == 202
    left = agent.get("/me/").fields["left"]
    assert (left["cost_today"], left["cost_this_month"]) == ("4.5 USD", "19.5 USD")
    preview = agent.post("/preview/", {"every": "1h", "run": HTTP_RUN}).fields
    assert preview["cost_per_day"] == preview["most_cost_per_day"] == {"amount": 12, "currency": "USD"}


@pytest.mark.parametrize(
    ("fields", "mean", "most"),
    [
        ({"cron": "0 9 * * mon"}, 0.5 * 52 / 365, 0.5),  # never less than a run on the day on which it fires
        ({"cron": "0 9-17 * * 1-5"}, 0.5 * 9 * 261 / 365, 0.5 * 9),
        ({"cron": "0 9 * * mon", "max_retries": 3}, 0.5 * 52 / 365, 0.5 * 4),
        (
            {"cron": "*/30 * 25 10 *", "timezone": "Europe/Berlin"},
            0.5 * 48 / 365,
            0.5 * 44,
        ),  # two days of UTC
        ({"every": "7h"}, 0.5 * 24 / 7, 0.5 * 4),
        ({"every": "monthly"}, 0.5 * 12 / 365, 0.5),
    ],
)
def test_the_most_that_a_day_may_cost_is_that_of_its_busiest_day(
    service: Service, fields: dict[str, Any], mean: float, most: float
) -> None:
    agent = service.client(cost_per_month="999 USD", cost_per_run="0.5 USD")
    preview = agent.post("/preview/", {**fields, "run": HTTP_RUN}).fields
    assert preview["cost_per_day"]["amount"] == pytest.approx(mean, rel=1e-3)
    assert preview["most_cost_per_day"] == {"amount": most, "currency": "USD"}


def test_a_preview_tells_what_the_token_could_not_make(service: Service) -> None:
    agent = service.client(min_interval="10m", ttl="7d", approval="required")
    often = agent.post("/preview/", {"every": "1m", "run": HTTP_RUN}).fields
    assert (often["fires_per_day"], often["refused_by"]) == (1440, "min_interval")
    assert "more often than every 600s" in often["refusal"]
    fine = agent.post("/preview/", {"cron": "0 9 1 * mon", "run": HTTP_RUN}).fields
    assert (fine["refusal"], fine["needs_approval"], fine["now"]) == (None, True, "2026-11-16T09:04:00Z")
    assert fine["ends_at"] == "2026-11-23T09:04:00Z"
    assert len(fine["warnings"]) == 1
    code = agent.post("/preview/", {"every": "1h", "run": {"command": ["true"]}}).fields
    assert "runs code" in code["refusal"]


def test_the_same_trigger_runs_once(service: Service) -> None:
    made = service.admin.create()
    path, key = f"/schedules/{made['id']}/trigger/", {"Idempotency-Key": "now"}
    first, again = (service.admin.post(path, headers=key) for _ in range(2))
    assert first.fields["job"]["id"] == again.fields["job"]["id"]
    assert again.headers["idempotent-replayed"] == "true"
    other = service.client().post(path, headers=key)
    assert other.fields["job"]["id"] != first.fields["job"]["id"]
