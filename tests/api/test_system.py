"""The installation as a whole over REST: status, the switch, agents, the configuration file."""

from __future__ import annotations

from pathlib import Path

import pytest

from everwhen.api.hosting import NodeHooks
from everwhen.api.payloads import model_of
from everwhen.config.read import Host, read_configuration
from everwhen.model.declare import Declarations
from everwhen.model.queries import EventFilter
from everwhen.operations.apply import Applied, reload
from everwhen.operations.system import LoopFigures
from everwhen.testing.manual import ManualClock
from everwhen.views.system import Diff, SystemStatus
from tests.api.serving import Service, serving
from tests.api.working import triggered

AGENTS = """
agents:
  bot:
    command: [true]
    schedules: {check: {type: interval, interval: 5m}, ask: {type: chat}}
  other: {command: [true], owner: ada, schedules: {own: {type: interval, interval: 5m}}}
"""


def test_the_status_tells_loop_queue_nodes_and_what_comes_next(tmp_path: Path) -> None:
    with serving(tmp_path) as service:
        fields = service.admin.get("/system/status/").fields
        model_of(SystemStatus).model_validate(fields)
        assert (fields["status"], fields["check_count"], fields["next"], fields["lag"]) == (
            "stopped",
            None,
            None,
            0,
        )
        made = service.admin.create(first_run="after_interval")
        triggered(service.admin, made)
        now = service.runtime.clock.now()
        service.runtime.slots.heartbeat(now, node="n1", version="7", is_scheduler=True)
        fields = service.admin.get("/system/status/").fields
        assert fields["status"] == "running" and fields["queue"] == {"queued": 1, "running": 0}
        assert fields["next"] == {
            "schedule_id": made["id"],
            "timezone": made["timezone"],
            "next_run_at": made["next_run_at"],
        }
        (node,) = fields["nodes"]
        assert (node["id"], node["version"], node["role"], node["is_alive"]) == ("n1", "7", "up", True)
        assert fields["schedules"] == {"active": 1} and fields["breakers"] == []
        service.context.node_hooks = NodeHooks(figures=lambda: LoopFigures("stopping", now, 3, 2, now))
        fields = service.admin.get("/system/status/").fields
        assert (fields["status"], fields["check_count"], fields["trigger_count"]) == ("stopping", 3, 2)


def test_what_is_behind_shows_as_lag(tmp_path: Path) -> None:
    clock = ManualClock("2026-01-05T08:00:00Z")
    with serving(tmp_path, clock=clock) as service:
        service.admin.create()
        clock.advance("30s")
        fields = service.admin.get("/system/status/").fields
        assert (fields["lag"], fields["overdue"]) == (30, 0)
        clock.advance("60s")
        fields = service.admin.get("/system/status/").fields
        assert (fields["lag"], fields["overdue"]) == (90, 1)
        service.admin.post("/system/pause/")
        fields = service.admin.get("/system/status/").fields
        assert (fields["is_paused"], fields["lag"], fields["overdue"]) == (True, 0, 0)


def test_everything_stops_and_goes_on(tmp_path: Path) -> None:
    with serving(tmp_path) as service:
        service.admin.create()
        paused = service.admin.post("/system/pause/").fields
        assert paused["is_paused"] and paused["paused_at"] is not None
        assert service.admin.post("/system/pause/").fields == paused  # since then, not since now
        assert service.runtime.slots.tick(service.runtime.clock.now(), limit=10, behind=False).fired == 0
        assert paused["paused_by_name"] == "admin"
        resumed = service.admin.post("/system/resume/").fields
        assert resumed == {"is_paused": False, "paused_at": None, "paused_by_name": None}
        switched = EventFilter(types=["system.resumed", "system.paused"])
        types = [one.event.type for one in service.runtime.ledger.events(switched, limit=9)]
        assert types == ["system.resumed", "system.paused"]


@pytest.mark.parametrize(
    ("method", "path", "role"),
    [
        ("GET", "/system/status/", "viewer"),
        ("POST", "/system/pause/", "operator"),
        ("POST", "/system/resume/", "operator"),
        ("POST", "/config/diff/", "admin"),
        ("POST", "/config/reload/", "admin"),
    ],
)
def test_the_system_is_for_tokens_without_an_owner(
    service: Service, method: str, path: str, role: str
) -> None:
    assert service.client("admin", owner="ada").call(method, path).status == 403
    if role != "viewer":
        assert service.client("viewer").call(method, path).status == 403
    if role == "admin":
        assert service.client("operator").call(method, path).status == 403
    assert service.nobody.call(method, path).status == 401


# -- agents --


def test_the_schedules_of_an_agent_are_listed_and_switched_by_name(tmp_path: Path) -> None:
    with serving(tmp_path, file=AGENTS) as service:
        listed = service.admin.get("/agents/bot/schedules/").fields
        assert {item["id"] for item in listed["items"]} == {"bot.check", "bot.ask"} and listed["total"] == 2
        path = "/agents/bot/schedules/check"
        off = service.admin.post(f"{path}/disable/")
        assert (off.status, off.fields["status"], off.fields["paused_by"]) == (200, "paused", "token")
        again = service.admin.post(f"{path}/disable/")
        assert again.fields["detail"] == "Cannot pause job with status 'paused'."
        assert service.admin.post(f"{path}/enable/").fields["status"] == "active"
        assert service.admin.post("/agents/bot/schedules/bot.check/disable/").status == 200
        assert service.client("viewer").post(f"{path}/enable/").status == 403
        for unknown in ("/agents/nobody/schedules/", "/agents/other/schedules/check/enable/"):
            method = "GET" if unknown.endswith("schedules/") else "POST"
            assert service.admin.call(method, unknown).status == 404


def test_an_agent_of_somebody_else_is_not_there(tmp_path: Path) -> None:
    with serving(tmp_path, file=AGENTS) as service:
        ada, bob = service.client(owner="ada"), service.client(owner="bob")
        assert [item["id"] for item in ada.get("/agents/other/schedules/").fields["items"]] == ["other.own"]
        assert ada.get("/agents/bot/schedules/").status == 404
        answers = [bob.get(f"/agents/{name}/schedules/") for name in ("other", "unknown")]
        assert answers[0].status == 404 and answers[0].raw == answers[1].raw
        assert bob.post("/agents/other/schedules/own/disable/").status == 404
        assert ada.post("/agents/other/schedules/own/disable/").status == 200


# -- the configuration --


def on_a_file(service: Service, path: Path) -> None:
    """The service has this file, as `everwhen api` has."""

    def read() -> Declarations:
        return read_configuration(path, Host({}, lambda: "UTC", service.runtime.clock.now())).declared

    def take(actor: str, *, may_remove_most: bool) -> Applied:
        return reload(service.runtime, read, actor=actor, may_remove_most=may_remove_most)

    service.context.node_hooks = NodeHooks(read, take)


def test_a_diff_tells_what_a_reload_then_does(tmp_path: Path) -> None:
    with serving(tmp_path, file="schedules: [{id: a, every: 1h, run: {message: {text: x}}}]") as service:
        file = tmp_path / "everwhen.yaml"
        on_a_file(service, file)
        assert service.admin.post("/config/diff/").fields == {"items": [], "total": 0, "sections": []}
        secret = "{http: {url: 'https://x.example/', headers: {Authorization: hunter2}}}"
        file.write_text(
            f"schedules: [{{id: a, every: 2h, run: {secret}}}, {{id: b, cron: '@daily', run: {secret}}}]"
        )
        found = service.admin.post("/config/diff/")
        model_of(Diff).model_validate(found.fields)
        assert [(item["schedule_id"], item["what"]) for item in found.fields["items"]] == [
            ("a", "changed"),
            ("b", "created"),
        ]
        assert "hunter2" not in found.raw.decode()
        done = service.admin.post("/config/reload/")
        assert (done.status, done.fields["created"], done.fields["changed"]) == (200, ["b"], ["a"])
        assert service.admin.post("/config/diff/").fields["items"] == []
        (event,) = service.runtime.ledger.events(EventFilter(types=["config.reloaded"]), limit=1)
        assert event.event.actor is not None and event.event.actor.startswith("token:")


def test_a_file_with_mistakes_is_refused_and_the_old_one_stays(tmp_path: Path) -> None:
    with serving(tmp_path, file="schedules: [{id: a, every: 1h, run: {message: {text: x}}}]") as service:
        on_a_file(service, tmp_path / "everwhen.yaml")
        (tmp_path / "everwhen.yaml").write_text("schedules: [{id: a, every: 5x}]")
        for path in ("/config/diff/", "/config/reload/"):
            answer = service.admin.post(path)
            assert (answer.status, answer.problem) == (422, "invalid")
            assert "everwhen.yaml:1" in answer.fields["detail"]
        assert service.admin.get("/schedules/a/").fields["every"] == "1h"


def test_removing_most_has_to_be_meant(tmp_path: Path) -> None:
    many = ", ".join(f"{{id: s{number}, every: 1h, run: {{message: {{text: x}}}}}}" for number in range(12))
    with serving(tmp_path, file=f"schedules: [{many}]") as service:
        on_a_file(service, tmp_path / "everwhen.yaml")
        (tmp_path / "everwhen.yaml").write_text("schedules: []")
        answer = service.admin.post("/config/reload/")
        assert (answer.status, answer.problem) == (409, "removes-most")
        assert len(service.admin.post("/config/reload/", {"yes": True}).fields["removed"]) == 12


def test_a_process_without_a_file_says_so(service: Service) -> None:
    for path in ("/config/diff/", "/config/reload/"):
        answer = service.admin.post(path)
        assert (answer.status, answer.problem) == (409, "conflict")
