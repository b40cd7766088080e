"""What a person has to know before they answer a request for approval."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from everwhen.testing.manual import ManualClock
from tests.api.serving import Client, Service, serving
from tests.api.working import alerted

FILE = """
agents:
  triage: {command: [true], owner: support}
budgets:
  triage: {fires_per_hour: 5, fires_per_day: 200, cost_per_day: 5 USD, cost_per_month: 50 USD, cost_per_run: 0.10 USD}
  owner:support: {fires_per_day: 300}
"""
AGENT = {"agent": {"name": "triage", "prompt": "Summarise."}}


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with serving(tmp_path, file=FILE, clock=ManualClock("2026-11-16T08:00:00Z")) as found:
        yield found


def review(client: Client, made: dict[str, Any]) -> dict[str, Any]:
    answer = client.get(f"/schedules/{made['id']}/review/")
    assert answer.status == 200, answer.raw
    found: dict[str, Any] = answer.fields
    return found


def test_a_new_schedule_says_how_often_it_fires_and_what_it_takes_of_its_budgets(service: Service) -> None:
    agent = service.client(
        owner="support", approval="required", max_schedules=10, min_interval="5m", ttl="30d"
    )
    made = agent.create(cron="*/10 7-18 * * 1-5", every=None, run=AGENT)
    found = review(service.admin, made)
    assert (found["revision"], found["before_revision"], found["keys"]) == (1, None, [])
    assert (found["token_name"], found["asked_at"]) == ("operator support", "2026-11-16T08:00:00Z")
    assert (found["firings_per_week"], found["firings_per_week_before"]) == (360, None)
    assert (found["busiest_day"], found["items"][0]["slot_at"]) == (72, "2026-11-16T08:10:00Z")
    assert found["cost_per_day"]["currency"] == "USD"
    asked = {(one["name"], one["limit"]): one for one in found["budgets"]}
    assert {
        limit: (one["asked"], one["most"]) for (name, limit), one in asked.items() if name == "triage"
    } == {
        "fires_per_hour": (6, 5),
        "fires_per_day": (72, 200),
        "cost_per_day": (7.2, 5),
        "cost_per_month": (154.5, 50),
    }
    assert asked["support", "fires_per_day"]["kind"] == "owner"
    assert found["warnings"] == ["it asks for more than is left of the budget of triage"]
    assert [(one["limit"], one["is_met"]) for one in found["limits"]] == [
        ("min_interval", True),
        ("ttl", True),
        ("max_schedules", True),
    ]
    assert found["limits"][2]["sentence"] == "1 of 10 schedules"


def test_a_change_is_compared_with_the_revision_that_fired_until_then(service: Service) -> None:
    agent = service.client(owner="support", approval="required")
    made = agent.create(cron="30 7 * * 1-5", every=None, run=AGENT)
    path = f"/schedules/{made['id']}/"
    assert service.admin.post(f"{path}approve/", {"revision": 1}).status == 200
    agent.patch(path, {"cron": "0 * * * 1-5"})
    agent.patch(path, {"cron": "*/10 7-18 * * 1-5"})  # and again, before anybody answered
    found = review(service.admin, made)
    assert (found["revision"], found["before_revision"]) == (3, 1)
    assert found["approved_at"] == "2026-11-16T08:00:00Z"
    assert (found["firings_per_week_before"], found["firings_per_week"]) == (5, 360)
    (change,) = [one for one in found["keys"] if one["key"] == "cron"]
    assert (change["before"], change["after"]) == ("30 7 * * 1-5", "*/10 7-18 * * 1-5")


def test_on_postgresql_too(tmp_path: Path, postgres_url: str) -> None:
    with serving(tmp_path, url=postgres_url, file=FILE, clock=ManualClock("2026-11-16T08:00:00Z")) as service:
        test_a_change_is_compared_with_the_revision_that_fired_until_then(service)


def test_what_an_admin_made_is_the_revision_before_without_an_approval(service: Service) -> None:
    made = service.admin.create(owner="support", every="1h")
    agent = service.client(owner="support", approval="required")
    agent.patch(f"/schedules/{made['id']}/", {"every": "1s"})
    found = review(service.admin, made)
    assert (found["before_revision"], found["approved_at"]) == (1, None)
    assert found["firings_per_week_before"] == 168 and found["firings_per_week"] == 604_800


def test_a_schedule_that_does_not_wait_is_not_reviewed_and_strangers_see_nothing(service: Service) -> None:
    agent = service.client(owner="support", approval="required")
    made, active = agent.create(), service.admin.create()
    answer = service.admin.get(f"/schedules/{active['id']}/review/")
    assert (answer.status, answer.problem) == (400, "wrong-status")
    assert service.client("viewer", owner="other").get(f"/schedules/{made['id']}/review/").status == 404


def test_the_status_counts_what_waits_for_approval_and_open_alerts(service: Service) -> None:
    made = service.client(owner="support", approval="required").create()
    alerted(service, made["id"])
    found = service.admin.get("/system/status/").fields
    assert (found["waiting"], found["open_alerts"], found["spent_budgets"]) == (1, 1, [])


def test_the_status_tells_open_alerts_apart_that_somebody_has_answered(service: Service) -> None:
    acked, silenced, open_ = (service.admin.create(name=name) for name in ("acked", "silenced", "open"))
    alerted(service, acked["id"], silenced["id"], open_["id"])

    def counts() -> tuple[int, int]:
        found = service.admin.get("/system/status/").fields
        return found["open_alerts"], found["unanswered_alerts"]

    assert counts() == (4, 4)  # one is about a node
    (alert,) = service.admin.get(f"/alerts/?schedule_id={acked['id']}").fields["items"]
    service.admin.post(f"/alerts/{alert['id']}/ack/")
    service.admin.post("/alerts/silences/", {"subject": silenced["id"], "duration": "1h"})
    assert counts() == (4, 2)
    service.runtime.clock.advance("1h")  # type: ignore[attr-defined]
    assert counts() == (4, 3)


@pytest.mark.parametrize(
    "fields",
    [
        {"type": "webhook", "every": None},
        {"every": "monthly"},
        {"every": "10m", "interval_from": "completion"},
        {"every": None, "at": "2026-11-16T09:00:00Z"},
        {"every": "1h", "only_between": "09:00-10:00"},
    ],
)
def test_every_kind_of_trigger_is_reviewed_also_when_its_time_is_over(
    service: Service, fields: dict[str, Any]
) -> None:
    agent = service.client(owner="support", approval="required")
    made = agent.create(**fields)
    first = review(service.admin, made)
    assert (first["items"] == []) == (fields.get("type") == "webhook")
    clock = service.runtime.clock
    assert isinstance(clock, ManualClock)
    clock.step(2 * 86_400)
    assert review(service.admin, made)["revision"] == 1


def test_a_difference_shows_no_secret(service: Service) -> None:
    agent = service.client(owner="support", approval="required")

    def run(secret: str) -> dict[str, Any]:
        return {"http": {"url": "https://example.com", "headers": {"Authorization": f"Bearer {secret}"}}}

    made = agent.create(type="webhook", every=None, run=run("the-first-secret"))
    path = f"/schedules/{made['id']}/"
    assert service.admin.patch(path, {"secret": "the-first-secret"}).status == 200
    assert service.admin.post(f"{path}approve/", {"revision": 2}).status == 200
    changed = agent.patch(path, {"run": run("the-second-secret"), "owner": "support"})
    assert changed.status == 200, changed.raw
    assert service.admin.patch(path, {"secret": "the-second-secret"}).status == 200
    answer = service.admin.get(f"{path}review/")
    assert answer.status == 200 and b"-secret" not in answer.raw, answer.raw
