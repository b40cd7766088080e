"""What one caller may ask of a process at once: a share, so that everybody else is served meanwhile.

How much of a processor something takes is counted on the thread of the event loop, and never how long it takes.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Coroutine, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest
from fastapi.routing import APIRoute

from everwhen.api.app import THREADS
from everwhen.api.costs import declared_cost
from everwhen.api.in_process import InProcessAnswer, call_application
from everwhen.api.problems import RefusedError
from everwhen.api.rates import Rates
from everwhen.api.shares import FREE, MOST_WAITING, OF_OWNER, OF_TOKEN, PLACES, Shares
from everwhen.cli.client import ApiError, ApiResponse, http_sender
from everwhen.cli.client import Client as CommandClient
from everwhen.mcp.rest import RefusedError as ToolRefusedError
from everwhen.mcp.rest import Rest
from everwhen.model.token import NO_LIMITS, Token
from tests.api.serving import Service, serving
from tests.load.attacks import YEAR
from tests.scheduler.waiting import until

T = TypeVar("T")
MESSAGE = {"message": {"text": "hello"}}


# -- every call says what it costs --


def test_every_call_declares_whether_it_is_cheap_or_expensive(service: Service) -> None:
    calls = [route for route in service.app.router.routes if isinstance(route, APIRoute)]
    assert len(calls) > 60
    assert [route.name for route in calls if declared_cost(route.endpoint) is None] == []


def test_the_calls_that_may_take_long_are_not_declared_cheap(service: Service) -> None:
    costs = {
        route.name: declared_cost(route.endpoint)
        for route in service.app.router.routes
        if isinstance(route, APIRoute)
    }
    long = (
        "get_timeline list_upcoming list_schedule_upcoming preview_schedule get_schedule_stats explain_schedule "
        "list_audit list_jobs list_schedules list_messages diff_config backfill_schedule pause_schedules"
    )
    assert [name for name in long.split() if not costs[name]] == []


def test_expensive_calls_leave_threads_to_cheap_ones() -> None:
    assert OF_TOKEN < OF_OWNER < PLACES <= THREADS / 2


# -- places --


def a_token(name: str, owner: str | None = None) -> Token:
    return Token(name, name, "viewer", owner, NO_LIMITS, created_at=0)


def the_shares(**costs: float) -> Shares:
    figures: dict[str, Any] = {"burst": 1_000_000, "per_second": 1.0, **costs}
    return Shares(Rates(**figures, monotonic=lambda: 0.0))


class Calls:
    """Expensive calls that go on until they are ended."""

    def __init__(self, shares: Shares) -> None:
        self._shares = shares
        self._over: list[asyncio.Event] = []
        self.began: list[str] = []
        self.tasks: list[asyncio.Task[None]] = []

    async def begin(self, *tokens: Token) -> None:
        for token in tokens:
            self.tasks.append(asyncio.create_task(self._call(token)))
        for _ in range(5):
            await asyncio.sleep(0)

    async def _call(self, token: Token) -> None:
        async with self._shares.admit(token, FREE):
            self.began.append(token.token_id)
            over = asyncio.Event()
            self._over.append(over)
            await over.wait()

    async def end(self, number: int = 0) -> None:
        self._over.pop(number).set()
        for _ in range(5):
            await asyncio.sleep(0)

    async def end_all(self) -> None:
        while self._over:
            await self.end()
        await asyncio.gather(*self.tasks, return_exceptions=True)


def played(play: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(play)


def test_a_token_and_an_owner_have_so_many_places_and_another_owner_finds_one() -> None:
    async def play() -> list[str]:
        calls = Calls(the_shares())
        await calls.begin(*[a_token("a1", "a")] * 5, *[a_token("a2", "a")] * 5, a_token("b1", "b"))
        began = list(calls.began)
        await calls.end_all()
        return began

    assert played(play()) == ["a1", "a1", "a2", "b1"]


def test_of_those_who_wait_the_owner_with_the_fewest_comes_first() -> None:
    async def play() -> list[str]:
        calls = Calls(the_shares())
        await calls.begin(a_token("a1", "a"), a_token("a1", "a"), a_token("a2", "a"), a_token("b", "b"))
        await calls.begin(a_token("a2", "a"), a_token("c", "c"))
        assert calls.began == ["a1", "a1", "a2", "b"]
        await calls.end()
        began = list(calls.began)
        await calls.end_all()
        return began

    assert played(play())[4:] == ["c"]


def test_whoever_waits_is_served_at_last_and_nothing_is_left_behind() -> None:
    async def play() -> Shares:
        shares = the_shares()
        calls = Calls(shares)
        await calls.begin(*[a_token(f"a{number % 3}", "a") for number in range(30)])
        await calls.end_all()
        assert len(calls.began) == 30
        return shares

    shares = played(play())
    assert (shares._running, shares._waiters, +shares._of_owner, +shares._of_token) == (0, [], {}, {})


def test_too_many_that_wait_are_refused_and_one_that_waits_in_vain_too() -> None:
    async def play() -> None:
        shares = the_shares()
        shares.patience = 0.01
        calls, token = Calls(shares), a_token("a")
        await calls.begin(*[token] * (OF_TOKEN + MOST_WAITING))
        with pytest.raises(RefusedError) as refused:
            await calls._call(token)
        assert refused.value.status == 429 and int((refused.value.headers or {})["retry-after"]) > 0
        waiting = calls.tasks[OF_TOKEN:]
        found = await asyncio.gather(*waiting, return_exceptions=True)
        assert {error.status for error in found if isinstance(error, RefusedError)} == {429}
        assert len(found) == MOST_WAITING
        await calls.end_all()
        assert not shares._waiters and not shares._running

    played(play())


def test_whoever_leaves_while_it_waits_or_works_gives_its_place_back() -> None:
    async def play() -> None:
        shares = the_shares()
        calls = Calls(shares)
        await calls.begin(*[a_token("a")] * 6)
        for task in calls.tasks[1:5]:
            task.cancel()
        await asyncio.gather(*calls.tasks[1:5], return_exceptions=True)
        assert calls.began == ["a"] * 3
        await calls.end_all()
        assert not shares._waiters and not shares._running

    played(play())


def test_those_who_wait_are_refused_when_the_service_stops() -> None:
    async def play() -> list[int]:
        shares = the_shares()
        calls = Calls(shares)
        await calls.begin(*[a_token("a")] * 4)
        shares.close()
        found = await asyncio.gather(*calls.tasks[2:], return_exceptions=True)
        await calls.end_all()
        return [error.status for error in found if isinstance(error, RefusedError)]

    assert played(play()) == [503, 503]


def test_costs_are_taken_from_the_token_and_what_costs_little_is_free() -> None:
    async def play() -> None:
        shares, token = the_shares(burst=100, per_second=10.0), a_token("a")
        async with shares.admit(token, 95):
            pass
        for _ in range(50):
            async with shares.admit(token, FREE - 1):
                pass
        with pytest.raises(RefusedError) as refused:
            async with shares.admit(token, 25):
                pass
        assert (refused.value.headers or {})["retry-after"] == "2"
        async with shares.admit(a_token("b"), 25):
            pass

    played(play())


# -- on a server --


@contextmanager
def all_places_taken(service: Service, token: Token) -> Iterator[None]:
    """Hold both places of a token on the server's own loop."""
    released = threading.Event()

    async def hold() -> None:
        async with service.context.shares.admit(token, FREE):
            while not released.is_set():
                await asyncio.sleep(0.01)

    loop = loop_of(service)
    held = [asyncio.run_coroutine_threadsafe(hold(), loop) for _ in range(OF_TOKEN)]
    try:
        until(lambda: service.context.shares._of_token[token.token_id] == OF_TOKEN)
        yield
    finally:
        released.set()
        for one in held:
            one.result()


def loop_of(service: Service) -> asyncio.AbstractEventLoop:
    """The loop of a server that has admitted somebody."""
    service.admin.get("/audit/")
    loop = service.context.shares._loop
    assert loop is not None
    return loop


def test_a_token_that_does_expensive_things_is_served_cheap_ones_and_others_are_served_all(
    tmp_path: Path,
) -> None:
    with serving(tmp_path) as service:
        service.context.shares.patience = 0.1
        client = service.client(owner="a")
        (token,) = (one for one in service.runtime.tokens.all() if one.owner == "a")
        with all_places_taken(service, token):
            refused = client.get("/audit/")
            assert (refused.status, refused.problem) == (429, "too-many-requests")
            assert int(refused.headers["retry-after"]) > 0
            assert client.get("/schedules/").status == client.get("/me/").status == 200
            assert service.client(owner="b").get("/audit/").status == 200
        assert client.get("/audit/").status == 200


def test_long_timelines_are_refused_beyond_the_share_of_a_token(tmp_path: Path) -> None:
    with serving(tmp_path) as service:
        client = service.client(owner="a")
        body = {"schedules": [{"every": "1m", "run": MESSAGE}] * 200}
        assert client.post("/schedules/batch/", body).status == 200
        costs = Rates(burst=200, per_second=0.01, monotonic=service.runtime.clock.monotonic)
        service.context.shares.costs = costs
        service.context._counts.clear()  # from before there were any
        answers = [client.get(f"/timeline/?{YEAR}") for _ in range(6)]
        assert [answer.status for answer in answers] == [200] * 3 + [429] * 3  # each by its estimate: 60
        assert int(answers[-1].headers["retry-after"]) > 1_000
        day = "from=2026-01-01T00:00:00Z&to=2026-01-01T00:10:00Z"
        assert service.client(owner="b").get(f"/timeline/?{day}").status == 200


# -- those who live with a refusal --


@pytest.fixture
def narrow(tmp_path: Path) -> Iterator[Service]:
    """A service where each token may ask for one list of events a second."""
    with serving(tmp_path) as service:
        clock = service.runtime.clock.monotonic
        service.context.shares.costs = Rates(burst=25, per_second=20, monotonic=clock)
        yield service


def test_a_command_that_asks_too_often_waits_as_long_as_the_service_says(narrow: Service) -> None:
    with http_sender(narrow.url, narrow.admin.secret) as send_once:
        statuses: list[int] = []

        def send(method: str, target: str, body: bytes | None, headers: Mapping[str, str]) -> ApiResponse:
            answer = send_once(method, target, body, headers)
            statuses.append(answer.status)
            return answer

        client = CommandClient(send)
        for _ in range(3):
            assert client.get("/audit/")["items"]
        assert 429 in statuses
        narrow.context.shares.costs = the_shares(burst=25, per_second=0.001).costs
        client.get("/audit/")
        with pytest.raises(ApiError) as refused:
            client.get("/audit/")
        assert refused.value.status == 429


def test_a_tool_of_mcp_that_asks_too_often_waits_as_long_as_the_service_says(narrow: Service) -> None:
    statuses: list[int] = []

    async def call(
        method: str, target: str, body: bytes | None, headers: Mapping[str, str]
    ) -> InProcessAnswer:
        named = {**headers, "x-api-key": narrow.admin.secret or ""}
        answer = await call_application(narrow.app, method, target, body, named)
        statuses.append(answer.status)
        return answer

    async def play() -> None:
        rest = Rest(call, "")
        for _ in range(3):
            assert (await rest.get("/audit/"))["items"]
        assert 429 in statuses
        narrow.context.shares.costs = the_shares(burst=25, per_second=0.001).costs
        await rest.get("/audit/")
        with pytest.raises(ToolRefusedError) as refused:
            await rest.get("/audit/")
        assert refused.value.status == 429

    played(play())


# -- how much of the event loop they take --


@contextmanager
def loop_time(service: Service) -> Iterator[list[float]]:
    """Add how many seconds of a processor the thread of the event loop has used when the block ends."""
    (thread, *_) = (one for one in reversed(threading.enumerate()) if one.name == "everwhen-api")
    assert thread.ident is not None
    clock = time.pthread_getcpuclockid(thread.ident)
    used: list[float] = []
    before = time.clock_gettime(clock)
    yield used
    used.append(time.clock_gettime(clock) - before)


@pytest.mark.parametrize(
    "body", [b"\n" * (4 << 20), b" \r\n" * (1 << 20), b"\n\n\n{\n" * 200], ids=lambda body: repr(body[:5])
)
def test_blank_lines_cost_the_event_loop_nothing_to_speak_of(service: Service, body: bytes) -> None:
    """At 0.8 s for a mebibyte, eight requests of four held everybody else for most of a minute."""
    headers = {"Content-Type": "application/x-ndjson"}
    with loop_time(service) as used:
        answer = service.admin.call("POST", "/schedules/batch/", raw=body, headers=headers)
    assert answer.status == 200
    print(f"{used[0]:.3f} s of the event loop")
    assert used[0] < 0.3


def test_sixty_thousand_wrong_lines_are_not_looked_at(service: Service) -> None:
    headers = {"Content-Type": "application/x-ndjson"}
    raw = b'{"every": "x"}\n' * 60_000
    answer = service.admin.call("POST", "/schedules/batch/", raw=raw, headers=headers)
    lines = [json.loads(line) for line in answer.raw.splitlines()]
    assert 1_000 < len(lines) < 1_300
    assert "correct them" in lines[-1]["problem"]["detail"]


@pytest.mark.parametrize(
    "path", [f"/timeline/?{YEAR}", "/upcoming/?limit=500", "/schedules/?limit=500&recent=true"]
)
def test_sixty_expensive_calls_at_once_leave_the_event_loop_to_others(tmp_path: Path, path: str) -> None:
    """None of their work is done there, and most of them are refused; each is answered."""
    with serving(tmp_path) as service:
        client = service.client(owner="a")
        body = {"schedules": [{"every": "1m", "run": MESSAGE}] * 500}
        assert client.post("/schedules/batch/", body).status == 200
        assert client.get(path).status == 200
        with loop_time(service) as used, ThreadPoolExecutor(60) as many:
            answers = [one.result().status for one in [many.submit(client.get, path) for _ in range(60)]]
        assert set(answers) <= {200, 429} and 200 in answers and 429 in answers
        assert used[0] < 1.5
        assert service.client(owner="b").get("/schedules/").status == 200
