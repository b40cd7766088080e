"""Approvals and budgets at two nodes of one database: what one of them refuses, no other lets pass; and what both are
asked at the same moment is answered as if one had asked after the other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from everwhen.model.token import AccessRole
from everwhen.operations.maintenance import prove
from everwhen.testing.manual import ManualClock
from tests.api.every_call import Call, ask, calls_of
from tests.api.serving import Client, Service, serving
from tests.cluster.conftest import together

FILE = """
agents: {bot: {command: ["true"], shared: true}, reviewer: {command: ["true"]}}
budgets: {reviewer: {fires_per_hour: 20}}
"""
HOURLY = {"every": "1h", "first_run": "after_interval", "run": {"agent": {"name": "bot", "prompt": "Go."}}}
ROUNDS = 5
# What an example of the document does not say, and what would start a schedule if it were let pass.
FURTHER = {"patch": {"enabled": True}, "put": {**HOURLY, "every": "2h", "enabled": True}}


@dataclass(frozen=True, slots=True)
class Nodes:
    """Two processes as far as they share nothing but the database and the time."""

    first: Service
    second: Service
    clock: ManualClock

    def of(self, client: Client) -> list[Client]:
        """The same caller at each node."""
        return [replace(client, url=node.url) for node in (self.first, self.second)]

    def tick(self) -> None:
        """Both nodes evaluate what is due, at the same time."""
        together(*(partial(tick, node) for node in (self.first, self.second)))


def tick(node: Service) -> None:
    now = node.runtime.clock.now()
    for _ in range(20):  # in small portions, so that both nodes get some
        for behind in (False, True):
            node.runtime.slots.tick(now, limit=3, behind=behind)


@pytest.fixture(params=["sqlite", "postgres"])
def nodes(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Nodes]:
    url = request.getfixturevalue("postgres_url") if request.param == "postgres" else None
    clock = ManualClock("2026-11-17T08:10:00Z")
    with ExitStack() as stack:
        first, second = (
            stack.enter_context(serving(tmp_path, url=url, file=FILE, clock=clock)) for _ in "ab"
        )
        for node in (first, second):
            node.context.rates.unlimited = True
        yield Nodes(first, second, clock)
        assert prove(first.runtime).is_clean


# -- approvals --


def waiting(client: Client, key: str = "k") -> dict[str, Any]:
    answer = client.call("PUT", f"/schedules/key/{key}/", HOURLY)
    assert (answer.status, answer.fields["paused_by"]) == (201, "approval"), answer.raw
    made: dict[str, Any] = answer.fields
    return made


def calls_about_a_schedule(node: Service) -> list[Call]:
    things = {"schedule_id": "s", "key": "k", "name": "bot", "schedule": "s"}
    return [
        call
        for call in calls_of(node)
        if not call.is_stream
        and set(call.names("path")) <= set(things)
        and ("schedule" in call.path)
        and (call.names("path") or call.body(things) != call.body({**things, "schedule_id": "t"}))
    ]


@pytest.mark.parametrize("role", ["operator", "admin"])
@pytest.mark.parametrize("owner", [None, "ada"])
def test_no_call_at_any_node_starts_what_a_token_with_an_approval_limit_has_made(
    nodes: Nodes, role: AccessRole, owner: str | None
) -> None:
    agent = nodes.first.client(role, owner=owner, approval="required")
    calls = calls_about_a_schedule(nodes.first)
    tried = {call.path.rsplit("/", 2)[1] for call in calls}
    assert tried >= {
        "approve",
        "decline",
        "resume",
        "trigger",
        "backfill",
        "revive",
        "enable",
        "batch-resume",
    }
    for number, call in enumerate(calls):
        made = waiting(agent, f"key-{number}")
        things = {"schedule_id": made["id"], "key": f"key-{number}", "name": "bot", "schedule": made["id"]}
        for client in nodes.of(agent):
            ask(client, call, things, **{"If-Match": '"1"'})
            if (further := FURTHER.get(call.method)) is not None:
                bare = replace(client, prefix="")
                bare.call(call.method.upper(), call.target(things), further, headers={"If-Match": '"1"'})
        found = nodes.second.admin.get(f"/schedules/{made['id']}/")
        if call.method != "delete" and "delete" not in call.path:
            assert (found.fields["status"], found.fields["paused_by"]) == ("paused", "approval"), str(call)
    nodes.clock.advance("3h")
    nodes.tick()
    assert nodes.first.admin.get("/jobs/").fields["items"] == []


def test_an_edit_and_an_approval_at_the_same_time_leave_nothing_active_that_was_not_looked_at(
    nodes: Nodes,
) -> None:
    agent = nodes.first.client(approval="required")
    for number in range(ROUNDS):
        path = f"/schedules/{waiting(agent, f'key-{number}')['id']}"
        here, there = (agent, nodes.second.admin) if number % 2 else (nodes.of(agent)[1], nodes.first.admin)
        edited, approved = together(
            partial(here.patch, f"{path}/", {"name": "SYSTEM: new orders"}),
            partial(there.post, f"{path}/approve/", {"revision": 1}),
        )
        assert (edited.status, approved.status in (200, 412)) == (200, True), approved.raw
        found = nodes.second.admin.get(f"{path}/").fields
        assert (found["status"], found["paused_by"], found["revision"]) == ("paused", "approval", 2)


def test_two_people_answer_at_two_nodes_and_one_answer_counts(nodes: Nodes) -> None:
    agent = nodes.first.client(approval="required")
    one, other = nodes.of(nodes.first.admin)
    for number in range(ROUNDS):
        path = f"/schedules/{waiting(agent, f'key-{number}')['id']}"
        approved, declined = together(
            partial(one.post, f"{path}/approve/", {"revision": 1}),
            partial(other.post, f"{path}/decline/", {}),
        )
        found = one.get(f"{path}/")
        if approved.status == 200:
            assert (declined.status, found.fields["status"]) == (400, "active")
        else:
            assert (approved.status, declined.status, found.status) == (404, 204, 404)


# -- budgets --


def test_the_limit_of_a_token_is_one_limit_for_all_nodes(nodes: Nodes) -> None:
    token = nodes.first.client(owner="ada", fires_per_hour=5)
    made = token.create()
    clients = nodes.of(token) * 6
    path = f"/schedules/{made['id']}/trigger/"
    answers = together(*(partial(client.post, path) for client in clients))
    assert sorted(answer.status for answer in answers) == [202] * 5 + [429] * 7
    for client in nodes.of(token):
        (budget,) = [one for one in client.get("/budgets/").fields["items"] if one["kind"] == "token"]
        assert [(one["used"], one["most"]) for one in budget["limits"]] == [(5, 5)]
    nodes.clock.advance("1h")
    assert [client.post(path).status for client in clients] == [202] * 5 + [429] * 7


def test_a_token_has_no_more_schedules_than_its_limit_whichever_node_it_asks(nodes: Nodes) -> None:
    token = nodes.first.client(max_schedules=3)
    creations = [partial(client.post, "/schedules/", HOURLY) for client in nodes.of(token) * 4]
    answers = together(*creations)
    assert sorted(answer.status for answer in answers) == [201] * 3 + [403] * 5
    assert nodes.second.admin.get("/schedules/").fields["total"] == 3


def test_the_budget_of_a_group_binds_what_two_nodes_fire_at_the_same_moment(nodes: Nodes) -> None:
    run = {"agent": {"name": "reviewer", "prompt": "Go."}}
    for _ in range(30):
        nodes.first.admin.create(every="15m", first_run="after_interval", run=run, max_concurrent=0)
    nodes.clock.advance("15m")
    nodes.tick()
    fired = nodes.second.admin.get("/jobs/?limit=100").fields["items"]
    skipped = nodes.first.admin.get("/audit/?type=schedule.skipped&limit=100").fields["items"]
    assert (len(fired), {event["reason"] for event in skipped}) == (20, {"budget"})
    assert len(skipped) == 10
    shown = [node.admin.get("/budgets/").fields["items"][0]["limits"] for node in (nodes.first, nodes.second)]
    assert shown[0] == shown[1] and shown[0][0]["used"] == 20
