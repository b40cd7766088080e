"""The budgets of groups and owners refuse what agents cause by themselves, and warn people (O5, BG5)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from click.testing import CliRunner
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from everwhen.cli.main import everwhen as command
from everwhen.model.cost import Cost
from everwhen.model.outcome import Outcome
from everwhen.operations.maintenance import prove
from everwhen.testing.manual import ManualClock
from tests.api.serving import Client as RestClient
from tests.api.serving import Service, serving
from tests.api.working import NODE, end, ran
from tests.mcp.lineage import Lineage
from tests.mcp.test_stdio import parameters

MONDAY = "2026-11-16T08:10:00Z"
REFILL = 15 * 3_600 + 3_000  # seconds, until midnight
OVER_MCP = {"Everwhen-Client": "mcp"}
AGENT = {"agent": {"name": "bot", "prompt": "[]"}}
FILE = """
agents: {bot: {command: ["true"], max_concurrent: 9}, other: {command: ["true"]}}
budgets:
  bot: {fires_per_day: 2}
  owner:ada: {cost_per_day: 1 USD, cost_per_run: 0.6 USD}
  owner:bob: {fires_per_day: 1}
  other: {fires_per_day: 1}
"""


@pytest.fixture(params=["sqlite", "postgres"])
def service(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Service]:
    url = request.getfixturevalue("postgres_url") if request.param == "postgres" else None
    with serving(tmp_path, file=FILE, url=url, clock=ManualClock(MONDAY)) as found:
        yield found
        assert prove(found.runtime).is_clean


def later(client: RestClient, **fields: Any) -> str:
    more = {"every": "1h", "first_run": "after_interval", "if_running": "allow", "run": AGENT}
    return str(client.create(**{**more, **fields})["id"])


def test_an_agent_is_refused_where_a_person_is_warned(service: Service) -> None:
    person = service.client()
    schedule = later(person)
    path = f"/schedules/{schedule}/trigger/"
    job = person.post(path, headers=OVER_MCP).fields["job"]["id"]
    ran(service, job)
    within = person.post(path, headers=OVER_MCP)
    assert (within.status, within.fields["warnings"]) == (202, [])
    refused = person.post(path, headers=OVER_MCP)
    assert (refused.status, refused.problem) == (429, "too-many-requests")
    assert refused.headers["retry-after"] == str(REFILL)
    assert refused.fields["detail"].startswith("the group bot has reached its limit of firings")
    assert person.post(f"/jobs/{job}/rerun/", headers=OVER_MCP).status == 429
    assert person.get(f"/jobs/?schedule_id={schedule}").fields["total"] == 2
    for call in (path, f"/jobs/{job}/rerun/"):
        passed = person.post(call)
        (warning,) = passed.fields["warnings"]
        assert passed.status == 202
        assert warning.startswith("this run exceeds the budget of the group bot, fires_per_day 2; ")
        assert warning.endswith("until Tue 2026-11-17 00:00:00 UTC")


def test_a_backfill_of_an_agent_counts_each_slot(service: Service) -> None:
    clock = service.runtime.clock
    assert isinstance(clock, ManualClock)
    schedule = later(service.admin, every=None, cron="0 * * * *", first_run=None)
    clock.advance("5h")
    span = {"from": "2026-11-16T09:00:00Z", "to": "2026-11-16T12:00:00Z"}
    path = f"/schedules/{schedule}/backfill/"
    refused = service.admin.post(path, span, headers=OVER_MCP)
    assert refused.status == 403 and "the group bot may cause 2 in a window" in refused.fields["detail"]
    passed = service.admin.post(path, span).fields
    assert (passed["count"], len(passed["warnings"])) == (3, 1)


def test_the_cost_of_an_owner_binds_an_agent(service: Service) -> None:
    ada = service.client(owner="ada")
    body = {
        "every": "1d",
        "first_run": "after_interval",
        "if_running": "allow",
        "run": {"message": {"text": "x"}},
    }
    path = f"/schedules/{ada.post('/schedules/', body).fields['id']}/trigger/"
    assert ada.post(path, headers=OVER_MCP).status == 202
    refused = ada.post(path, headers=OVER_MCP)
    assert refused.status == 429 and "the owner ada has reached its limit of cost" in refused.fields["detail"]
    (warning,) = ada.post(path).fields["warnings"]
    assert "the budget of the owner ada, cost_per_day 1 USD" in warning


def test_a_run_is_bound_by_the_budget_of_its_group(service: Service) -> None:
    clock = service.runtime.clock
    assert isinstance(clock, ManualClock)
    lineage = Lineage(service, clock, "bot", {"approval": "none", "min_interval": "1s"})
    lineage.begin()
    client = lineage.runs[0].client
    path = f"/schedules/{later_of_run(client)}/trigger/"
    assert (
        client.post(path).status == 202
    )  # the second firing of the day: the first one is that of the person
    lineage.wait(2)
    refused = client.post(path)
    assert refused.status == 429 and "the group bot" in refused.fields["detail"]
    seen = client.get("/budgets/").fields["items"]
    assert [(one["kind"], one["name"]) for one in seen] == [("group", "bot"), ("token", "a run of bot")]
    lineage.end_all()


def later_of_run(client: RestClient) -> str:
    answer = client.post("/schedules/", {"after": "1h", "run": AGENT})
    assert answer.status == 201, answer.raw
    return str(answer.fields["id"])


def test_a_caller_learns_which_budgets_bind_it(service: Service) -> None:
    ada = service.client(owner="ada", fires_per_day=7)

    def names(client: RestClient) -> list[tuple[str, str]]:
        items = client.get("/budgets/?binding=true").fields["items"]
        return [(one["kind"], one["name"]) for one in items]

    assert names(ada) == [("owner", "ada"), ("token", "operator ada")]
    groups = [("group", "bot"), ("group", "other"), ("owner", "ada"), ("owner", "bob")]
    assert names(service.admin) == groups
    assert names(service.client(fires_per_day=7)) == [*groups, ("token", "operator None")]


def test_what_was_reported_and_what_is_estimated_are_two_figures(service: Service) -> None:
    ada = service.client(owner="ada")
    body = {
        "every": "1d",
        "first_run": "after_interval",
        "if_running": "allow",
        "run": {"http": {"url": "https://a.b"}},
    }
    path = f"/schedules/{ada.post('/schedules/', body).fields['id']}/trigger/"

    def figures() -> tuple[float, float, float]:
        (budget,) = ada.get("/budgets/").fields["items"]
        (limit,) = budget["limits"]
        return limit["used"], limit["reported"], limit["estimated"]

    jobs = [ada.post(path).fields["job"]["id"] for _ in range(3)]
    assert figures() == (1.8, 0, 1.8)
    slots, now = service.runtime.slots, service.runtime.clock.now()
    slots.heartbeat(now, node=NODE, version="1", is_scheduler=False)
    claims = {claim.job.job_id: claim for claim in slots.claim_jobs(now, node=NODE, limit=10)}
    end(service, claims[jobs[0]], Outcome("succeeded", cost=Cost(250_000, "USD")))
    end(service, claims[jobs[1]])
    assert figures() == (1.45, 0.25, 1.2)
    end(service, claims[jobs[2]], Outcome("succeeded", cost=Cost(50_000, "USD")))
    assert figures() == (0.9, 0.3, 0.6)


def test_the_command_line_warns(tmp_path: Path) -> None:
    with serving(tmp_path, file=FILE) as service:
        schedule = later(service.admin)
        options = ["--url", service.url, "--token", str(service.admin.secret)]
        arguments = ["schedules", "trigger", schedule, *options]
        found = [CliRunner().invoke(command, arguments) for _ in range(3)]
        assert [one.exit_code for one in found] == [0, 0, 0]
        assert "warning" not in found[1].output
        assert "warning: this run exceeds the budget of the group bot" in found[2].output


# -- over MCP, to a real server --


@asynccontextmanager
async def over_stdio(service: Service, folder: Path) -> AsyncIterator[Client]:
    server = parameters(folder, "--url", service.url, "--token", str(service.admin.secret))
    async with Client(server) as client:
        yield client


@asynccontextmanager
async def over_stdio_on_the_database(service: Service, folder: Path) -> AsyncIterator[Client]:
    path = folder / "mcp.yaml"
    path.write_text(f"service: {{database: 'sqlite:///{folder}/api.db'}}\n{FILE}")
    server = parameters(folder, "--config", str(path), "--token", str(service.admin.secret))
    async with Client(server) as client:
        yield client


@asynccontextmanager
async def over_http(service: Service, _folder: Path) -> AsyncIterator[Client]:
    headers = {"authorization": f"Bearer {service.admin.secret}"}
    async with httpx2.AsyncClient(headers=headers, timeout=30) as carrier:
        transport = streamable_http_client(f"{service.url}/api/v1/mcp/", http_client=carrier)
        async with Client(transport) as client:
            yield client


@pytest.mark.parametrize("connect", [over_stdio, over_stdio_on_the_database, over_http])
def test_over_mcp_a_trigger_beyond_the_budget_is_refused_and_the_context_names_it(
    tmp_path: Path, connect: Callable[[Service, Path], Any]
) -> None:
    with serving(tmp_path, file=FILE, mcp=True) as service:
        schedule = later(service.admin)

        async def converse() -> tuple[list[Any], Any]:
            async with connect(service, tmp_path) as client:
                calls = [
                    await client.call_tool("trigger_schedule", {"id": schedule, "request_id": f"r{number}"})
                    for number in range(3)
                ]
                context = await client.call_tool("get_context", {})
                return calls, json.loads(context.content[0].text)

        calls, context = anyio.run(converse)
        assert [call.is_error for call in calls] == [False, False, True]
        text = calls[2].content[0].text
        assert "the group bot has reached its limit of firings" in text and "do not try again at once" in text
        first = context["budgets"][0]
        assert (first["of"], first["name"]) == ("group", "bot")
        (limit,) = first["limits"]
        assert (limit["limit"], limit["used"], limit["most"], limit["left"]) == ("fires_per_day", 2, 2, 0)
        (ada,) = [one for one in context["budgets"] if one["name"] == "ada"]
        assert ada["limits"][0] == {
            "limit": "cost_per_day",
            "most": "1 USD",
            "left": "1 USD",
            "reported": "0 USD",
            "estimated": "0 USD",
            "refills_at": ada["limits"][0]["refills_at"],
        }
        assert service.admin.get(f"/jobs/?schedule_id={schedule}").fields["total"] == 2
        assert service.admin.post(f"/schedules/{schedule}/trigger/").status == 202
