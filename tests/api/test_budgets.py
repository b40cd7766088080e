"""Budgets over REST: how they stand and who sees them, what a token may spend, and the cost that a job shows."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from everwhen.model.cost import parse_cost
from everwhen.model.group import needs_max_cost
from everwhen.model.outcome import SUCCEEDED, Outcome
from everwhen.store.opened import store_of
from everwhen.testing.manual import ManualClock
from tests.api.serving import Client, Service, serving
from tests.api.working import claimed, end, ran, triggered

FILE = """
agents:
  reviewer: {command: [true], owner: ada}
  writer: {command: [true], owner: bob}
budgets:
  reviewer: {fires_per_hour: 20, cost_per_day: 5 USD, cost_per_run: 1 USD}
  writer: {cost_per_month: 2000000 TOKENS, on_reached: pause}
  owner:ada: {cost_per_day: 8 USD, catch_up_share: 25%}
"""


@pytest.fixture(params=["sqlite", "postgres"])
def service(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Service]:
    url = request.getfixturevalue("postgres_url") if request.param == "postgres" else None
    with serving(tmp_path, url=url, file=FILE, clock=ManualClock("2026-11-17T08:10:00Z")) as service:
        yield service


def costing(amount: str) -> Outcome:
    return Outcome("succeeded", cost=parse_cost(amount))


def of_agent(client: Client, **fields: Any) -> dict[str, Any]:
    run = {"agent": {"name": "reviewer", "prompt": "go"}}
    return client.create(run=run, first_run="after_interval", **fields)


def test_budgets_tell_what_is_used_what_is_left_and_when_they_refill(service: Service) -> None:
    made = of_agent(service.admin, owner="ada")
    ran(service, triggered(service.admin, made)["id"], costing("4.2 USD"))
    job = triggered(service.admin, made)
    ada, reviewer, writer = service.admin.get("/budgets/").fields["items"]
    assert (ada["kind"], ada["name"], ada["catch_up_share"]) == ("owner", "ada", 25)
    assert (writer["currency"], writer["on_reached"], writer["limits"][0]["left"]) == (
        "TOKENS",
        "pause",
        2_000_000,
    )
    fires, cost = reviewer["limits"]
    assert (reviewer["kind"], reviewer["cost_per_run"], reviewer["reserved"]) == ("group", 1, 1)
    assert (fires["limit"], fires["used"], fires["most"], fires["level"]) == ("fires_per_hour", 2, 20, "ok")
    assert (cost["used"], cost["left"], cost["level"]) == (5.2, 0, "reached")
    assert (cost["window_at"], cost["refill_at"]) == ("2026-11-17T00:00:00Z", "2026-11-18T00:00:00Z")
    reserved = service.admin.get(f"/jobs/{job['id']}/").fields["reserved"]
    assert reserved == {"amount": 1, "currency": "USD"}
    (point, _) = service.admin.get(f"/schedules/{made['id']}/stats/?points=5").fields["points"]
    assert point["cost"] == {"amount": 4.2, "currency": "USD"}
    (event,) = service.admin.get("/audit/?type=budget.reached").fields["items"]
    shown = {
        key: event["detail"][key] for key in ("used", "estimated", "most", "unit", "window", "refill_at")
    }
    assert shown == {
        "used": 5.2,
        "estimated": 1,
        "most": 5,
        "unit": "USD",
        "window": "2026-11-17T00:00:00Z",
        "refill_at": "2026-11-18T00:00:00Z",
    }
    status = service.admin.get("/system/status/").fields
    assert [(one["name"], one["spent_until"]) for one in status["spent_budgets"]] == [
        ("reviewer", "2026-11-18T00:00:00Z")
    ]
    ran(service, job["id"], costing("0.1 USD"))
    after = service.admin.get("/budgets/").fields["items"][1]
    assert (after["reserved"], after["total_cost"], after["limits"][1]["level"]) == (0, 4.3, "warning")


def test_a_token_with_an_owner_sees_the_budgets_of_that_owner_and_no_token_but_its_own(
    service: Service,
) -> None:
    service.client(owner="bob", fires_per_day=3)
    ada = service.client(owner="ada", cost_per_day="1 USD")
    names = [(one["kind"], one["name"]) for one in ada.get("/budgets/").fields["items"]]
    assert names == [("owner", "ada"), ("group", "reviewer"), ("token", "operator ada")]
    assert len(service.admin.get("/budgets/").fields["items"]) == 5


def test_limits_on_what_tokens_and_runs_of_agents_make_are_listed_with_what_is_used(tmp_path: Path) -> None:
    file = "agents: {bot: {command: [true], owner: ada, self_schedule: {max_schedules: 2}}}\n"
    with serving(tmp_path, file=file) as service:
        maker = service.client(owner="ada", max_schedules=3, min_interval="10m")
        maker.create()
        service.client(owner="bob", approval="required")
        listed = {one["name"]: one for one in service.admin.get("/budgets/").fields["items"]}
        assert listed.keys() == {"runs of bot", "operator ada"}
        names = ("kind", "schedules", "max_schedules", "min_interval", "ttl", "limits")
        shown = {name: tuple(one[key] for key in names) for name, one in listed.items()}
        assert {name: found[:5] for name, found in shown.items()} == {
            "runs of bot": ("token", 0, 2, 600, 7 * 86_400),
            "operator ada": ("token", 1, 3, 600, None),
        }
        limits = {name: {one["limit"]: one["most"] for one in found[5]} for name, found in shown.items()}
        assert limits == {"runs of bot": {"fires_per_hour": 10, "fires_per_day": 50}, "operator ada": {}}
        mine = maker.get("/budgets/").fields["items"]
        assert [one["name"] for one in mine] == ["runs of bot", "operator ada"]
        assert service.client(owner="bob").get("/budgets/").fields["items"] == []


def test_a_job_shows_its_cost_and_an_outcome_reports_it(service: Service) -> None:
    made = service.admin.create(timeout="1h")
    job = triggered(service.admin, made)
    assert job["cost"] is None
    awaits = sha256(b"one-time").hexdigest()
    end(service, claimed(service, job["id"]), Outcome("succeeded", awaits=awaits))
    path, token = f"/jobs/{job['id']}/outcome/", {"Everwhen-Outcome-Token": "one-time"}
    body: dict[str, Any] = {"status": "failed", "error": "no", "cost": "much"}
    assert service.nobody.post(path, body, headers=token).problem == "invalid"
    body["cost"] = {"amount": 0.42, "currency": "USD"}
    answer = service.nobody.post(path, body, headers=token).fields
    assert (answer["cost"], answer["cost_source"]) == ({"amount": 0.42, "currency": "USD"}, "reported")


def test_the_calls_of_a_token_are_refused_when_the_next_run_would_not_fit(service: Service) -> None:
    poor = service.client(owner="ada", cost_per_day="2 USD", cost_per_run="1 USD")
    theirs, own = service.client(owner="ada").create(), poor.create()
    ran(service, triggered(poor, theirs)["id"], costing("0.5 USD"))
    ran(service, triggered(poor, own)["id"], costing("1.2 USD"))
    answer = poor.post(f"/schedules/{own['id']}/trigger/")
    assert (answer.status, answer.problem) == (429, "too-many-requests")
    assert "reached its limit of cost" in answer.fields["detail"]
    assert answer.headers["retry-after"] == str(15 * 3600 + 50 * 60)
    (budget,) = [one for one in poor.get("/budgets/").fields["items"] if one["kind"] == "token"]
    assert (budget["total_cost"], budget["reserved"]) == (1.7, 0)
    assert service.admin.post(f"/schedules/{own['id']}/trigger/").status == 202  # whoever triggers pays


def test_an_agent_that_gets_its_highest_cost_needs_a_budget_that_says_it(tmp_path: Path) -> None:
    file = 'agents: {limited: {command: [echo, "--most={max_cost}"]}, plain: {command: [echo]}}\n'
    with serving(tmp_path, file=file) as service:
        body = {"every": "1h", "first_run": "after_interval", "run": {"agent": {"name": "limited"}}}
        answer = service.admin.post("/schedules/", body)
        assert answer.status == 422
        (fault,) = answer.fields["errors"]
        assert (fault["path"], fault["message"]) == ("run.agent", needs_max_cost("limited"))
        poor = service.client(owner=None, cost_per_run="0.5 USD", cost_per_day="5 USD")
        assert poor.post("/schedules/", body).status == 201
        made = service.admin.create(**{**body, "run": {"agent": {"name": "plain"}}})
        edit = {"run": body["run"]}
        assert service.admin.call("PATCH", f"/schedules/{made['id']}/", edit).status == 422
        assert poor.call("PATCH", f"/schedules/{made['id']}/", edit).status == 200
        # Another edit leaves the command alone.
        assert service.admin.call("PATCH", f"/schedules/{made['id']}/", {"name": "x"}).status == 200


@pytest.mark.parametrize(
    ("limits", "fault"),
    [
        ({"cost_per_day": "5"}, "cost_per_day"),
        ({"cost_per_day": "0 USD"}, "more than 0"),
        ({"cost_per_day": "5 USD", "cost_per_run": "10 TOKENS"}, "one unit"),
        ({"catch_up_share": "150%"}, "catch_up_share"),
        ({"on_reached": "stop"}, "on_reached"),
    ],
)
def test_limits_of_cost_are_checked_when_a_token_is_made(
    tmp_path: Path, limits: dict[str, Any], fault: str
) -> None:
    with serving(tmp_path) as service:
        answer = service.admin.post("/tokens/", {"name": "agent", "role": "operator", "limits": limits})
        assert answer.status == 422 and fault in answer.raw.decode()


def test_the_cost_of_budgets_is_a_metric(service: Service) -> None:
    made = of_agent(service.admin, owner="ada")
    ran(service, triggered(service.admin, made)["id"], costing("4.25 USD"))
    metrics = service.context.metrics
    assert metrics is not None
    text = metrics.text()[0].decode()
    assert 'everwhen_cost_total{budget="reviewer",currency="USD"} 4.25' in text
    assert 'everwhen_cost_total{budget="owner:ada",currency="USD"} 4.25' in text


def test_an_estimate_stands_nowhere_as_if_it_were_spent(service: Service) -> None:
    made = of_agent(service.admin, owner="ada")
    reported, silent, lost = (triggered(service.admin, made)["id"] for _ in range(3))
    for job, outcome in ((reported, costing("0.25 USD")), (silent, SUCCEEDED)):
        ran(service, job, outcome)
    claim = claimed(service, lost)
    one, quarter = ({"amount": amount, "currency": "USD"} for amount in (1, 0.25))

    def costs(job: str) -> list[Any]:
        fields = service.admin.get(f"/jobs/{job}/").fields
        return [fields[name] for name in ("cost", "reported_cost", "estimated_cost", "reserved")]

    assert costs(reported) == [quarter, quarter, None, None]
    assert costs(silent) == [one, None, one, None]
    assert costs(lost) == [None, None, None, one]
    points = service.admin.get(f"/schedules/{made['id']}/stats/?points=5").fields["points"]
    assert [(point["cost"], point["estimated_cost"]) for point in points[:2]] == [(quarter, None), (one, one)]
    (_, reviewer, _) = service.admin.get("/budgets/").fields["items"]
    assert (reviewer["total_cost"], reviewer["total_estimated"], reviewer["reserved"]) == (1.25, 1, 1)
    (_, cost) = reviewer["limits"]
    assert (cost["used"], cost["reported"], cost["estimated"]) == (2.25, 0.25, 2)
    metrics = service.context.metrics
    assert metrics is not None
    text = metrics.text()[0].decode()
    assert 'everwhen_cost_total{budget="reviewer",currency="USD"} 1.25' in text
    assert 'everwhen_estimated_cost_total{budget="reviewer",currency="USD"} 1.0' in text
    end(service, claim, costing("0.25 USD"))
    assert costs(lost) == [quarter, quarter, None, None]


def test_a_deleted_schedule_leaves_no_reports(service: Service) -> None:
    made = of_agent(service.admin, owner="ada")
    ran(service, triggered(service.admin, made)["id"], costing("1 USD"))
    assert service.admin.call("DELETE", f"/schedules/{made['id']}/").status == 204
    with store_of(service.runtime).ledger._store.read() as tx:
        assert tx.schedule_costs([made["id"]]) == {}
