"""MCP inside another application: `Scheduler.asgi(mcp=True)` under a prefix, without a lifespan, on several loops."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from starlette.applications import Starlette
from starlette.routing import Mount

from everwhen import ConfigError, Scheduler
from tests.mcp.talking import EITHER

URL = "http://shop.example.com/tools/everwhen/api/v1/mcp"
SOON = {"name": "Tea", "purpose": "The tea is ready.", "after": "20m", "message": "Tea!"}


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[Scheduler]:
    found = Scheduler(f"sqlite:///{tmp_path}/shop.db", name="shop")
    yield found
    found.close()


async def talk(app: Any, secret: str, mode: str, arguments: dict[str, Any]) -> Any:
    headers = {"authorization": f"Bearer {secret}"}
    transport = httpx2.ASGITransport(app)
    async with (
        httpx2.AsyncClient(transport=transport, headers=headers, timeout=30) as carrier,
        Client(streamable_http_client(URL, http_client=carrier), mode=mode) as client,
    ):
        assert len((await client.list_tools()).tools) == 13
        made = await client.call_tool("create_schedule", arguments)
        assert not made.is_error, made.content
        return made.structured_content


def test_both_protocols_are_served_under_a_prefix_on_every_loop_and_after_the_database_was_closed(
    scheduler: Scheduler,
) -> None:
    app = Starlette(routes=[Mount("/tools/everwhen", app=scheduler.asgi(mcp=True))])
    secret = scheduler.create_token("agent", role="admin")
    for mode in EITHER:
        made = asyncio.run(talk(app, secret, mode, {**SOON, "message": mode}))
        assert (made["result"], scheduler.get_schedule(made["id"]).status) == ("created", "active")
        scheduler.close()


def test_a_database_that_is_closed_meanwhile_is_opened_again_on_the_same_loop(scheduler: Scheduler) -> None:
    app = Starlette(routes=[Mount("/tools/everwhen", app=scheduler.asgi(mcp=True))])
    secret = scheduler.create_token("agent", role="admin")

    async def twice() -> list[str]:
        found = []
        for _ in range(2):
            found.append((await talk(app, secret, EITHER[0], SOON))["result"])
            await asyncio.to_thread(scheduler.close)
        return found

    assert asyncio.run(twice()) == ["created", "exists"]


def test_it_is_not_there_unless_it_is_asked_for(scheduler: Scheduler) -> None:
    app = Starlette(routes=[Mount("/tools/everwhen", app=scheduler.asgi())])
    secret = scheduler.create_token("agent", role="admin")

    async def status() -> int:
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app)) as carrier:
            return (await carrier.post(URL, json={}, headers={"x-api-key": secret})).status_code

    assert asyncio.run(status()) == 404


def test_without_the_package_it_says_what_to_install(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "everwhen.mcp.http", raising=False)
    monkeypatch.setitem(sys.modules, "mcp.server.streamable_http_manager", None)
    with pytest.raises(ConfigError, match=r"pip install 'everwhen\[mcp\]'"):
        scheduler.asgi(mcp=True)
