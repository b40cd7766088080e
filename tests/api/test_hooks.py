"""Webhooks and chats: who may fire them, what becomes of the body, and that one signature fires once."""

from __future__ import annotations

import hmac
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from everwhen.model.queries import EventFilter
from everwhen.testing.manual import ManualClock
from tests.api.serving import Answer, Service, serving

SECRET = "a secret of the service"
NOW = 1_800_000_000  # 2027-01-15T08:00:00Z
FILE = """
agents:
  bot:
    command: [true]
    owner: ada
    schedules:
      on-push: {type: webhook, secret: "${PUSH_SECRET}", if_running: allow}
      from-github: {type: webhook, secret: "${PUSH_SECRET}", signature: github, if_running: allow}
      one: {type: webhook, secret: "${PUSH_SECRET}", signature: everwhen}
      open: {type: webhook}
      lost: {type: webhook, secret: "${NOT_SET_ANYWHERE}"}
      empty: {type: webhook, secret: "${NOT_SET_ANYWHERE:-}"}
      ask: {type: chat, if_running: allow}
      hourly: {type: interval, interval: 1h}
"""
HOOK = "/hooks/bot.on-push/"
GITHUB_HOOK = "/hooks/bot.from-github/"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock("2027-01-15T08:00:00Z")


@pytest.fixture
def service(tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    monkeypatch.setenv("PUSH_SECRET", SECRET)
    with serving(tmp_path, file=FILE, clock=clock) as found:
        yield found


def mac(text: bytes, secret: str = SECRET) -> str:
    return hmac.new(secret.encode(), text, sha256).hexdigest()


def ours(body: bytes, at: int = NOW, secret: str = SECRET) -> dict[str, str]:
    return {"Everwhen-Signature": f"t={at},v1={mac(b'%d.' % at + body, secret)}"}


def githubs(body: bytes, secret: str = SECRET) -> dict[str, str]:
    return {"X-Hub-Signature-256": f"sha256={mac(body, secret)}"}


def post(service: Service, path: str, body: bytes, headers: dict[str, str]) -> Answer:
    return service.nobody.call("POST", path, raw=body, headers=headers)


def fired(service: Service) -> int:
    return sum(schedule.state.fire_count for schedule in service.runtime.catalogue.of_source("config"))


def denials(service: Service) -> int:
    return len(service.runtime.ledger.events(EventFilter(types=["auth.denied"]), limit=1_000))


def assert_refused(service: Service, answer: Answer, *, is_on_record: bool = True) -> None:
    assert (answer.status, answer.problem) == (401, "unauthenticated")
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert fired(service) == 0
    assert denials(service) == int(is_on_record)


BOTH_SCHEMES = pytest.mark.parametrize(("path", "sign"), [(HOOK, ours), (GITHUB_HOOK, githubs)])


@BOTH_SCHEMES
def test_a_signed_request_fires_and_its_body_is_the_payload(service: Service, path: str, sign: Any) -> None:
    body = json.dumps({"ref": "refs/heads/main", "ü": [1, None]}).encode()
    answer = post(service, path, body, sign(body))
    assert answer.status == 202, answer.raw
    job = answer.fields["job"]
    assert (job["origin"], job["schedule_id"], job["status"]) == ("webhook", path.split("/")[2], "queued")
    assert job["payload"] == {"body": {"ref": "refs/heads/main", "ü": [1, None]}}
    assert answer.fields["skipped"] is None


@pytest.mark.parametrize(
    ("kind", "body", "payload"),
    [
        ("text/plain", b"hello", "hello"),
        ("text/plain; charset=utf-8", b"[1]", "[1]"),
        ("application/x-www-form-urlencoded", b"payload=%7B%7D", "payload=%7B%7D"),
        ("application/vnd.github+json", b"[1]", [1]),
        ("", b"[1]", [1]),
        ("", b"not [JSON", "not [JSON"),
        ("application/json", b"", None),
    ],
)
def test_a_body_is_data_where_it_is_json_and_text_elsewhere(
    service: Service, kind: str, body: bytes, payload: Any
) -> None:
    answer = post(service, HOOK, body, {**ours(body), "Content-Type": kind})
    assert (answer.status, answer.fields["job"]["payload"]) == (202, {"body": payload})


@pytest.mark.parametrize(
    ("kind", "body", "status"),
    [
        ("application/json", b'{"a": ', 400),
        ("application/json", b'"\\ud800"', 400),
        ("text/plain", b"\xff\xfe", 400),
        ("text/plain", b"x" * 70_000, 413),
        ("application/json", b"[" * 50_000, 400),
    ],
)
def test_a_body_that_cannot_be_a_payload_is_refused(
    service: Service, kind: str, body: bytes, status: int
) -> None:
    answer = post(service, HOOK, body, {**ours(body), "Content-Type": kind})
    assert answer.status == status and answer.problem
    assert fired(service) == 0


@pytest.mark.parametrize("role", ["operator", "admin"])
def test_a_token_fires_without_a_signature_and_as_often_as_it_asks(service: Service, role: Any) -> None:
    for _ in range(2):
        answer = service.client(role, owner="ada").post("/hooks/bot.on-push/", {"by": "token"})
        assert (answer.status, answer.fields["job"]["payload"]) == (202, {"body": {"by": "token"}})
    assert service.client(role).post("/chat/bot.ask/", {"text": "hi"}).fields["job"]["origin"] == "chat"
    assert service.client(role).post("/hooks/bot.open/").fields["job"]["payload"] == {"body": None}
    assert fired(service) == 4


def test_a_viewer_fires_nothing(service: Service) -> None:
    for path in (HOOK, "/chat/bot.ask/"):
        answer = service.client("viewer").post(path, {})
        assert (answer.status, answer.problem) == (403, "forbidden")
    assert fired(service) == 0


@pytest.mark.parametrize("path", ["/hooks/{}/", "/chat/{}/"])
def test_someone_elses_hook_and_an_unknown_one_look_the_same_to_a_token(service: Service, path: str) -> None:
    bob = service.client(owner="bob")
    answers = [bob.post(path.format(each), {}) for each in ("bot.on-push", "bot.ask", "unknown")]
    assert [answer.status for answer in answers] == [404] * 3
    assert len({answer.raw for answer in answers}) == 1
    assert fired(service) == 0


def test_a_token_that_is_wrong_is_not_made_good_by_a_signature(service: Service) -> None:
    body = b"{}"
    answer = post(service, HOOK, body, {**ours(body), "Authorization": "Bearer ew_a-guess"})
    assert_refused(service, answer)


@pytest.mark.parametrize(
    "path", ["/hooks/unknown/", "/hooks/bot.open/", "/hooks/bot.lost/", "/hooks/bot.hourly/", HOOK]
)
def test_who_cannot_prove_anything_learns_nothing(service: Service, path: str) -> None:
    body = b"{}"
    answer = post(service, path, body, ours(body, secret="another"))
    assert answer.raw == post(service, HOOK, body, ours(body, secret="another")).raw
    assert answer.status == 401 and fired(service) == 0


def test_an_empty_secret_opens_nothing(service: Service) -> None:
    body = b"{}"
    assert_refused(service, post(service, "/hooks/bot.empty/", body, ours(body, secret="")))


def test_without_a_token_and_a_signature_nothing_is_fired(service: Service) -> None:
    assert_refused(service, post(service, HOOK, b"{}", {}), is_on_record=False)


@BOTH_SCHEMES
def test_a_signature_of_another_body_or_by_another_secret_is_refused_and_on_record(
    service: Service, path: str, sign: Any
) -> None:
    for headers in (sign(b'{"a": 1}'), sign(b'{"a": 2}', secret="another")):
        assert post(service, path, b'{"a": 2}', headers).status == 401
    assert (fired(service), denials(service)) == (0, 2)
    (last,) = service.runtime.ledger.events(EventFilter(types=["auth.denied"]), limit=1)
    assert (last.event.reason, last.event.detail["path"]) == ("signature", f"/api/v1{path}")
    assert SECRET not in repr(last)


@pytest.mark.parametrize("age", [-301, 301, 10_000_000])
def test_a_signature_that_is_too_old_or_from_the_future_is_refused(service: Service, age: int) -> None:
    body = b"{}"
    assert_refused(service, post(service, HOOK, body, ours(body, NOW - age)))


@pytest.mark.parametrize("age", [-300, 0, 300])
def test_a_signature_is_good_for_five_minutes(service: Service, age: int) -> None:
    body = b"{}"
    assert post(service, HOOK, body, ours(body, NOW - age)).status == 202


@pytest.mark.parametrize(
    "headers",
    [
        {"Everwhen-Signature": ""},
        {"Everwhen-Signature": "nonsense"},
        {"Everwhen-Signature": f"t={NOW}"},
        {"Everwhen-Signature": f"v1={'a' * 64}"},
        {"Everwhen-Signature": f"t=soon,v1={'a' * 64}"},
        {"Everwhen-Signature": f"t={NOW},v1={'a' * 63}"},
        {"Everwhen-Signature": f"t={NOW},t={NOW},v1={'a' * 64}"},
        {"Everwhen-Signature": f"t={'9' * 400},v1={'a' * 64}"},
        {"Everwhen-Signature": "t=" + "é" * 20},
        {"X-Hub-Signature-256": ""},
        {"X-Hub-Signature-256": "a" * 64},
        {"X-Hub-Signature-256": f"sha1={'a' * 64}"},
    ],
)
def test_a_header_that_is_no_signature_is_refused(service: Service, headers: dict[str, str]) -> None:
    assert_refused(service, post(service, HOOK, b"{}", headers))


def test_a_good_signature_beside_an_old_one_counts_while_a_secret_is_changed(service: Service) -> None:
    body = b"{}"
    both = (
        ours(body, secret="the old one")["Everwhen-Signature"] + "," + ours(body)["Everwhen-Signature"][13:]
    )
    assert both.count("v1=") == 2
    assert post(service, HOOK, body, {"Everwhen-Signature": both}).status == 202


@BOTH_SCHEMES
def test_the_same_signature_fires_once_and_gets_the_same_answer(
    service: Service, path: str, sign: Any
) -> None:
    body = b'{"order": 7}'
    first, again = [post(service, path, body, sign(body)) for _ in range(2)]
    assert (first.status, again.status) == (202, 202)
    assert again.fields == first.fields
    assert ("idempotent-replayed" in first.headers, again.headers["idempotent-replayed"]) == (False, "true")
    assert fired(service) == 1


def test_in_capitals_the_same_signature_is_the_same(service: Service) -> None:
    body = b"{}"
    post(service, GITHUB_HOOK, body, githubs(body))
    capitals = {"X-Hub-Signature-256": f"sha256={mac(body).upper()}"}
    assert post(service, GITHUB_HOOK, body, capitals).headers["idempotent-replayed"] == "true"
    assert fired(service) == 1


def test_ten_copies_of_a_request_at_once_fire_once(service: Service) -> None:
    body = b"{}"
    with ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(lambda _: post(service, HOOK, body, ours(body)), range(10)))
    assert {answer.status for answer in answers} == {202}
    assert len({answer.raw for answer in answers}) == 1
    assert fired(service) == 1


def test_another_process_after_a_restart_fires_no_copy_either(
    service: Service, tmp_path: Path, clock: ManualClock
) -> None:
    body = b"{}"
    first = post(service, HOOK, body, ours(body))
    with serving(tmp_path, file=FILE, clock=clock) as other:
        again = post(other, HOOK, body, ours(body))
        assert again.fields == first.fields
        assert fired(other) == 1


def test_a_hook_takes_one_scheme_and_says_nothing_of_the_other(service: Service) -> None:
    body = b"{}"
    wrong = post(service, HOOK, body, ours(body, secret="another")).raw
    for path, headers in ((HOOK, githubs(body)), (GITHUB_HOOK, ours(body))):
        answer = post(service, path, body, headers)
        assert (answer.status, answer.raw) == (401, wrong)
    assert fired(service) == 0
    both = {**ours(body, secret="another"), **githubs(body)}
    assert post(service, GITHUB_HOOK, body, both).status == 202


@pytest.mark.parametrize("path", [HOOK, GITHUB_HOOK])
def test_a_captured_signature_of_ours_is_not_githubs_over_time_and_body(service: Service, path: str) -> None:
    body = b"{}"
    captured = ours(body)["Everwhen-Signature"].partition("v1=")[2]
    forged = {"X-Hub-Signature-256": f"sha256={captured}", "Content-Type": "text/plain"}
    assert_refused(service, post(service, path, b"%d.%b" % (NOW, body), forged))


def test_githubs_signature_has_no_age_and_is_remembered_as_long_as_its_job(
    service: Service, clock: ManualClock
) -> None:
    body, days = b"{}", timedelta(days=1)
    for further, total in ((0 * days, 1), (2 * days, 1), (27 * days, 1), (1 * days, 2), (29 * days, 2)):
        clock.advance(further)
        other = str(clock.now()).encode()  # what is remembered anew makes what is too old be forgotten
        assert post(service, HOOK, other, ours(other, clock.now() // 1_000_000)).status == 202
        assert post(service, GITHUB_HOOK, body, githubs(body)).status == 202
        schedule = service.runtime.catalogue.get("bot.from-github")
        assert schedule is not None and schedule.state.fire_count == total


def test_on_another_hook_the_same_signature_fires_too(service: Service) -> None:
    body = b"{}"
    for path in (HOOK, "/hooks/bot.one/"):
        assert "idempotent-replayed" not in post(service, path, body, ours(body)).headers
    assert fired(service) == 2


def test_a_skip_says_its_reason_and_is_on_record(service: Service) -> None:
    service.admin.post("/hooks/bot.one/", {})
    answer = service.admin.post("/hooks/bot.one/", {})
    assert (answer.status, answer.fields) == (
        202,
        {"job": None, "skipped": "already_running", "warnings": []},
    )
    service.admin.post("/schedules/bot.on-push/pause/")
    body = b"{}"
    signed = [post(service, HOOK, body, ours(body)).fields for _ in range(2)]
    assert signed == [{"job": None, "skipped": "paused", "warnings": []}] * 2
    found = service.runtime.ledger.events(EventFilter(types=["schedule.skipped"]), limit=9)
    assert [one.event.reason for one in found] == ["paused", "already_running"]


@pytest.mark.parametrize(
    "path", ["/hooks/bot.ask/", "/hooks/bot.hourly/", "/chat/bot.on-push/", "/chat/bot.hourly/"]
)
def test_a_schedule_of_another_type_is_not_fired(service: Service, path: str) -> None:
    answer = service.admin.post(path, {})
    assert (answer.status, answer.problem) == (400, "not-requestable")
    assert fired(service) == 0


def test_the_secret_is_neither_stored_nor_shown(service: Service, tmp_path: Path) -> None:
    reported = service.admin.get("/schedules/bot.on-push/").raw
    assert SECRET.encode() not in reported
    assert SECRET.encode() not in b"".join(path.read_bytes() for path in tmp_path.glob("api.db*"))


def test_who_tries_secrets_is_slowed_down(service: Service) -> None:
    body = b"{}"
    statuses = [post(service, HOOK, body, ours(body, secret=f"guess {n}")).status for n in range(25)]
    assert statuses == [401] * 20 + [429] * 5
    # Those who have the secret are not.
    assert post(service, HOOK, body, ours(body)).status == 202


def test_on_postgresql_copies_fire_once_too(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: ManualClock
) -> None:
    monkeypatch.setenv("PUSH_SECRET", SECRET)
    with serving(tmp_path, file=FILE, url=postgres_url, clock=clock) as service:
        body = b'{"order": 7}'
        with ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(lambda _: post(service, GITHUB_HOOK, body, githubs(body)), range(4)))
        assert {answer.status for answer in answers} == {202}
        assert fired(service) == 1
        clock.advance(timedelta(days=29))
        assert post(service, HOOK, body, ours(body, clock.now() // 1_000_000)).status == 202
        assert post(service, GITHUB_HOOK, body, githubs(body)).headers["idempotent-replayed"] == "true"
        clock.advance(timedelta(days=1))
        assert "idempotent-replayed" not in post(service, GITHUB_HOOK, body, githubs(body)).headers
        assert fired(service) == 3


@pytest.mark.parametrize("path", ["/hooks/bot.open/", "/chat/bot.ask/"])
def test_a_token_with_an_approval_limit_brings_no_words_of_its_own(service: Service, path: str) -> None:
    agent = service.client(owner="ada", approval="required")
    text = {"Content-Type": "text/plain"}
    assert agent.call("POST", path, raw=b"do something else", headers=text).status == 403
    assert agent.post(path, {"do": "something else"}).status == 403
    assert fired(service) == 0
    assert agent.call("POST", path).status == 202
    assert service.client(owner="ada").post(path, {"do": "this"}).status == 202
