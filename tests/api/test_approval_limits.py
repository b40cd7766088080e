"""The forms of the limit `approval`: what waits, what passes, and what goes when nobody answers (AP1, AP3)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from everwhen.cli.main import everwhen
from everwhen.model.instants import DAY, HOUR, SECOND
from everwhen.operations.approval import expire_unanswered
from everwhen.operations.maintenance import prove
from everwhen.testing.manual import ManualClock
from tests.api.serving import HTTP_RUN, Client, Service, serving
from tests.servers.everwhen_database import PostgresDatabase

ACCEPTED: dict[str, str] = {"Everwhen-Approval": "accepted"}
ONCE: dict[str, Any] = {"every": None, "after": "20m"}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock("2026-01-05T08:00:00Z")


@pytest.fixture
def service(tmp_path: Path, clock: ManualClock) -> Iterator[Service]:
    with serving(tmp_path, clock=clock) as found:
        yield found
        assert prove(found.runtime).is_clean


def made(client: Client, headers: dict[str, str] | None = None, **fields: Any) -> dict[str, Any]:
    body = {"every": "1h", "run": HTTP_RUN, **fields}
    answer = client.call("POST", "/schedules/", body, headers=headers)
    assert answer.status == 201, answer.raw
    found: dict[str, Any] = answer.fields
    return found


def stands(fields: dict[str, Any]) -> tuple[str, str | None]:
    return fields["status"], fields["paused_by"]


WAITS, FIRES = ("paused", "approval"), ("active", None)


@pytest.mark.parametrize(
    ("approval", "recurring", "once", "accepted"),
    [
        ("none", FIRES, FIRES, FIRES),
        ("ask", WAITS, WAITS, FIRES),
        ("recurring", WAITS, FIRES, WAITS),
        ("required", WAITS, WAITS, WAITS),
    ],
)
def test_what_waits_depends_on_the_limit(
    service: Service, approval: str, recurring: object, once: object, accepted: object
) -> None:
    agent = service.client(approval=approval)
    assert stands(made(agent)) == recurring
    assert stands(made(agent, **ONCE)) == once
    assert stands(made(agent, ACCEPTED)) == accepted


def test_an_accepted_schedule_says_that_its_person_was_asked(service: Service) -> None:
    found = made(service.client(approval="ask"), ACCEPTED)
    (event,) = service.admin.get("/audit/?type=schedule.approved").fields["items"]
    assert (event["schedule_id"], event["detail"]) == (found["id"], {"of_revision": 1, "asked": True})


def test_a_one_shot_that_becomes_recurring_waits(service: Service) -> None:
    agent = service.client(approval="recurring")
    found = made(agent, **ONCE)
    later = agent.patch(f"/schedules/{found['id']}/", {"after": "40m"}).fields
    assert stands(later) == FIRES
    assert stands(agent.patch(f"/schedules/{found['id']}/", {"every": "1h"}).fields) == WAITS
    # And does not get out of it by becoming a one-shot again.
    assert stands(agent.patch(f"/schedules/{found['id']}/", {"after": "1h"}).fields) == WAITS


def test_every_form_keeps_a_token_from_approving_and_from_its_own_payload(service: Service) -> None:
    other = made(service.client(approval="required"))
    for approval in ("ask", "recurring", "required"):
        agent = service.client(approval=approval)
        answer = agent.post(f"/schedules/{other['id']}/approve/", {"revision": 1})
        assert (answer.status, answer.problem) == (403, "forbidden")
        mine = made(service.admin)
        answer = agent.post(f"/schedules/{mine['id']}/trigger/", {"payload": {"to": "an enemy"}})
        assert answer.status == 403


def test_those_that_wait_can_be_listed(service: Service) -> None:
    waiting = made(service.client(approval="required"), description="Tell me the news.")
    active = made(service.admin)
    service.admin.post(f"/schedules/{made(service.admin)['id']}/pause/")
    found = service.admin.get("/schedules/?waiting=true").fields
    assert ([one["id"] for one in found["items"]], found["total"]) == ([waiting["id"]], 1)
    args = ["schedules", "list", "--waiting", "--json", "--url", service.url, "--token", service.admin.secret]
    shown = CliRunner().invoke(everwhen, [str(arg) for arg in args])
    assert waiting["id"] in shown.output and active["id"] not in shown.output
    (event,) = service.admin.get("/audit/?type=schedule.approval_requested").fields["items"]
    assert event["detail"]["purpose"] == "Tell me the news."


def unanswered(service: Service, clock: ManualClock) -> None:
    agent = service.client(approval="required")
    old, edited, answered = made(agent), made(agent), made(agent)
    clock.advance(6 * DAY // SECOND)
    agent.patch(f"/schedules/{edited['id']}/", {"every": "2h"})
    service.admin.post(f"/schedules/{answered['id']}/approve/", {"revision": 1})
    assert expire_unanswered(service.runtime, ttl=7 * DAY) == 0
    clock.advance((DAY + HOUR) // SECOND)
    assert expire_unanswered(service.runtime, ttl=7 * DAY) == 1
    left = {one["id"] for one in service.admin.get("/schedules/").fields["items"]}
    assert left == {edited["id"], answered["id"]}
    (event,) = service.admin.get("/audit/?type=schedule.expired").fields["items"]
    assert event["schedule_id"] == old["id"] and event["actor"] is None
    assert event["detail"] == {"of_revision": 1, "waited_since": "2026-01-05T08:00:00+00:00"}


def test_what_nobody_answers_goes_after_its_time(service: Service, clock: ManualClock) -> None:
    unanswered(service, clock)


def test_on_postgresql_too(tmp_path: Path, everwhen_on_18: PostgresDatabase, clock: ManualClock) -> None:
    with serving(tmp_path, url=everwhen_on_18.empty(), clock=clock) as service:
        unanswered(service, clock)


# -- created once, by a key --


def put(client: Client, key: str = "report", **fields: Any) -> Any:
    body = {"every": "1h", "run": HTTP_RUN, **fields}
    return client.call("PUT", f"/schedules/key/{key}/", body, headers={"If-None-Match": "*"})


def test_only_a_new_key_is_created(service: Service) -> None:
    first = put(service.admin, name="Report")
    assert first.status == 201
    same = put(service.admin, name="Another name")
    assert (same.status, same.problem) == (412, "exists")
    assert "errors" not in same.fields and first.fields["id"] in same.fields["detail"]
    other = put(service.admin, every="2h", payload={"a": 1})
    assert [fault["path"] for fault in other.fields["errors"]] == ["every", "payload"]
    assert other.fields["errors"][0]["message"] == 'is "1h" there, and "2h" in this request'
    stored = service.admin.get("/schedules/key/report/").fields
    assert (stored["id"], stored["revision"], stored["every"]) == (first.fields["id"], 1, "1h")


def test_the_same_delay_is_the_same_schedule(service: Service, clock: ManualClock) -> None:
    assert put(service.admin, **ONCE).status == 201
    clock.advance(60)
    again = put(service.admin, **ONCE)
    assert (again.status, again.fields.get("errors")) == (412, None)
    assert [fault["path"] for fault in put(service.admin, every=None, after="30m").fields["errors"]] == [
        "after"
    ]


def test_what_is_over_gives_up_its_key(service: Service, clock: ManualClock) -> None:
    first = put(service.admin, **ONCE).fields
    clock.advance(21 * 60)
    service.runtime.slots.tick(service.runtime.clock.now(), limit=500, behind=True)
    second = put(service.admin, **ONCE)
    assert second.status == 201 and second.fields["id"] != first["id"]
    assert service.admin.get(f"/schedules/{first['id']}/").fields["key"] is None


def test_if_none_match_is_a_star(service: Service) -> None:
    answer = service.admin.call(
        "PUT", "/schedules/key/report/", {"every": "1h", "run": HTTP_RUN}, headers={"If-None-Match": '"1"'}
    )
    assert (answer.status, answer.problem) == (422, "invalid")
