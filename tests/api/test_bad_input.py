"""Whatever comes in: a precise 4xx, nothing changed, nothing of it in the log."""

from __future__ import annotations

import json
import logging
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.api.serving import HTTP_RUN, Service, serving

GOOD = {"every": "1h", "run": HTTP_RUN}


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b'{"every": "1h",}', 400),
        (b"\xff\xfe", 400),
        (b'{"every": NaN}', 400),
        (b'{"payload": {"a": ' + b"9" * 5_000 + b"}}", 400),
        (b"[" * 100_000, 400),
        (b'{"payload":' * 2_000 + b"1" + b"}" * 2_000, 400),
        (b'{"name": "\\ud800"}', 400),
        (b'{"name": "\xed\xa0\x80"}', 400),
        (b'{"payload": {"a": 1e999}}', 400),
        (b'{"payload": {"a": ' + b"9" * 400 + b"}}", 400),
        (b'{"every": "1h", "every": "2h"}', 400),
        (b'{"payload": {"a": {"b": 1, "b": 1}}}', 400),
        ('{"every": "1h"}'.encode("utf-16"), 400),
        (b"[]", 422),
        (b'"text"', 422),
        (b"null", 422),
        (b"17", 422),
    ],
)
def test_a_body_that_is_no_object_of_json(service: Service, raw: bytes, status: int) -> None:
    answer = service.admin.post("/schedules/", raw=raw)
    assert answer.status == status
    assert answer.problem in ("malformed", "invalid")


@pytest.mark.parametrize("levels", [98, 500, 950, 1_500, 5_000, 20_000])
def test_how_deep_a_body_may_be_nested_does_not_depend_on_the_interpreter(
    service: Service, levels: int
) -> None:
    raw = b'{"payload":{"a":' + b"[" * levels + b"]" * levels + b"}}"
    answer = service.admin.post("/schedules/", raw=raw)
    assert answer.status == (422 if levels <= 98 else 400)
    assert "}" * 200 not in answer.raw.decode()


def test_brackets_within_texts_are_no_levels(service: Service) -> None:
    text = '"' + "[" * 500 + '\\"' + "{" * 500 + '"'
    raw = b'{"every": "1h", "run": {"message": {"text": ' + text.encode() + b"}}}"
    assert service.admin.post("/schedules/", raw=raw).status == 201


@pytest.mark.parametrize(
    ("path", "raw"),
    [
        ("/schedules/{id}/pause/", b'{"note": "a", "note": "b"}'),
        ("/schedules/{id}/trigger/", b'{"payload": {"a": 1, "a": 2}}'),
        ("/schedules/batch/", b'{"schedules": [], "schedules": []}'),
        ("/schedules/batch-pause/", b'{"schedule_ids": [], "schedule_ids": []}'),
        ("/quiet-hours/", b'{"name": "a", "name": "b"}'),
        ("/preview/", b'{"every": "1h", "every": "2h"}'),
        ("/session/", b'{"token": "a", "token": "b"}'),
        ("/tokens/", b'{"name": "a", "name": "b"}'),
        ("/hooks/{id}/", b'{"a": 1, "a": 2}'),
    ],
)
def test_a_key_that_is_there_twice_is_refused_in_every_body(service: Service, path: str, raw: bytes) -> None:
    schedule = service.admin.create()
    answer = service.admin.post(path.replace("{id}", schedule["id"]), raw=raw)
    assert (answer.status, answer.problem) == (400, "malformed")
    assert "is there twice" in answer.fields["detail"]


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"every": 5}, "every"),
        ({"every": "0s"}, "every"),
        ({"every": "99999d"}, "every"),
        ({"every": None, "cron": "* * * * * *"}, "cron"),
        ({"every": None, "cron": "0 0 31 2 *"}, "cron"),
        ({"every": None, "at": "1969-12-31T23:59:59Z"}, "at"),
        ({"every": None, "at": "2020-01-01T00:00:00Z"}, "at"),
        ({"every": None, "at": "9999-12-31T23:59:59-14:00"}, "at"),
        ({"every": None, "at": "soon"}, "at"),
        ({"every": None, "after": "-1h"}, "after"),
        ({"start_at": "10000-01-01T00:00:00Z"}, "start_at"),
        ({"timezone": "Mars/Base"}, "timezone"),
        ({"timezone": "../../etc/passwd"}, "timezone"),
        ({"total_repeats": -1}, "total_repeats"),
        ({"max_retries": 2**70}, "max_retries"),
        ({"max_retries": 1.5}, "max_retries"),
        ({"max_retries": True}, "max_retries"),
        ({"jitter": "2h"}, "jitter"),
        ({"only_between": "25:00-26:00"}, "only_between"),
        ({"not_on": ["someday"]}, "not_on"),
        ({"quiet_hours": "nowhere"}, "quiet_hours"),
        ({"payload": []}, "payload"),
        ({"name": "a\0b"}, "name"),
        ({"name": "x" * 100_000}, "name"),
        ({"unknown": 1}, "unknown"),
        ({"run": {"http": {"url": "file:///etc/passwd"}}}, "run.http.url"),
        ({"run": {"teleport": {}}}, "run.teleport"),
        ({"run": {"agent": {"name": "nobody"}}}, "run.agent.name"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_word_that_cannot_be_is_named(service: Service, change: dict[str, Any], path: str) -> None:
    before = service.admin.get("/schedules/").fields["total"]
    answer = service.admin.post("/schedules/", {**GOOD, **change})
    assert (answer.status, answer.problem) == (422, "invalid"), answer.raw
    assert path in [fault["path"] for fault in answer.fields["errors"]], answer.raw
    assert service.admin.get("/schedules/").fields["total"] == before


@pytest.mark.parametrize("triggers", [{"every": None}, {"cron": "0 2 * * *"}, {"interval_seconds": 5}])
def test_none_and_two_triggers_are_refused(service: Service, triggers: dict[str, Any]) -> None:
    assert service.admin.post("/schedules/", {**GOOD, **triggers}).status == 422


@pytest.mark.parametrize(
    "tricky",
    [
        "..%2F..%2Fetc%2Fpasswd",
        "%00",
        "a%00b",
        "%F0%9F%92%A9",
        "x" * 5_000,
        "%ff%fe",
        "'%20OR%201=1--",
        "a%2Fb",
        ".",
    ],
)
def test_an_id_that_plays_tricks_finds_nothing(service: Service, tricky: str) -> None:
    for method, path, body in (
        ("GET", "", None),
        ("PATCH", "", {"name": "x"}),
        ("DELETE", "", None),
        ("POST", "pause/", None),
        ("GET", "why/", None),
    ):
        answer = service.admin.call(method, f"/schedules/{tricky}/{path}", body)
        assert answer.status in (404, 405, 422), (method, path, answer.raw)
        assert answer.problem


def test_a_body_beyond_the_limit_is_refused_with_and_without_a_length(tmp_path: Path) -> None:
    with serving(tmp_path, max_body=10_000) as service:
        large = json.dumps({**GOOD, "name": "x" * 20_000}).encode()
        answer = service.admin.post("/schedules/", raw=large)
        assert (answer.status, answer.problem) == (413, "too-large")
        pieces = (large[at : at + 1_000] for at in range(0, len(large), 1_000))
        answer = service.admin.call("POST", "/schedules/", raw=pieces)  # type: ignore[arg-type]
        assert (answer.status, answer.problem) == (413, "too-large")


def test_who_announces_a_body_and_sends_none_is_answered_all_the_same(tmp_path: Path) -> None:
    with serving(tmp_path, max_body=1_000) as service:
        host, port = service.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=30) as connection:
            head = f"POST /api/v1/schedules/ HTTP/1.1\r\nHost: {host}\r\nContent-Length: 5000\r\n\r\n"
            connection.sendall(head.encode())
            assert connection.recv(100).startswith(b"HTTP/1.1 413 ")


def test_a_service_may_take_less_than_others(tmp_path: Path) -> None:
    with serving(tmp_path, max_payload=100) as service:
        service.admin.create(payload={"a": "x" * 50})
        answer = service.admin.post("/schedules/", {**GOOD, "payload": {"a": "x" * 100}})
        assert (answer.status, answer.fields["errors"][0]["path"]) == (413, "payload")


def test_unknown_paths_and_methods_are_problems_too(service: Service) -> None:
    assert service.admin.get("/nowhere/").problem == "not-found"
    answer = service.admin.call("DELETE", "/schedules/")
    assert (answer.status, answer.problem) == (405, "method-not-allowed")
    assert "allow" in answer.headers


def test_nothing_of_a_refused_body_is_logged(service: Service, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        service.admin.post("/schedules/", {**GOOD, "timezone": "Hunter/Two", "name": "hunter2"})
        service.admin.post("/schedules/", raw=b'{"password": "hunter2"')
    assert "hunter2" not in caplog.text.lower()
    assert (service.admin.secret or "") not in caplog.text
