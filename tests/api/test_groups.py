"""Whose work a token may have run: groups of its owner and shared ones; all others are not there (X9)."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from everwhen.engine.running import run_of
from everwhen.engine.ticker import end_pauses
from everwhen.model.outcome import Outcome
from everwhen.operations.groups import UNUSABLE, invalidate_unusable, restore_valid_schedules
from everwhen.operations.maintenance import prove
from everwhen.store.opened import store_of
from everwhen.targets.plugin import PluginTarget
from everwhen.targets.plugin_folders import PluginFolders
from everwhen.testing.manual import ManualClock
from tests.api.serving import Answer, Client, Service, around_of, configuration_of, serving
from tests.api.working import NODE, claimed, end, triggered
from tests.targets.plugins import put_plugin
from tests.targets.running import perform

WORKFLOW = 'run: {http: {url: "http://127.0.0.1:9/run"}}'
FILE = """
plugins:
  pl-theirs: {owner: team-a, config: {token: "${TOKEN_OF_A:-x}"}}
  pl-nobodys: {}
  pl-ours: {owner: team-b}
  pl-shared: {owner: team-a, shared: true, queue: slow, circuit_breaker: {threshold: 1}, max_outstanding: 2, max_concurrent: 3, timeouts: {poll: 60s}}
agents:
  ag-theirs: {owner: team-a, command: ["true"]}
  ag-nobodys: {command: ["true"]}
  ag-ours: {owner: team-b, command: ["true"], circuit_breaker: {threshold: 1}}
  ag-shared: {owner: team-a, shared: true, command: ["true"], queue: slow, circuit_breaker: {threshold: 1}, max_outstanding: 2, max_concurrent: 3, timeout: 60s}
workflows:
  wf-theirs: {owner: team-a, run: {http: {url: "http://127.0.0.1:9/run"}}}
  wf-nobodys: {run: {http: {url: "http://127.0.0.1:9/run"}}}
  wf-ours: {owner: team-b, run: {http: {url: "http://127.0.0.1:9/run"}}}
  wf-shared: {owner: team-a, shared: true, run: {http: {url: "http://127.0.0.1:9/run"}}, queue: slow, circuit_breaker: {threshold: 1}, max_outstanding: 2, max_concurrent: 3, timeout: 60s}
  "9001": {owner: team-a, run: {http: {url: "http://127.0.0.1:9/run"}}}
  "9002": {run: {http: {url: "http://127.0.0.1:9/run"}}}
"""  # noqa: E501
PLUGINS = ("pl-theirs", "pl-nobodys", "pl-ours", "pl-shared")
FORMS: dict[str, Any] = {
    "plugin": lambda name: {"run": {"plugin": {"name": f"pl-{name}"}}},
    "agent": lambda name: {"run": {"agent": {"name": f"ag-{name}"}}},
    "workflow": lambda name: {"run": {"workflow": {"id": f"wf-{name}"}}},
    "workflow_id": lambda name: {"workflow_id": f"wf-{name}"},
    "a number": lambda name: {"workflow_id": {"theirs": 9001, "nobodys": 9002}.get(name, 9007)},
}
forms = pytest.mark.parametrize("form", FORMS)
kinds = pytest.mark.parametrize("form", [form for form in FORMS if form != "a number"])


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("groups")
    put_plugins(folder)
    with serving(folder, file=FILE) as found:
        yield found


def put_plugins(folder: Path) -> None:
    for name in PLUGINS:
        put_plugin(folder / "plugins", name=name)


def all_ways(client: Client, fields: dict[str, Any], key: str) -> Iterator[Answer]:
    """Every call that would make something run this."""
    mine, body = client.create()["id"], {"every": "1h", **fields}
    client.call("PUT", f"/schedules/key/{key}/", {"every": "1h", "run": {"message": {"text": "x"}}})
    yield client.post("/schedules/", body)
    yield client.post("/schedules/", {**body, "owner": "team-b"})
    yield client.post("/schedules/", body, headers={"Idempotency-Key": key})
    yield client.call("PUT", f"/schedules/key/{key}-new/", body)
    yield client.call("PUT", f"/schedules/key/{key}/", body)
    yield client.patch(f"/schedules/{mine}/", fields)
    yield client.patch(f"/schedules/{mine}/", {**fields, "name": "x", "circuit_breaker": {"threshold": 1}})
    yield client.post("/schedules/batch/", {"schedules": [body, {**body, "owner": "team-b"}]})


# Names that nobody has, as far from those that there are: the answer to a name suggests the nearest.
UNKNOWN = {"theirs": "thoirs", "nobodys": "nobodyx"}


@forms
@pytest.mark.parametrize("role", ["operator", "admin"])
@pytest.mark.parametrize("whose", ["theirs", "nobodys"])
def test_what_belongs_to_another_or_to_nobody_is_like_what_is_not_there(
    service: Service, form: str, whose: str, role: Any
) -> None:
    client = service.client(role, owner="team-b")
    found, unknown = (
        [
            (answer.status, _without(answer, fields))
            for answer in all_ways(client, fields, f"{form.replace(' ', '-')}-{role}-{name}")
        ]
        for name, fields in ((name, FORMS[form](name)) for name in (whose, UNKNOWN[whose]))
    )
    assert found == unknown
    assert {status for status, _ in found} <= {404, 422, 200} and [status for status, _ in found].count(
        200
    ) == 1
    assert all(item.get("workflow_id") is None for item in client.get("/schedules/").fields["items"])
    assert all(item["group"] is None for item in client.get("/schedules/").fields["items"])


def _without(answer: Answer, fields: dict[str, Any]) -> str:
    """An answer without the name that was asked for."""
    (name,) = _names(fields)
    return answer.raw.decode().replace(name, "NAME")


def _names(fields: Any) -> list[str]:
    if isinstance(fields, dict):
        return [name for value in fields.values() for name in _names(value)]
    return [str(fields)]


@kinds
def test_groups_of_the_owner_and_shared_ones_are_there(service: Service, form: str) -> None:
    client = service.client(owner="team-b")
    for whose in ("ours", "shared"):
        for answer in all_ways(client, FORMS[form](whose), f"{form}-{whose}"):
            if answer.status == 422:  # only the breaker of a shared one
                assert whose == "shared"
                assert answer.fields["errors"][0]["path"] == "circuit_breaker"
                continue
            assert answer.status in (200, 201), answer.raw
            fields = answer.fields
            assert fields.get("failed", 0) == 0
            assert fields.get("owner", "team-b") == "team-b"


@kinds
def test_what_runs_a_group_belongs_to_its_owner(service: Service, form: str) -> None:
    theirs, admin = FORMS[form]("theirs"), service.admin
    assert admin.create(**{"run": None, **theirs})["owner"] == "team-a"
    answer = admin.post("/schedules/", {"every": "1h", **theirs, "owner": "team-b"})
    assert (answer.status, answer.fields["errors"][0]["path"]) == (422, "owner")
    made = admin.create(owner="team-b")
    answer = admin.patch(f"/schedules/{made['id']}/", theirs)
    assert (answer.status, answer.fields["errors"][0]["path"]) == (422, "owner")
    # Whoever has no owner may give what is nobody's to somebody, who then does not reach it.
    given = admin.create(**{"run": None, **FORMS[form]("nobodys")}, owner="team-b")
    client, path = service.client(owner="team-b"), f"/schedules/{given['id']}"
    assert client.get(f"{path}/").status == 200
    assert client.post(f"{path}/trigger/").status == 404
    assert client.post(f"{path}/pause/").status == 200
    assert client.post(f"{path}/resume/").status == 404
    assert client.patch(f"{path}/", {"name": "x"}).status in (404, 422)
    assert client.call("DELETE", f"{path}/").status == 204


@kinds
@pytest.mark.parametrize(
    "fields",
    [
        {"circuit_breaker": {"threshold": 9}},
        {"circuit_breaker": False},
        {"max_outstanding": 0},
        {"max_concurrent": 9},
        {"queue": "fast"},
        {"on_lost": "fail"},
        {"timeout": "61s"},
        {"timeout": 0},
        {"timeout_seconds": 3600},
    ],
)
def test_on_a_shared_group_its_words_count(service: Service, form: str, fields: dict[str, Any]) -> None:
    client, (key,) = service.client(owner="team-b"), fields
    body = {"every": "1h", **FORMS[form]("shared")}
    made = client.post("/schedules/", body).fields
    for answer in (
        client.post("/schedules/", {**body, **fields}),
        client.patch(f"/schedules/{made['id']}/", fields),
    ):
        assert (answer.status, [error["path"] for error in answer.fields["errors"]]) == (422, [key])
    # Its owner says for it what an owner may say: no timeout above api.max_timeout.
    expected = 422 if fields == {"timeout": 0} else 201
    assert service.client(owner="team-a").post("/schedules/", {**body, **fields}).status == expected
    changed = client.patch(f"/schedules/{made['id']}/", {"name": "x", "timeout": "30s"})
    assert changed.status == 200
    assert (changed.fields["queue"], changed.fields["timeout"]) == ("slow", "30s")


@kinds
def test_a_tenant_has_a_breaker_and_a_guard_of_its_own_and_capacity_is_common(
    service: Service, form: str
) -> None:
    body = {"every": "1h", **FORMS[form]("shared")}
    rules = {}
    for owner in ("team-a", "team-b"):
        made = service.client(owner=owner).post("/schedules/", body).fields
        schedule = service.runtime.catalogue.get(made["id"])
        assert schedule is not None
        definition = schedule.definition
        assert definition.breaker and definition.guard and definition.capacity
        rules[owner] = (definition.breaker.key, definition.guard.key, definition.capacity.key)
        if owner == "team-b":
            assert definition.timeout == 60_000_000
            renamed = service.client(owner=owner).patch(f"/schedules/{made['id']}/", {"name": "x"}).fields
            assert renamed["revision"] == 2 and renamed["circuit_breaker"] == made["circuit_breaker"]
    a, b = rules["team-a"], rules["team-b"]
    assert b == (f"{a[0]}@team-b", f"{a[1]}@team-b", a[2])


COUNTS = f"""#!{sys.executable}
import json, sys
seen = json.load(sys.stdin)["state"].get("seen", 0) + 1
print(json.dumps({{"status": "ok", "result": str(seen), "state_updates": {{"seen": seen}}}}))
"""


def test_a_tenant_of_a_shared_plugin_has_a_memory_of_its_own(tmp_path: Path) -> None:
    put_plugins(tmp_path)
    put_plugin(tmp_path / "plugins", name="pl-shared", program=COUNTS)
    with serving(tmp_path, file=FILE) as service:
        a, b = service.client(owner="team-a"), service.client(owner="team-b")
        target = PluginTarget(PluginFolders([tmp_path / "plugins"]), service.runtime.catalogue.plugin_state)
        made = {client: client.create(**{"run": None, **FORMS["plugin"]("shared")}) for client in (a, b)}

        def seen(client: Client) -> str | None:
            job = triggered(client, made[client])
            claim = claimed(service, job["id"])
            outcome = perform(target, json.loads(claim.definition.target.spec), run_of(claim))
            end(service, claim, outcome)
            return outcome.result

        assert [seen(client) for client in (a, a, b, a, b)] == ["1", "2", "1", "3", "2"]
        # An edit leaves it with what it remembers.
        assert b.patch(f"/schedules/{made[b]['id']}/", {"name": "x"}).fields["run"] == made[b]["run"]
        assert seen(b) == "3"


def test_a_plugin_that_becomes_shared_keeps_its_memory_from_those_who_used_it(tmp_path: Path) -> None:
    put_plugins(tmp_path)
    with serving(tmp_path, file=FILE) as service:
        run = {"run": None, **FORMS["plugin"]("nobodys")}
        made = service.admin.create(**run, owner="team-b", max_outstanding=0, circuit_breaker=False)
        shared = configuration_of(tmp_path, FILE.replace("pl-nobodys: {}", "pl-nobodys: {shared: true}"))
        assert invalidate_unusable(service.runtime, shared.groups) == [made["id"]]


def test_the_failures_of_a_tenant_open_its_own_breaker_alone(tmp_path: Path) -> None:
    put_plugins(tmp_path)
    with serving(tmp_path, file=FILE, clock=ManualClock("2026-11-17T08:00:00Z")) as service:
        a, b = service.client(owner="team-a"), service.client(owner="team-b")
        run = {"agent": {"name": "ag-shared"}}
        b.create(run=run)
        runtime = store_of(service.runtime)
        runtime.slots.tick(runtime.clock.now(), limit=10, behind=False)
        runtime.slots.heartbeat(runtime.clock.now(), node=NODE, version="1", is_scheduler=False)
        (claim,) = runtime.slots.claim_jobs(runtime.clock.now(), node=NODE, limit=10)
        end(service, claim, Outcome("failed", error="on purpose"))
        (breaker,) = b.get("/breakers/").fields["items"]
        assert (breaker["key"], breaker["state"]) == ("ag-shared@team-b", "open")
        assert breaker["probes_at"] > breaker["opened_at"]  # as the group says
        assert a.get("/breakers/").fields["items"] == []
        assert a.get("/breakers/ag-shared@team-b/").status == 404
        made = a.create(run=run)
        runtime.slots.tick(runtime.clock.now(), limit=10, behind=False)
        assert a.get(f"/jobs/?schedule_id={made['id']}").fields["total"] == 1
        assert b.post("/breakers/ag-shared@team-b/reset/").fields["state"] == "closed"


def test_what_the_file_gives_an_owner_of_a_group_without_one_is_not_triggered_by_that_owner(
    tmp_path: Path,
) -> None:
    file = """
agents: {bot: {command: ["true"]}, mine: {command: ["true"], owner: team-b, schedules: {s: {interval: 1h}}}}
schedules: [{id: given, every: 1h, owner: team-b, run: {agent: {name: bot}}}]
"""
    with serving(tmp_path, file=file) as service:
        client = service.client(owner="team-b")
        assert client.get("/schedules/given/").status == 200
        assert client.post("/schedules/given/trigger/").status == 404
        assert client.post("/schedules/mine.s/trigger/").status == 202
        assert service.admin.post("/schedules/given/trigger/").status == 202
        # Agents of a program are not in the file: what a program declares belongs to whom it says.
        around = around_of(configuration_of(tmp_path, "{}"), service.runtime)
        service.context.rules = lambda: around
        assert client.post("/schedules/mine.s/trigger/").status == 202


def test_nobody_approves_what_runs_a_group_that_is_not_there_for_them(tmp_path: Path) -> None:
    put_plugins(tmp_path)
    with serving(tmp_path, file=FILE) as service:
        asking, approving = (
            service.client(owner="team-b", approval="required"),
            service.client(owner="team-b"),
        )
        made = asking.create(run={"agent": {"name": "ag-ours"}})
        file = FILE.replace("owner: team-b", "owner: team-a")
        around = around_of(configuration_of(tmp_path, file), service.runtime)
        service.context.rules = lambda: around
        path = f"/schedules/{made['id']}"
        assert approving.post(f"{path}/approve/", {"revision": 1}).status == 404
        assert approving.post(f"{path}/resume/", headers={"If-Match": '"1"'}).status == 404
        assert approving.post(f"{path}/decline/", {"note": "not ours"}).status == 204


GONE = "".join(line for line in FILE.splitlines(keepends=True) if "-ours:" not in line)


@kinds
def test_a_group_that_went_to_another_owner_is_like_one_that_is_gone(tmp_path: Path, form: str) -> None:
    put_plugins(tmp_path)
    with serving(tmp_path, file=FILE, clock=ManualClock("2026-11-17T08:00:00Z")) as service:
        client = service.client(owner="team-b")
        made = client.create(**{"run": None, **FORMS[form]("ours")}, first_run="after_interval")
        path, group = f"/schedules/{made['id']}", made["group"]
        job = client.post(f"{path}/trigger/").fields["job"]["id"]
        client.post(f"/jobs/{job}/cancel/")
        answers = []
        for file in (FILE.replace("owner: team-b", "owner: team-a"), GONE):
            around = around_of(configuration_of(tmp_path, file), service.runtime)
            service.context.rules = lambda around=around: around  # type: ignore[misc]
            calls = [
                client.post(f"{path}/trigger/"),
                client.post(
                    f"{path}/backfill/", {"from": "2026-11-17T07:00:00Z", "to": "2026-11-17T08:00:00Z"}
                ),
                client.post(f"/jobs/{job}/rerun/"),
                client.post(f"/hooks/{made['id']}/"),
                client.post(f"{path}/revive/"),
                client.patch(f"{path}/", {"name": "another"}),
                client.patch(f"{path}/", FORMS[form]("ours")),
            ]
            assert [one.status for one in calls[:5]] == [404] * 5
            answers.append([(one.status, one.raw) for one in calls])
            assert service.client("operator").post(f"{path}/trigger/").status == 202
        assert answers[0] == answers[1]
        # What is its own is still there to be stopped, and no list tells of the group.
        around = around_of(configuration_of(tmp_path, FILE.replace("team-b", "team-a")), service.runtime)
        service.context.rules = lambda: around
        assert client.get(f"{path}/").status == 200
        for listed in (
            f"/schedules/?group={group}",
            f"/jobs/?group={group}",
            f"/schedules/?workflow_id={group}",
        ):
            assert client.get(listed).fields == client.get(listed.replace(group, "unknown")).fields
        assert client.get(f"/agents/{group}/schedules/").raw == client.get("/agents/unknown/schedules/").raw
        enable = f"/agents/{group}/schedules/{made['id']}/enable/"
        assert client.post(enable).raw == client.post(enable.replace(group, "unknown")).raw
        assert client.post(f"{path}/pause/").status == 200


@kinds
@pytest.mark.parametrize("whose", ["team-a", "nobody"])
def test_a_stored_schedule_of_a_group_that_its_owner_may_not_use_is_invalid(
    tmp_path: Path, form: str, whose: str
) -> None:
    """As one is after the upgrade, or when a group goes to another owner."""
    put_plugins(tmp_path)
    with serving(tmp_path, file=FILE) as service:
        client, admin = service.client(owner="team-b"), service.admin
        ours = {"run": None, **FORMS[form]("ours")}
        made, kept = client.create(**ours), admin.create(**{**ours, **FORMS[form]("nobodys")}, owner="team-b")
        before = configuration_of(tmp_path, FILE)
        new_owner = "owner: team-a" if whose == "team-a" else "timezone: UTC"
        after = configuration_of(tmp_path, FILE.replace("owner: team-b", new_owner))
        assert invalidate_unusable(service.runtime, before.groups) == []
        assert invalidate_unusable(service.runtime, after.groups) == [made["id"]]
        found = client.get(f"/schedules/{made['id']}/").fields
        assert found["status"] == "invalid" and found["next_run_at"] is None
        assert found["status_reason"].startswith(UNUSABLE) and "team-a" not in found["status_reason"]
        assert client.get(f"/schedules/{kept['id']}/").fields["status"] == "active"
        # Nobody who does not know the group, and finds no other fault, brings it back.
        for groups in ({}, after.groups):
            assert restore_valid_schedules(service.runtime, lambda *_: None, partial(dict, groups)) == []
        assert restore_valid_schedules(service.runtime, lambda *_: None, lambda: before.groups) == [
            made["id"]
        ]


def test_a_group_that_becomes_shared_takes_its_own_limits_back(tmp_path: Path) -> None:
    put_plugins(tmp_path)
    file = FILE.replace("ag-ours: {owner: team-b", "ag-ours: {owner: team-c, shared: true")
    with serving(tmp_path, file=FILE) as service:
        client = service.client(owner="team-b")
        run = {"agent": {"name": "ag-ours"}}
        made = client.create(run=run, circuit_breaker={"threshold": 5})
        configuration = configuration_of(tmp_path, file)
        assert invalidate_unusable(service.runtime, configuration.groups) == [made["id"]]
        around = around_of(configuration, service.runtime)
        service.context.rules = lambda: around
        found = client.patch(f"/schedules/{made['id']}/", {"name": "mine"}).fields
        assert (found["status"], found["circuit_breaker"]["threshold"]) == ("active", 1)
        assert invalidate_unusable(service.runtime, configuration.groups) == []


def test_a_pause_does_not_end_by_itself_where_the_group_went_to_another_owner(tmp_path: Path) -> None:
    put_plugins(tmp_path)
    clock = ManualClock("2026-11-17T08:00:00Z")
    with serving(tmp_path, file=FILE, clock=clock) as service:
        client = service.client(owner="team-b")
        made = client.create(run={"agent": {"name": "ag-ours"}}, first_run="after_interval")
        client.post(f"/schedules/{made['id']}/pause/", {"until": "2026-11-17T08:10:00Z"})
        after = configuration_of(tmp_path, FILE.replace("owner: team-b", "owner: team-a"))
        assert invalidate_unusable(service.runtime, after.groups) == [made["id"]]
        clock.advance(timedelta(hours=1))
        assert end_pauses(service.runtime) == 0
        found = client.get(f"/schedules/{made['id']}/").fields
        assert (found["status"], found["paused_by"]) == ("paused", "token")
        assert found["status_reason"].startswith(UNUSABLE)
        assert invalidate_unusable(service.runtime, after.groups) == []
        assert prove(service.runtime).is_clean
