"""Who may call what, tried for every call that the OpenAPI document tells of.

What is expected comes from the document: the roles of a call's `security`, which are the scopes that the server
enforces. So a call that is added is tried by itself. What may need a line here: THEIRS, when a call names things of
a new kind, and OPEN, when it needs no token.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from everwhen.model.instants import DAY, to_datetime
from everwhen.model.token import ROLES, AccessRole
from tests.api.browsing import BrowserSession
from tests.api.every_call import Call, ask, calls_of, thing
from tests.api.serving import Answer, Service, serving
from tests.api.working import FAILED, alerted, ran, said

# What needs no token: it asks for another proof, or tells nothing of anybody.
OPEN = {
    ("get", "/healthz"),
    ("get", "/readyz"),
    ("get", "/metrics"),
    ("post", "/api/v1/session/"),
    ("post", "/api/v1/session/link/"),
    ("post", "/api/v1/jobs/{job_id}/outcome/"),
}
# What the file declares for everybody who may look.
COMMON = {"policy_id"}
# What nobody else hears of, unless a call has named it.
IDS = {"schedule_id", "job_id", "key", "token_id"}
MARK = "only-team-a-knows-this"
NOBODYS = "nobody-has-this"
FILE = f"""
agents:
  theirs:
    owner: team-a
    command: ["true"]
    schedules: {{nightly: {{type: cron, cron: "0 2 * * *", prompt: "{MARK}"}}}}
quiet_hours: {{nights: {{windows: [{{between: "22:00-07:00"}}]}}}}
"""


@dataclass(frozen=True, slots=True)
class Scene:
    service: Service
    calls: list[Call]
    theirs: dict[str, str]


@pytest.fixture(scope="module", params=["sqlite", "two nodes on postgres"])
def scene(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """With two nodes, everything is made at one of them, and the other one is asked."""
    folder = tmp_path_factory.mktemp("calls")
    with ExitStack() as nodes:
        url = None
        if request.param != "sqlite":
            url = request.getfixturevalue("everwhen_on_18").empty()
        maker = nodes.enter_context(serving(folder, file=FILE, url=url))
        service = maker if url is None else nodes.enter_context(serving(folder, file=FILE, url=url))
        for node in (maker, service):
            node.context.lift_rates()
        calls = calls_of(service)
        assert len(calls) > 50
        yield Scene(service, calls, things_of(maker))


def things_of(service: Service) -> dict[str, str]:
    """One of each kind that a call can name, all of team-a's, with a mark in whatever they say."""
    team = service.client("admin", owner="team-a")
    loud = {"name": MARK, "description": MARK, "payload": {"said": MARK}, "circuit_breaker": {"threshold": 1}}
    schedule = team.create(**loud, run={"message": {"text": MARK}}, first_run="immediately", every="24h")
    broken = team.create(**loud, first_run="immediately", every="24h")
    key = team.call(
        "PUT", "/schedules/key/their-key/", {"every": "24h", "run": {"message": {"text": MARK}}, "name": MARK}
    )
    assert key.status == 201
    service.runtime.slots.tick(service.runtime.clock.now(), limit=100, behind=False)
    (job,) = team.get(f"/jobs/?schedule_id={broken['id']}").fields["items"]
    ran(service, job["id"], FAILED._replace(error=MARK))
    said(service, job["id"], MARK.encode())
    (breaker,) = [one for one in team.get("/breakers/").fields["items"] if one["state"] == "open"]
    token = team.post("/tokens/", {"name": MARK, "role": "viewer", "owner": "team-a"}).fields
    alerted(service, broken["id"])
    (alert,) = team.get("/alerts/").fields["items"]
    silence = team.post("/alerts/silences/", {"subject": broken["id"], "duration": "2h"}).fields
    webhook = team.post("/webhooks/", {"url": f"https://example.com/{MARK}"}).fields
    agent = service.client(owner="team-a", approval="required")
    waiting = agent.create(name=MARK, every=None, at="2099-01-01T00:00:00Z")  # reviewed alike at any time
    return {
        "schedule_id": schedule["id"],
        "schedule_id of /api/v1/schedules/{schedule_id}/review/": waiting["id"],
        "job_id": job["id"],
        "key of /api/v1/schedules/key/{key}/": "their-key",
        "key": breaker["key"],
        "name": "theirs",
        "schedule": "nightly",
        "group": "theirs",
        "token_id": token["id"],
        "policy_id": "nights",
        "alert_id": str(alert["id"]),
        "silence_id": str(silence["id"]),
        "webhook_id": webhook["id"],
        "rule": "http",
        "owner": "team-a",
        "q": MARK,
        "from": to_datetime(service.runtime.clock.now() - DAY).isoformat(),
        "to": to_datetime(service.runtime.clock.now() + DAY).isoformat(),
    }


def unknown(things: dict[str, str]) -> dict[str, str]:
    """The same names of what nobody has; a job's id has its shape, and no call here makes a schedule of that name."""
    kept = {name: things[name] for name in ("from", "to")}
    others = {"job_id": f"sched-{NOBODYS}-n1-rc0", "schedule": f"{NOBODYS}-either"}
    numbers = dict.fromkeys(("alert_id", "silence_id"), "999999")
    return dict.fromkeys(things, NOBODYS) | kept | others | numbers


def is_refused_by_role(answer: Answer) -> bool:
    return answer.status == 403 and answer.fields["detail"].startswith("This call requires a")


# -- the document --


def test_what_needs_no_token_is_meant_to(scene: Scene) -> None:
    assert {(call.method, call.path) for call in scene.calls if call.is_open} == OPEN


def test_every_other_call_names_one_role(scene: Scene) -> None:
    for call in scene.calls:
        if not call.is_open:
            assert call.role in ROLES and set(call.roles) <= {*ROLES, "no-owner"}


# -- the server --


def test_without_a_token_and_with_a_wrong_one_no_call_says_anything(scene: Scene) -> None:
    wrong = replace(scene.service.admin, secret="ew_wrong")
    before = scene.service.admin.get(f"/schedules/{scene.theirs['schedule_id']}/").fields
    for call in scene.calls:
        for client in (scene.service.nobody, wrong):
            answer = ask(client, call, scene.theirs)
            assert MARK not in answer.raw.decode(), call
            if not call.is_open:
                assert (answer.status, answer.problem) == (401, "unauthenticated"), call
                assert answer.raw == ask(client, call, unknown(scene.theirs)).raw, call
    assert scene.service.admin.get(f"/schedules/{scene.theirs['schedule_id']}/").fields == before


def test_the_cookie_of_a_session_without_the_proof_of_its_page_opens_no_call(scene: Scene) -> None:
    """A browser sends it to every port of the host, so any service there can send it to us."""
    browser = BrowserSession(scene.service.nobody, {"token": scene.service.admin.secret})
    before = everything_of(scene)
    for call in scene.calls:
        answer = ask(scene.service.nobody, call, scene.theirs, **browser.header)
        assert MARK not in answer.raw.decode(), call
        if not call.is_open:
            assert answer.status in (401, 403), (str(call), answer.raw)
    assert everything_of(scene) == before


@pytest.mark.parametrize("role", ROLES)
def test_each_role_may_call_what_the_document_says_and_nothing_else(scene: Scene, role: AccessRole) -> None:
    client = scene.service.client(role)
    for call in scene.calls:
        if call.is_open:
            continue
        answer = ask(client, call, unknown(scene.theirs))
        may = ROLES.index(role) >= ROLES.index(call.role)
        assert is_refused_by_role(answer) is not may, (str(call), answer.status, answer.raw)
        assert not may or answer.status not in (401, 403), (str(call), answer.raw)


@pytest.mark.parametrize("role", ROLES)
def test_a_token_with_an_owner_may_call_what_the_document_says(scene: Scene, role: AccessRole) -> None:
    client = scene.service.client(role, owner="team-b")
    for call in scene.calls:
        if call.is_open:
            continue
        may = ROLES.index(role) >= ROLES.index(call.role) and not call.is_global
        assert is_refused_by_role(ask(client, call, unknown(scene.theirs))) is not may, call


@pytest.mark.parametrize("role", ROLES)
def test_someone_elses_things_answer_exactly_as_if_they_were_not_there(
    scene: Scene, role: AccessRole
) -> None:
    client = scene.service.client(role, owner=f"a stranger who is {role}")
    before, nobodys = everything_of(scene), unknown(scene.theirs)
    for call in scene.calls:
        theirs = ask(client, call, scene.theirs)
        assert MARK not in theirs.raw.decode(), call
        named = call.target(scene.theirs) + str(call.body(scene.theirs))
        for name in IDS:
            if scene.theirs[name] not in named:
                assert scene.theirs[name] not in theirs.raw.decode(), (str(call), name)
        assert theirs.status not in (400, 422), (str(call), theirs.raw)  # it would say nothing of whose it is
        names_many = call.body(scene.theirs) != call.body(nobodys)
        names_one = call.target(scene.theirs) != call.target(nobodys) and COMMON.isdisjoint(
            call.names("path")
        )
        if not names_one and not names_many:
            continue
        answer = ask(client, call, nobodys)
        assert theirs.status == answer.status, call
        if theirs.status >= 300 or call.method == "get" or names_many:
            text = text_without_names(theirs, call, scene.theirs)
            assert text == text_without_names(answer, call, nobodys), call
    assert everything_of(scene) == before


def test_no_list_holds_anything_of_somebody_else(scene: Scene) -> None:
    """Asked for all that there is; whoever it belongs to, and whoever sees everything, finds it there."""
    stranger, team = (scene.service.client("admin", owner=owner) for owner in ("a stranger", "team-a"))
    found = set()
    for call in scene.calls:
        if call.method != "get" or call.names("path") or call.is_stream or call.is_open or call.is_global:
            continue
        wanted = {name: scene.theirs[name] for name in ("from", "to")}
        theirs, strangers = (ask(one, call, wanted).raw.decode() for one in (team, stranger))
        secret = [scene.theirs[name] for name in IDS] + [MARK]
        assert not [one for one in secret if one in strangers], call
        found |= {call.path.split("/")[-2] for one in secret if one in theirs}
    assert found >= {"schedules", "jobs", "breakers", "audit", "messages", "upcoming", "timeline", "tokens"}


def text_without_names(answer: Answer, call: Call, things: dict[str, str]) -> str:
    """What an answer says beside the names that were asked about, which it may repeat, and the time of the answer."""
    text = re.sub(r'"now":"[^"]*"', "", answer.raw.decode())
    for name in call.names("path"):
        text = text.replace(thing(call, name, things), "NAME")
    return text.replace(things["schedule_id"], "NAME")


def everything_of(scene: Scene) -> dict[str, Any]:
    """What the admin sees of team-a's things."""
    found = {}
    for call in scene.calls:
        if call.method == "get" and call.names("path"):
            found[str(call)] = ask(scene.service.admin, call, scene.theirs).raw
    return found


def test_what_the_walk_asks_about_is_there(scene: Scene) -> None:
    """So that its 404 are about whose things are, and not about what the walk made up."""
    team = scene.service.client("admin", owner="team-a")
    for call in scene.calls:
        if call.method == "get" and call.names("path") and not call.is_open:
            answer = ask(team, call, scene.theirs)
            assert answer.status == 200, (str(call), answer.raw)


def test_there_is_nothing_else_to_call(tmp_path: Path) -> None:
    """A path that the document does not know is 404 or 405, with the best token."""
    with serving(tmp_path) as service:
        for path in ("/api/v1/", "/api/v1/schedules/x/y/z/", "/docs", "/redoc", "/openapi.json"):
            assert replace(service.admin, prefix="").get(path).status in (404, 405), path
