"""The API inside another application, attacked: Host headers, cookies and proofs of sessions, tokens of others.

Requests are passed to the application as a server would, so that each scheme, prefix and header can be chosen.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from everwhen import ConfigError, Scheduler
from everwhen.scheduler.options import ApiOptions

HOST = "shop.example.com"
PREFIX = "/tools/everwhen"
MESSAGE = {"every": "1h", "run": {"message": {"text": "x"}}}


@dataclass(frozen=True)
class Reply:
    status: int
    headers: list[tuple[str, str]]
    body: bytes

    @property
    def fields(self) -> Any:
        return json.loads(self.body)

    @property
    def cookie(self) -> str:
        return dict(self.headers)["set-cookie"]


@dataclass(frozen=True)
class Caller:
    """Requests to an application by one scheme."""

    app: Any
    prefix: str = PREFIX
    scheme: str = "https"
    hosts: tuple[str, ...] = (HOST,)

    def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> Reply:
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        sent = [(b"host", host.encode()) for host in self.hosts]
        sent += [(name.lower().encode(), value.encode()) for name, value in names.items()]
        if body is not None:
            sent.append((b"content-type", b"application/json"))
        whole = f"{self.prefix}{path}"
        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": method,
            "scheme": self.scheme,
            "path": whole,
            "raw_path": whole.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": sent,
            "client": ("203.0.113.9", 5),
        }
        return asyncio.run(passed(self.app, scope, b"" if body is None else json.dumps(body).encode()))


async def passed(app: Any, scope: dict[str, Any], body: bytes) -> Reply:
    answered: list[Any] = []
    sent = False

    async def receive() -> Any:
        nonlocal sent
        if sent:
            return await asyncio.Event().wait()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        answered.append(message)

    await app(scope, receive, send)
    headers = [(name.decode(), value.decode()) for name, value in answered[0]["headers"]]
    return Reply(answered[0]["status"], headers, b"".join(part.get("body", b"") for part in answered[1:]))


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[Scheduler]:
    opened = Scheduler(f"sqlite:///{tmp_path}/shop.db", name="shop")
    yield opened
    opened.close()


def mounted(scheduler: Scheduler, **options: Any) -> Starlette:
    return Starlette(routes=[Mount(PREFIX, app=scheduler.asgi(**options))])


def signed_in(call: Caller, secret: str) -> tuple[dict[str, str], str]:
    """Begin a session; return the header with its cookie and its proof."""
    begun = call("POST", "/api/v1/session/", {"token": secret}, origin=f"{call.scheme}://{HOST}")
    assert begun.status in (200, 201), begun.body
    return {"cookie": begun.cookie.partition(";")[0]}, begun.fields["csrf_token"]


def test_a_session_under_a_prefix_has_a_cookie_that_only_https_of_this_host_sets_and_that_opens_nothing(
    scheduler: Scheduler,
) -> None:
    call, secret = Caller(mounted(scheduler)), scheduler.create_token("admin", "admin")
    begun = call("POST", "/api/v1/session/", {"token": secret})
    ((name, cookie),) = SimpleCookie(begun.cookie).items()
    assert name == "__Secure-everwhen_session"
    assert (cookie["path"], cookie["domain"]) == (f"{PREFIX}/", "")
    assert (cookie["samesite"].lower(), cookie["secure"], cookie["httponly"]) == ("strict", True, True)
    sent, proof = signed_in(call, secret)
    _, of_another = signed_in(call, secret)
    origin = f"https://{HOST}"
    assert call("GET", "/api/v1/schedules/", **sent).status == 401
    for wrong in ("", "x", of_another, cookie.value):
        assert call("GET", "/api/v1/schedules/", **sent, x_csrf_token=wrong).status == 401
        assert call("POST", "/api/v1/system/pause/", **sent, origin=origin, x_csrf_token=wrong).status == 403
    for foreign in ("https://evil.example", f"http://{HOST}", f"https://{HOST}:8443", "null"):
        denied = call("POST", "/api/v1/system/pause/", **sent, origin=foreign, x_csrf_token=proof)
        assert denied.status == 403
    assert call("GET", "/api/v1/schedules/", **sent, x_csrf_token=proof).status == 200
    # The name of the other scheme, or of the root, is not taken.
    for other in ("__Host-everwhen_session", "everwhen_session", "everwhen_session_80"):
        taken = {"cookie": f"{other}={cookie.value}"}
        assert call("GET", "/api/v1/schedules/", **taken, x_csrf_token=proof).status == 401


def test_only_a_trusted_proxy_makes_a_mounted_api_believe_in_tls(scheduler: Scheduler) -> None:
    secret = scheduler.create_token("admin", "admin")
    for proxies, name in (([], "everwhen_session_80="), (["203.0.113.0/24"], "__Secure-everwhen_session=")):
        call = Caller(mounted(scheduler, trusted_proxies=proxies), scheme="http")
        said = {"x_forwarded_proto": "https", "x_forwarded_host": "evil.example"}
        begun = call("POST", "/api/v1/session/", {"token": secret}, **said)
        assert begun.cookie.startswith(name)
        made = call("POST", "/api/v1/schedules/", MESSAGE, authorization=f"Bearer {secret}", **said)
        assert dict(made.headers)["location"].startswith(f"{PREFIX}/api/v1/schedules/")


@pytest.mark.parametrize(
    "hosts",
    [
        (),
        (HOST, HOST),
        (HOST, "evil.example"),
        ("evil.example",),
        (f"evil@{HOST}",),
        (f"{HOST}.evil.example",),
    ],
    ids=" ".join,
)
def test_a_host_that_is_not_ours_or_stands_there_twice_is_refused_under_a_prefix(
    scheduler: Scheduler, hosts: tuple[str, ...]
) -> None:
    call, secret = Caller(mounted(scheduler, allowed_hosts=[HOST])), scheduler.create_token("a", "viewer")
    assert call("GET", "/api/v1/me/", authorization=f"Bearer {secret}").status == 200
    found = replace(call, hosts=hosts)("GET", "/api/v1/me/", authorization=f"Bearer {secret}")
    assert found.status == (400 if len(hosts) > 1 else 421)


def test_of_two_mounted_schedulers_neither_takes_tokens_or_sessions_of_the_other(
    scheduler: Scheduler, tmp_path: Path
) -> None:
    other = Scheduler(f"sqlite:///{tmp_path}/other.db", name="shop")
    try:
        routes = [Mount("/tools/other", app=other.asgi()), Mount("/tools", app=scheduler.asgi())]
        app = Starlette(routes=routes)
        outer, inner = Caller(app, "/tools"), Caller(app, "/tools/other")
        secret = scheduler.create_token("admin", "admin")
        bearer = {"authorization": f"Bearer {secret}"}
        assert (
            outer("GET", "/api/v1/me/", **bearer).status,
            inner("GET", "/api/v1/me/", **bearer).status,
        ) == (
            200,
            401,
        )
        sent, proof = signed_in(outer, secret)
        assert outer("GET", "/api/v1/me/", **sent, x_csrf_token=proof).status == 200
        assert inner("GET", "/api/v1/me/", **sent, x_csrf_token=proof).status == 401
    finally:
        other.close()


def test_a_tenant_of_a_mounted_api_finds_nothing_of_another(scheduler: Scheduler) -> None:
    call = Caller(mounted(scheduler))
    ann, bob = (
        {"authorization": f"Bearer {scheduler.create_token(name, 'admin', owner=name)}"}
        for name in ("ann", "bob")
    )
    made = call("POST", "/api/v1/schedules/", MESSAGE, **ann).fields["id"]
    for method, action in (("GET", ""), ("DELETE", ""), ("POST", "trigger/"), ("GET", "why/")):
        foreign = call(method, f"/api/v1/schedules/{made}/{action}", **bob)
        unknown = call(method, f"/api/v1/schedules/nobody/{action}", **bob)
        assert (foreign.status, foreign.body.replace(made.encode(), b"nobody")) == (404, unknown.body)
    assert call("GET", f"/api/v1/schedules/{made}/", **ann).status == 200


@pytest.mark.parametrize(
    "options",
    [
        {"allowed_hosts": HOST},
        {"allowed_hosts": [5]},
        {"trusted_proxies": "10.0.0.0/8, *"},
        {"trusted_proxies": ["everybody"]},
        {"max_body": -1},
        {"max_body": True},
        {"max_timeout": 0},
        {"allow_code_targets": "no"},
        {"mcp": "yes"},
    ],
    ids=str,
)
def test_options_that_would_mean_something_else_are_refused(
    scheduler: Scheduler, options: ApiOptions
) -> None:
    with pytest.raises(ConfigError):
        scheduler.asgi(**options)
