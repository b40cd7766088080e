"""Every answer carries the headers that keep browsers from running, framing, guessing at and keeping it; and tells
nobody where the database is."""

from __future__ import annotations

import logging
import re
import socket
import sqlite3
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha384
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from everwhen.api.problems import NOTHING
from everwhen.errors import StoreError, StoreFault
from everwhen.views.problems import fields_of
from tests.api.serving import Answer, Service, serving

EXPECTED = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}


# What everybody may read, and keep as long as it is the same.
PUBLIC = {**EXPECTED, "cache-control": "no-cache"}


def assert_secured(
    answer: Answer, about: object = None, policy: str = NOTHING, expected: Mapping[str, str] = EXPECTED
) -> None:
    assert {name: answer.headers.get(name) for name in expected} == expected, about
    assert answer.headers["content-security-policy"] == policy, about


def test_every_call_carries_them_whatever_it_answers(service: Service) -> None:
    client = replace(service.admin, prefix="")
    document = client.get("/api/openapi.json")
    assert_secured(document, expected=PUBLIC)
    tried = 0
    for path, methods in document.fields["paths"].items():
        for method in methods:
            if not path.endswith("/stream/"):
                address = re.sub(r"\{[^}]*\}", "none", path)
                for who in (client, replace(client, secret=None), replace(client, secret="wrong")):
                    assert_secured(who.call(method.upper(), address), (method, path))
                    tried += 1
    assert tried > 100


def test_refusals_before_any_call_carry_them(service: Service) -> None:
    client = replace(service.admin, prefix="")
    for answer, status in (
        (client.get("/nowhere"), 404),
        (client.call("DELETE", "/healthz"), 405),
        (client.get("/api/v1/me/", Host="elsewhere.example"), 421),
        (client.post("/api/v1/schedules/", raw=b" " * (2 << 20)), 413),
        (client.post("/api/v1/schedules/", raw=b"{"), 400),
        (client.get("/healthz", **{"X-Large": "x" * 40_000}), 431),
    ):
        assert answer.status == status
        assert_secured(answer, status)


def test_a_mistake_of_ours_carries_them(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def break_down() -> None:
        raise RuntimeError("broken on purpose")

    with serving(tmp_path) as service:
        service.app.router.add_api_route("/broken", break_down)
        answer = replace(service.admin, prefix="").get("/broken")
    assert (answer.status, answer.problem) == (500, "internal")
    assert b"on purpose" not in answer.raw
    assert_secured(answer)


@pytest.mark.parametrize("path", ["events", "messages"])
def test_streams_carry_them(service: Service, path: str) -> None:
    parts = urlsplit(service.url)
    with socket.create_connection((parts.hostname, parts.port), 60) as peer:
        head = f"GET /api/v1/{path}/stream/ HTTP/1.1\r\nHost: localhost\r\n"
        peer.sendall(f"{head}X-API-Key: {service.admin.secret}\r\n\r\n".encode())
        found = b""
        while b"\r\n\r\n" not in found:
            found += peer.recv(65_536)
    lines = [line.partition(": ") for line in found.decode().partition("\r\n\r\n")[0].splitlines()[1:]]
    assert_secured(Answer(200, {name: value for name, _, value in lines}, b""))


# -- the page of the documentation --


def test_the_documentation_loads_nothing_from_elsewhere(service: Service) -> None:
    client = replace(service.nobody, prefix="")
    page = client.get("/api/docs")
    assert page.status == 200
    assert_secured(page, policy=f"{NOTHING}; style-src 'self'", expected=PUBLIC)
    text = page.raw.decode()
    assert "<script" not in text
    loaded = re.findall(r'<(?:link|img|iframe|object)[^>]*(?:href|src)="([^"]*)"', text)
    assert loaded == ["docs/style.css"]
    style = client.get("/api/docs/style.css")
    assert style.headers["content-type"].startswith("text/css")
    assert f'integrity="sha384-{b64encode(sha384(style.raw).digest()).decode()}"' in text
    assert b"url(" not in style.raw and b"@import" not in style.raw


def test_the_documentation_shows_every_call(service: Service) -> None:
    client = replace(service.nobody, prefix="")
    text = client.get("/api/docs").raw.decode()
    for path, methods in client.get("/api/openapi.json").fields["paths"].items():
        for method in methods:
            assert f"<b>{method.upper()}</b><code>{path}</code>" in text


# -- where the database is --


def test_a_503_does_not_tell_where_the_database_is(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with serving(tmp_path) as service, caplog.at_level(logging.WARNING, "everwhen"):
        other = sqlite3.connect(tmp_path / "api.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        try:
            fields = {"every": "1h", "run": {"message": {"text": "hello"}}}
            answers = [service.admin.post("/schedules/", fields) for _ in range(2)]
        finally:
            other.execute("ROLLBACK")
            other.close()
    for answer in answers:
        assert (answer.status, answer.problem) == (503, "unavailable")
        assert (
            answer.fields["detail"]
            == "The database is locked by another program; the log of the service says more."
        )
        assert "api.db" not in answer.raw.decode() and str(tmp_path) not in answer.raw.decode()
    assert caplog.text.count("api.db") == 1  # told in the log, and not once for every request


@pytest.mark.parametrize(
    ("fault", "cause"),
    [
        ("full", "The disk of the database is full; the log of the service says more."),
        ("read_only", "The database is read-only; the log of the service says more."),
        ("away", "The database is away; the log of the service says more."),
        ("moved", "The database was moved with `everwhen db copy`; the log of the service says more."),
        (None, "The database does not answer; the log of the service says why."),
    ],
)
def test_a_503_names_the_cause_as_far_as_it_is_known(fault: StoreFault | None, cause: str) -> None:
    assert fields_of(StoreError("the database /srv/everwhen.db refuses", fault=fault))["detail"] == cause
