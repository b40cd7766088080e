"""What one caller may ask of a process at once: a share, so that everybody else is served meanwhile.

How much of a processor something takes is counted on the thread of the event loop, and never how long it takes.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import threading
import time
from collections.abc import Coroutine, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest
from fastapi.routing import APIRoute

from everwhen.api.app import THREADS
from everwhen.api.costs import declared_cost
from everwhen.api.in_process import InProcessAnswer, call_application
from everwhen.api.problems import RefusedError
from everwhen.api.rates import OF_OWNER, Rates
from everwhen.api.shares import (
    EXPENSIVE,
    MOST_WAITING,
    OF_CHEAP,
    OF_EXPENSIVE,
    Shares,
)
from everwhen.api.streams import MOST_OF_OWNER, Streams
from everwhen.cli.client import ApiError, ApiResponse, http_sender
from everwhen.cli.client import Client as CommandClient
from everwhen.mcp.rest import RefusedError as ToolRefusedError
from everwhen.mcp.rest import Rest
from everwhen.model.token import NO_LIMITS, Token
from tests.api.serving import Service, serving
from tests.api.test_streams import stream
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
    for quota in (OF_EXPENSIVE, OF_CHEAP):
        assert quota.of_token <= quota.of_owner < quota.calls
    assert OF_EXPENSIVE.calls + OF_CHEAP.calls <= THREADS * 3 / 4


# -- places --


def a_token(name: str, owner: str | None = None) -> Token:
    return Token(name, name, "viewer", owner, NO_LIMITS, created_at=0)


def the_shares(**costs: float) -> Shares:
    figures: dict[str, Any] = {"burst": 1_000_000, "per_second": 1.0, **costs}
    return Shares(Rates(**figures, monotonic=lambda: 0.0))


class Calls:
    """Calls that go on until they are ended."""

    def __init__(self, shares: Shares, cost: float = EXPENSIVE) -> None:
        self._shares = shares
        self._cost = cost
        self._over: list[asyncio.Event] = []
        self.began: list[str] = []
        self.tasks: list[asyncio.Task[None]] = []

    async def begin(self, *tokens: Token) -> None:
        for token in tokens:
            self.tasks.append(asyncio.create_task(self._call(token)))
        for _ in range(5):
            await asyncio.sleep(0)

    async def _call(self, token: Token) -> None:
        async with self._shares.admit(token, self._cost):
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

    assert played(play()).expensive.is_idle


def test_too_many_that_wait_are_refused_and_one_that_waits_in_vain_too() -> None:
    async def play() -> None:
        shares = the_shares()
        shares.patience = 0.01
        calls, token = Calls(shares), a_token("a")
        await calls.begin(*[token] * (OF_EXPENSIVE.of_token + MOST_WAITING))
        with pytest.raises(RefusedError) as refused:
            await calls._call(token)
        assert refused.value.status == 429 and int((refused.value.headers or {})["retry-after"]) > 0
        waiting = calls.tasks[OF_EXPENSIVE.of_token :]
        found = await asyncio.gather(*waiting, return_exceptions=True)
        assert {error.status for error in found if isinstance(error, RefusedError)} == {429}
        assert len(found) == MOST_WAITING
        await calls.end_all()
        assert shares.expensive.is_idle

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
        assert shares.expensive.is_idle

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


def test_costs_are_taken_from_the_token_also_those_of_calls_that_cost_little() -> None:
    """A page of so many next slots that it stood just below the bound was free, and asked for without end."""

    async def play() -> None:
        shares, token = the_shares(burst=100, per_second=10.0), a_token("a")
        for _ in range(25):
            async with shares.admit(token, EXPENSIVE - 1):
                pass
        for cost in (EXPENSIVE - 1, 25):
            with pytest.raises(RefusedError) as refused:
                async with shares.admit(token, cost):
                    pass
            assert (refused.value.status, refused.value.headers) == (
                429,
                {"retry-after": str(-(-cost // 10))},
            )
        async with shares.admit(token, 0), shares.admit(a_token("b"), 25):
            pass

    played(play())


def test_cheap_calls_have_places_by_owner_and_token_too_and_wait_for_no_expensive_one() -> None:
    async def play() -> list[str]:
        shares = the_shares()
        expensive, calls = Calls(shares), Calls(shares, cost=0)
        await expensive.begin(*[a_token("a1", "a")] * 5)
        await calls.begin(*[a_token("a1", "a")] * 9, *[a_token("a2", "a")] * 9, a_token("b", "b"))
        began = list(calls.began)
        await calls.begin(a_token("a3", "a"), a_token("c", "c"), a_token("d", "d"), a_token("a4", "a"))
        await calls.end()
        await calls.end()
        following = calls.began[len(began) :]
        await calls.end_all()
        await expensive.end_all()
        assert shares.cheap.is_idle and shares.expensive.is_idle
        return ["", *began, "", *following]

    of_a = ["a1"] * OF_CHEAP.of_token + ["a2"] * (OF_CHEAP.of_owner - OF_CHEAP.of_token)
    # The next owner at once, then whoever of the same owner has the fewest.
    assert played(play()) == ["", *of_a, "b", "", "c", "d", "a3"]


def test_the_tokens_of_an_owner_share_a_rate_and_costs() -> None:
    """Its admin makes as many tokens as it likes."""
    rates = Rates(burst=12, per_second=1.0, monotonic=lambda: 0.0)
    tokens = [a_token(f"a{number}", "a") for number in range(5)]
    taken = [rates.take_of(token, 4) == 0 for _ in range(3) for token in tokens]
    assert sum(taken) * 4 == OF_OWNER * 12
    assert rates.take_of(a_token("another", "a"), 1) == pytest.approx(1 / OF_OWNER)
    assert rates.take_of(a_token("b1", "b"), 4) == rates.take_of(a_token("no owner"), 4) == 0


def test_an_owner_has_a_part_of_the_streams_however_many_tokens_it_has(service: Service) -> None:
    streams = Streams(service.runtime, None, the_shares())
    with ExitStack() as opened:
        for number in range(MOST_OF_OWNER):
            opened.enter_context(streams.admit(a_token(f"a{number // 50}", "a")))
        with pytest.raises(RefusedError) as refused:
            opened.enter_context(streams.admit(a_token("another", "a")))
        assert refused.value.status == 429
        opened.enter_context(streams.admit(a_token("b", "b")))
        opened.enter_context(streams.admit(a_token("no owner")))
    assert streams.count == 0


# -- on a server --


@contextmanager
def all_places_taken(service: Service, token: Token) -> Iterator[None]:
    """Hold both places of a token on the server's own loop."""
    released = threading.Event()

    async def hold() -> None:
        async with service.context.shares.admit(token, EXPENSIVE):
            while not released.is_set():
                await asyncio.sleep(0.01)

    loop = loop_of(service)
    held = [asyncio.run_coroutine_threadsafe(hold(), loop) for _ in range(OF_EXPENSIVE.of_token)]
    try:
        until(lambda: service.context.shares.expensive.count_taken(token.token_id) == OF_EXPENSIVE.of_token)
        yield
    finally:
        released.set()
        for one in held:
            one.result()


def loop_of(service: Service) -> asyncio.AbstractEventLoop:
    """The loop of a server that has admitted somebody."""
    service.admin.get("/audit/")
    loop = service.context.shares.expensive._loop
    assert loop is not None
    return loop


def test_a_token_that_does_expensive_things_is_served_cheap_ones_and_others_are_served_all(
    tmp_path: Path,
) -> None:
    with serving(tmp_path) as service:
        service.context.shares.patience = 0.1
        client = service.client(owner="a")
        token = token_of(service, "a")
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


@contextmanager
def no_writes(folder: Path) -> Iterator[None]:
    """Keep everybody from writing to the database of a service; its readers read."""
    with (folder / "api.db.lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def test_another_owner_is_served_while_very_many_calls_of_one_wait(tmp_path: Path) -> None:
    """Cheap ones took all threads, and waited in one line with those of everybody else."""
    with serving(tmp_path) as service, ThreadPoolExecutor(40) as many:
        client, other = service.client(owner="a"), service.client(owner="b")
        assert client.get("/me/").status == other.get("/schedules/").status == 200
        with no_writes(tmp_path):
            writes = [many.submit(client.create, run=MESSAGE) for _ in range(40)]
            until(lambda: service.context.shares.cheap.count_waiting(token_of(service, "a").token_id) > 20)
            answers = [many_read.status for many_read in map(other.get, ["/schedules/", "/me/", "/budgets/"])]
        assert answers == [200] * 3
        assert len({write.result()["id"] for write in writes}) == 40


def test_streams_that_begin_long_ago_read_when_it_is_their_turn(tmp_path: Path) -> None:
    """A hundred of one token, from the first event on, kept the event loop and the threads from everybody else."""
    with serving(tmp_path) as service, ExitStack() as opened:
        clients = {name: service.client(owner=name) for name in "ab"}
        for client in clients.values():
            client.create(run=MESSAGE)
        with all_places_taken(service, token := token_of(service, "a")):
            streams = {
                name: opened.enter_context(stream(client, "/events/stream/", after="0.0"))
                for name, client in clients.items()
            }
            assert streams["b"].next().fields["owner"] == "b"
            assert service.context.shares.expensive.count_waiting(token.token_id) == 1
        assert streams["a"].next().fields["owner"] == "a"


def token_of(service: Service, owner: str) -> Token:
    (token,) = (one for one in service.runtime.tokens.all() if one.owner == owner)
    return token


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
