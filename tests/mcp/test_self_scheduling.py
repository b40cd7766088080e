"""Runs of agents that schedule: their token reaches what runs made, ends with the job, and goes only so deep."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest

from everwhen.engine.service import ServiceOptions
from everwhen.model.instants import HOUR, SECOND
from everwhen.model.token import NO_LIMITS, Confinement
from everwhen.operations.agent_runs import NOT_AGAIN, QUOTED, AgentRuns
from everwhen.operations.maintenance import prove
from everwhen.operations.tokens import create_job_token, find_token
from everwhen.target_registry import open_target_registry
from everwhen.wiring import build_service, open_stack
from tests.api.serving import Client, Service, serving
from tests.mcp.talking import Tools

# An agent that does what the last line of its prompt says: calls of the API, each with what came back. On `wait` it
# leaves its token where the test finds it, and waits to be ended.
AGENT = """
import json, os, sys, time, urllib.error, urllib.request
prompt = sys.stdin.read()
calls, done = json.loads(prompt.splitlines()[-1]), []
for method, path, body in calls:
    if method == "wait":
        with open(path + ".new", "w") as file:
            json.dump({name: os.environ.get(name) for name in body}, file)
        os.replace(path + ".new", path)
        time.sleep(600)
    request = urllib.request.Request(
        os.environ["EVERWHEN_URL"] + "/api/v1" + path, method=method, data=json.dumps(body).encode() if body else None,
        headers={"Authorization": "Bearer " + os.environ["EVERWHEN_TOKEN"], "Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            done.append([answer.status, json.loads(answer.read() or b"null")])
    except urllib.error.HTTPError as error:
        done.append([error.code, json.loads(error.read())])
print(json.dumps({"prompt": prompt, "done": done, "config": json.load(open(os.environ["EVERWHEN_MCP_CONFIG"]))}))
"""
LATER: dict[str, Any] = {"name": "Later", "after": "1h", "run": {"agent": {"name": "bot", "prompt": "[]"}}}
PATIENCE = 60.0
T = TypeVar("T")
SETTINGS: dict[str, Any] = {}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service, and a node that runs its jobs."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "agent.py").write_text(AGENT)
    command = json.dumps([sys.executable, str(folder / "agent.py")])
    agent = f"{{command: {command}, max_concurrent: 4}}"
    owned = f"{{command: {command}, owner: ada}}"
    with serving(folder, file=f"agents: {{bot: {agent}, other: {agent}, owned: {owned}}}") as found:
        stack = open_stack(f"sqlite:///{folder}/api.db")
        runs = AgentRuns(stack.runtime, SETTINGS.get, lambda: found.url)
        registry = open_target_registry(stack.runtime, max_workers=4, agent_runs=runs)
        node = build_service(
            stack, ServiceOptions(check_interval=0.1, max_workers=4), target_registry=registry
        )
        node.start()
        try:
            yield found
        finally:
            node.stop(wait_for_jobs=False)
            stack.close()
        assert prove(found.runtime).is_clean


@pytest.fixture(autouse=True)
def settings(service: Service) -> dict[str, Any]:
    """What runs of the agent may do; and nothing is there of what other tests made."""
    for one in service.admin.get("/schedules/?limit=500").fields["items"]:
        service.admin.call("DELETE", f"/schedules/{one['id']}/?cancel=true")
    SETTINGS.clear()
    SETTINGS["bot"] = {}
    found: dict[str, Any] = SETTINGS["bot"]
    return found


def eventually(look: Callable[[], T | None]) -> T:
    """What a look finds, as soon as it finds something."""
    waited = threading.Event()
    for _ in range(int(PATIENCE / 0.05)):
        if (found := look()) is not None:
            return found
        waited.wait(0.05)
    raise AssertionError("it did not happen")


UNKNOWN = "00000000-0000-7000-8000-000000000000"
PARTS = ("", "why/", "slots/", "revisions/", "stats/", "upcoming/")


def ended(service: Service, job_id: str) -> dict[str, Any]:
    """A job that is over."""

    def look() -> dict[str, Any] | None:
        fields: dict[str, Any] = service.admin.get(f"/jobs/{job_id}/").fields
        return None if fields["status"] in ("queued", "running") else fields

    return eventually(look)


def printed(service: Service, job_id: str) -> dict[str, Any]:
    """What the agent printed; it arrives a moment after the job has ended."""
    assert ended(service, job_id)["status"] == "succeeded"

    def look() -> str | None:
        answer = service.admin.call("GET", f"/jobs/{job_id}/log/", headers={"Accept": "text/plain"})
        return answer.raw.decode() or None

    found: dict[str, Any] = json.loads(eventually(look).splitlines()[-1])
    return found


def started(service: Service, calls: list[Any], schedule_id: str | None = None, agent: str = "bot") -> str:
    """A run of the agent that makes these calls; of a schedule of a person unless another is named."""
    prompt = json.dumps(calls)
    if schedule_id is None:
        run = {"agent": {"name": agent, "prompt": prompt}}
        schedule_id = service.admin.create(every=None, after="1h", run=run)["id"]
    else:
        change = {"run": {"agent": {"name": "bot", "prompt": prompt}}}
        assert service.admin.patch(f"/schedules/{schedule_id}/", change).status == 200
    answer = service.admin.post(f"/schedules/{schedule_id}/trigger/")
    job_id: str = answer.fields["job"]["id"]
    return job_id


def run(service: Service, calls: list[Any], schedule_id: str | None = None) -> dict[str, Any]:
    """What a run printed, after it has ended well."""
    job_id = started(service, calls, schedule_id)
    return {"job_id": job_id, **printed(service, job_id)}


def test_a_run_schedules_its_own_agent_and_the_record_says_so(service: Service) -> None:
    theirs = service.admin.create(name="Of a person")
    gone = service.admin.create(name="Of a person, too")["id"]
    service.admin.call("DELETE", f"/schedules/{gone}/")
    assert service.admin.get(f"/schedules/{gone}/why/").status == 200
    calls = [
        ["POST", "/schedules/", LATER],
        ["POST", "/schedules/", {**LATER, "run": {"agent": {"name": "other"}}}],
        ["POST", "/schedules/", {**LATER, "run": {"message": {"text": "x"}}}],
        ["POST", "/schedules/", {**LATER, "max_concurrent": 99, "owner": "ada"}],
        ["GET", "/schedules/", None],
        ["GET", f"/schedules/{theirs['id']}/", None],
        ["DELETE", f"/schedules/{theirs['id']}/", None],
        ["GET", "/jobs/", None],
        ["GET", "/me/", None],
        ["GET", "/audit/", None],
        ["POST", "/tokens/", {"name": "more"}],
        ["POST", f"/schedules/{theirs['id']}/approve/", {"revision": 1}],
        ["GET", f"/find/?schedule={theirs['id']}", None],
        ["GET", "/find/?beginning=", None],
        *(["GET", f"/schedules/{one}/{part}", None] for one in (gone, UNKNOWN) for part in PARTS),
    ]
    found = run(service, calls)
    of_gone, of_unknown = found["done"][14 : 14 + len(PARTS)], found["done"][14 + len(PARTS) :]
    del found["done"][14:]
    assert [status for status, _ in of_gone] == [status for status, _ in of_unknown]
    assert {status for status, _ in of_gone} == {403, 404}
    assert "Of a person" not in json.dumps(of_gone)
    statuses = [status for status, _ in found["done"]]
    assert statuses[0] == 201 and statuses[1] in (403, 404, 422) and statuses[2] == 403
    assert statuses[3:] == [422, 200, 404, 404, 200, 200, 403, 403, 403, 200, 200]
    assert [fault["path"] for fault in found["done"][3][1]["errors"]] == ["max_concurrent", "owner"]
    made = found["done"][0][1]
    assert (made["created_by"], made["created_in_job"], made["depth"]) == (
        "token:agent:bot",
        found["job_id"],
        1,
    )
    assert [one["id"] for one in found["done"][4][1]["items"]] == [made["id"]]
    assert found["done"][7][1]["items"] == []
    assert found["done"][12][1]["items"] == []
    assert [one["id"] for one in found["done"][13][1]["items"]] == [made["id"]]
    me = found["done"][8][1]
    assert (me["targets"]["agents"], me["targets"]["kinds"]) == (["bot"], ["agent"])
    assert (me["left"]["schedules"], me["approval"]) == (4, "recurring")
    assert (me["limits"]["min_interval"], me["limits"]["ttl"]) == (600, 7 * 86_400)
    server = found["config"]["mcpServers"]["everwhen"]
    assert server["args"] == ["-m", "everwhen", "mcp"] and server["env"]["EVERWHEN_URL"] == service.url
    # What repeats waits for a person, who sees it and may approve it.
    hourly = {**LATER, "after": None, "every": "1h"}
    (status, waiting), (_, often) = run(
        service, [["POST", "/schedules/", hourly], ["POST", "/schedules/", {**hourly, "every": "1m"}]]
    )["done"]
    assert (status, waiting["paused_by"]) == (201, "approval")
    assert often["detail"].startswith("this token may not create schedules that fire more often")
    assert service.admin.post(f"/schedules/{waiting['id']}/approve/", {"revision": 1}).status == 200


def test_a_run_of_an_owners_agent_reaches_no_more(service: Service) -> None:
    SETTINGS["owned"] = {}
    ada = service.client(owner="ada")
    hers = ada.create(run={"agent": {"name": "owned"}})
    later = {**LATER, "run": {"agent": {"name": "owned", "prompt": "[]"}}}
    calls = [
        ["POST", "/schedules/", later],
        ["GET", "/schedules/", None],
        ["GET", f"/schedules/{hers['id']}/", None],
    ]
    made, listed, refused = printed(service, started(service, calls, agent="owned"))["done"]
    assert (made[0], made[1]["owner"], made[1]["created_by"]) == (201, "ada", "token:agent:owned@ada")
    assert [one["id"] for one in listed[1]["items"]] == [made[1]["id"]]
    assert refused[0] == 404
    assert ada.get(f"/schedules/{made[1]['id']}/").status == 200


def test_runs_of_what_a_run_made_make_nothing(service: Service, settings: dict[str, Any]) -> None:
    first = run(service, [["POST", "/schedules/", LATER]])["done"][0][1]
    (refused,) = run(service, [["POST", "/schedules/", LATER]], first["id"])["done"]
    assert refused[0] == 403 and "runs make none beyond depth 1" in refused[1]["detail"]
    settings["max_depth"] = 2
    ((status, second),) = run(service, [["POST", "/schedules/", LATER]], first["id"])["done"]
    assert (status, second["depth"]) == (201, 2)
    (again,) = run(service, [["POST", "/schedules/", LATER]], second["id"])["done"]
    assert again[0] == 403


def test_a_run_that_arms_itself_again_comes_to_its_end(service: Service, settings: dict[str, Any]) -> None:
    """Twelve runs in forty seconds: each changed its own one-shot to a second later."""
    settings |= {"max_schedules": 1, "min_interval": "10m", "max_depth": 1}
    soon = {**LATER, "after": "1s"}
    again = [
        ["PUT", "/schedules/key/loop/", soon],
        ["POST", "/schedules/", soon],
        ["PUT", "/schedules/key/other/", soon],
    ]
    prompt = {"agent": {"name": "bot", "prompt": json.dumps(again)}}
    first = run(service, [["PUT", "/schedules/key/loop/", {**soon, "run": prompt}]])["done"][0]
    assert first[0] == 201
    schedule_id = first[1]["id"]

    def fired() -> str | None:
        items = service.admin.get(f"/jobs/?schedule_id={schedule_id}").fields["items"]
        return items[0]["id"] if items else None

    refused = printed(service, eventually(fired))["done"]
    assert [status for status, _ in refused] == [403] * 3
    assert all("runs make none beyond depth 1" in fields["detail"] for _, fields in refused)
    # Nor does the next run of what the person made, neither by a change nor with another schedule.
    calls = [
        ["PATCH", f"/schedules/{schedule_id}/", {"after": "1s"}],
        ["POST", f"/schedules/{schedule_id}/trigger/", {}],
        ["DELETE", f"/schedules/{schedule_id}/", None],
        ["POST", "/schedules/", soon],
    ]
    done = run(service, calls)["done"]
    assert [status for status, _ in done] == [403, 429, 204, 403]
    assert "min_interval allows it from" in done[0][1]["detail"]
    assert "of the one that it replaces" in done[3][1]["detail"]


def test_all_runs_of_an_agent_share_its_limits(service: Service, settings: dict[str, Any]) -> None:
    settings |= {"max_schedules": 2}
    calls = [["POST", "/schedules/", LATER]] * 2
    assert [status for status, _ in run(service, calls)["done"]] == [201, 201]
    (refused,) = run(service, calls[:1])["done"]
    assert refused[0] == 403 and "2 schedules" in refused[1]["detail"]


def waiting_run(service: Service, folder: Path) -> tuple[str, Client, Path]:
    """A run that waits, and a client with its token."""
    place = folder / "environment"
    job_id = started(service, [["wait", str(place), ["EVERWHEN_TOKEN", "EVERWHEN_MCP_CONFIG"]]])
    eventually(lambda: place.exists() or None)
    variables = json.loads(place.read_text())
    return (
        job_id,
        replace(service.admin, secret=variables["EVERWHEN_TOKEN"]),
        Path(variables["EVERWHEN_MCP_CONFIG"]),
    )


def test_the_token_ends_with_its_job(service: Service, tmp_path: Path) -> None:
    job_id, client, config = waiting_run(service, tmp_path)
    assert client.get("/me/").fields["name"] == "a run of bot"
    assert (config.stat().st_mode & 0o777, config.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    for asking in (client, replace(client, secret=None)):  # a session would outlast the job
        session = asking.post("/session/", {"token": client.secret})
        assert (session.status, session.problem) == (403, "forbidden")
        assert "set-cookie" not in session.headers
    service.admin.post(f"/jobs/{job_id}/cancel/")
    assert client.get("/me/").status == 401
    assert ended(service, job_id)["status"] == "cancelled"
    assert client.get("/me/").status == 401
    eventually(lambda: None if config.exists() else True)


def test_a_run_approves_nothing_whatever_the_file_says_since(
    service: Service, settings: dict[str, Any], tmp_path: Path
) -> None:
    ((_, waiting),) = run(service, [["POST", "/schedules/", {**LATER, "after": None, "every": "1h"}]])["done"]
    settings["approval"] = "none"
    job_id, client, _ = waiting_run(service, tmp_path)
    path, match = f"/schedules/{waiting['id']}", {"If-Match": '"1"'}
    assert client.call("POST", f"{path}/resume/", headers=match).status == 403
    assert client.call("PATCH", f"{path}/", {"enabled": True}, headers=match).status == 403
    assert service.admin.get(f"{path}/").fields["paused_by"] == "approval"
    service.admin.post(f"/jobs/{job_id}/cancel/")


def test_a_token_is_that_of_one_attempt_and_of_its_deadline(service: Service, tmp_path: Path) -> None:
    job_id, client, _ = waiting_run(service, tmp_path)
    found = find_token(service.runtime, str(client.secret))
    assert found is not None and found.expires_at is not None
    assert (
        0 < (found.expires_at - service.runtime.clock.now()) / SECOND <= 3_600
    )  # the deadline of an agent's run
    confined = Confinement("bot", job_id, 1, 1)
    for attempt, is_good in ((1, True), (2, False)):  # a rescue is another attempt of the same job
        secret = create_job_token(
            service.runtime, confined, attempt=attempt, owner=None, limits=NO_LIMITS, lasts=HOUR
        )
        assert (find_token(service.runtime, secret) is not None) == is_good
    service.admin.post(f"/jobs/{job_id}/cancel/")


def test_an_agent_that_may_not_schedule_gets_no_token(service: Service, tmp_path: Path) -> None:
    SETTINGS.clear()
    place = tmp_path / "environment"
    job_id = started(
        service, [["wait", str(place), ["EVERWHEN_TOKEN", "EVERWHEN_URL", "EVERWHEN_MCP_CONFIG"]]]
    )
    eventually(lambda: place.exists() or None)
    assert set(json.loads(place.read_text()).values()) == {None}
    service.admin.post(f"/jobs/{job_id}/cancel/")


def test_a_run_of_what_was_made_over_mcp_begins_with_a_header(service: Service) -> None:
    tools = Tools(service, service.admin)
    made = tools(
        "create_schedule", name="Plants", purpose="The plants live.", after="1h", agent="bot", prompt="[]"
    )
    job_id = service.admin.post(f"/schedules/{made['id']}/trigger/").fields["job"]["id"]
    prompt = printed(service, job_id)["prompt"].splitlines()
    assert prompt[:3] == [QUOTED, 'Schedule: "Plants"', 'Purpose: "The plants live."']
    assert [line.partition(":")[0] for line in prompt[3:5]] == ["Scheduled for", "Now"]
    assert "Last success: never" in prompt and prompt[-3:] == [NOT_AGAIN, "", "[]"]
    # One of a person has none.
    assert run(service, [["GET", "/me/", None]])["prompt"].startswith("[[")
