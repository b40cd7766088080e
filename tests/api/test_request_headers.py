"""http targets: headers that frame a request or belong to its connection are refused, whoever gives them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from everwhen import Scheduler
from everwhen.config.read import Host, read_configuration
from everwhen.engine.running import run_of
from everwhen.errors import ConfigError, SchedulerError, TimetableError
from everwhen.model.addresses import is_public
from everwhen.model.outcome import Outcome
from everwhen.model.schedule import Target
from everwhen.targets.http import HttpTarget
from everwhen.targets.http_exchange import HttpSessions, SessionKey
from tests.api.serving import Client, Service, serving
from tests.api.working import claimed, triggered
from tests.submissions import Submission, create_schedule
from tests.targets.http_server import NOW, a_server, kept_open

REFUSED = [
    {"Transfer-Encoding": "chunked"},
    {"transfer_encoding": "chunked"},
    {"Content-Length": "0"},
    {"Connection": "keep-alive"},
    {"Keep-Alive": "timeout=5"},
    {"Proxy-Connection": "keep-alive"},
    {"Proxy-Authorization": "Basic eA=="},
    {"TE": "trailers"},
    {"Trailer": "X-After"},
    {"Upgrade": "h2c"},
    {"Expect": "100-continue"},
    {"X-Own": "a\r\nEvil: 1"},
    {"X-Own": "a\nEvil: 1"},
    {"X-Own: 1\r\nEvil": "1"},
    {"Transfer-Encoding ": "chunked"},
    {"": "1"},
]


def a_request(headers: dict[str, Any]) -> dict[str, Any]:
    return {"http": {"url": "https://example.com/run", "headers": headers}}


@pytest.mark.parametrize("headers", REFUSED, ids=str)
def test_a_header_of_the_connection_is_refused_by_every_call(
    service: Service, headers: dict[str, Any]
) -> None:
    fields = {"every": "1h", "run": a_request(headers)}
    there = service.admin.create()
    for answer in (
        service.admin.post("/schedules/", fields),
        service.admin.call("PUT", "/schedules/key/framing/", fields),
        service.admin.patch(f"/schedules/{there['id']}/", {"run": fields["run"]}),
    ):
        assert answer.status == 422, answer.raw
        (fault,) = answer.fields["errors"]
        assert fault["path"].startswith("run.http.headers")
    (result,) = service.admin.post("/schedules/batch/", {"schedules": [fields]}).fields["items"]
    assert result["problem"]["status"] == 422


@pytest.mark.parametrize("headers", REFUSED[:1] + REFUSED[-5:], ids=str)
def test_a_file_and_a_program_are_refused_as_well(tmp_path: Path, headers: dict[str, Any]) -> None:
    file = tmp_path / "everwhen.yaml"
    for section in (
        {"schedules": [{"id": "a", "every": "1h", "run": a_request(headers)}]},
        {"workflows": {"1": {"run": a_request(headers)}}},
        {"messages": {"subscribers": [{"id": "inbox", **a_request(headers)}]}},
        {"notify": [{"on": ["schedule.died"], **a_request(headers)}]},
    ):
        file.write_text(json.dumps(section))
        with pytest.raises(ConfigError, match=r"http\.headers"):
            read_configuration(file, Host({}, lambda: "UTC", 0))
    with Scheduler("sqlite://") as scheduler, pytest.raises(SchedulerError, match="headers"):
        scheduler.add("a", every="1h", run=a_request(headers))


def test_a_target_that_is_handed_over_whole_is_refused_as_well(service: Service) -> None:
    target = Target("http", json.dumps(a_request({"Content-Length": "0"})["http"]))
    with pytest.raises(TimetableError, match="Content-Length"):
        create_schedule(service.runtime, Submission("whole", {"every": "1h"}, target))


def test_headers_of_the_request_itself_are_taken(service: Service) -> None:
    headers = {"Authorization": "Bearer x", "Host": "inside.example", "X_Team": "blue", "X-N": 1}
    assert service.admin.create(run=a_request(headers))["run"]["http"]["headers"]["X-N"] == 1


@pytest.mark.parametrize(
    "url", ["https://example.com/a\rb", "https://example.com/a\nb", "https://e.com/\x7f"]
)
def test_a_url_with_a_control_character_is_refused(service: Service, url: str) -> None:
    answer = service.admin.post("/schedules/", {"every": "1h", "run": {"http": {"url": url}}})
    assert (answer.status, answer.fields["errors"][0]["path"]) == (422, "run.http.url")


# -- connections --


def run_all(service: Service, schedules: list[tuple[Client, dict[str, Any]]]) -> list[Outcome]:
    """One job of each, one after another, by one target, as a worker has it."""
    claims = [claimed(service, triggered(client, schedule)["id"]) for client, schedule in schedules]

    async def run() -> list[Outcome]:
        target = HttpTarget(lambda: NOW, allow_private_urls=True)
        try:
            return [await target.run(claim.definition.target.spec, run_of(claim)) for claim in claims]
        finally:
            await target.close()

    return asyncio.run(run())


def test_a_connection_is_used_again_but_not_for_another_owner(tmp_path: Path) -> None:
    with serving(tmp_path, allow_private_urls=True) as service, a_server(kept_open) as server:
        one, other = service.client(owner="team-a"), service.client(owner="team-b")
        request = {"http": {"url": f"{server.url}/run"}}
        clients = [one, one, other, one]
        outcomes = run_all(service, [(client, client.create(run=request)) for client in clients])
        assert [outcome.status for outcome in outcomes] == ["succeeded"] * 4
        assert len(server.seen) == 2


def test_connections_of_many_owners_are_not_kept_for_ever() -> None:
    async def use() -> None:
        sessions = HttpSessions(is_public, most=1)
        async with sessions.session(SessionKey("team-a", True)) as of_a:
            async with sessions.session(SessionKey("team-b", True)) as of_b:
                assert of_a is not of_b
            assert of_b.closed and not of_a.closed
        async with sessions.session(SessionKey("team-a", True)) as again:
            assert again is of_a
        await sessions.close()
        assert of_a.closed

    asyncio.run(use())
