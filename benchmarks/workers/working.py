"""The worker of B8 and B9: queued jobs, run by a node, compared with the same work without a scheduler."""

import argparse
import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from threading import Event
from time import perf_counter
from typing import Any

import aiohttp

from benchmarks.workers import runtimes
from benchmarks.workers.answering import Task, Timings, answer_until_end
from benchmarks.workers.places import Place, a_place
from benchmarks.workers.runtimes import NoWork, Witness
from everwhen.engine.service import Service, ServiceOptions
from everwhen.model.outcome import JobEnd
from everwhen.model.schedule import Target
from everwhen.store.opened import store_of
from everwhen.store.slots import Exchange
from everwhen.targets.command import CommandTarget
from everwhen.targets.http import HttpTarget
from tests.submissions import Submission, create_schedules

PROGRAM = "/bin/true"
PATIENCE_SECONDS = 120
SCHEDULE: dict[str, Any] = {"every": "1h", "timeout": "10m"}

SERVER = """
import asyncio, sys
from aiohttp import web

async def answer(request):
    await request.read()
    return web.Response(text="ok")

async def main():
    application = web.Application()
    application.router.add_post("/", answer)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(site._server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)

asyncio.run(main())
"""


class Strict(Witness):
    """Counts only successes: work that fails at once would look fast."""

    def settle(self, now: int, ends: Sequence[JobEnd]) -> int:
        refuse_failures(ends)
        return super().settle(now, ends)

    def exchange(self, now: int, ends: Sequence[JobEnd], **keys: Any) -> Exchange:
        refuse_failures(ends)
        return super().exchange(now, ends, **keys)


def refuse_failures(ends: Sequence[JobEnd]) -> None:
    failed = [end.outcome.error for end in ends if end.outcome.status != "succeeded"]
    if failed:
        raise AssertionError(f"{len(failed)} jobs failed: {failed[0]}")


class Queued:
    """Fires a slot of every schedule, then times a node that runs the jobs."""

    version = runtimes.VERSION

    def __init__(self, place: Place, count: int, in_flight: int, kind: str, spec: dict[str, Any]) -> None:
        self.count, self.in_flight = count, in_flight
        self.stack = runtimes.a_stack(place.fresh())
        self.witness = store_of(self.stack.runtime).slots = Strict(store_of(self.stack.runtime).slots)  # type: ignore[assignment]
        self.target = Target(kind, json.dumps(spec))
        self.rounds = 0

    def check(self) -> dict[str, str]:
        self.run(0, 1)
        return {}

    def run(self, _part: int, _parts: int) -> Timings:
        self.rounds += 1
        ids = [f"r{self.rounds}-{number}" for number in range(self.count)]
        for start in range(0, self.count, runtimes.LOADED_AT_ONCE):
            batch = ids[start : start + runtimes.LOADED_AT_ONCE]
            create_schedules(self.stack.runtime, [self.submission(name) for name in batch])
        service = Service(self.stack.runtime, self.targets(), ServiceOptions(max_workers=self.in_flight))
        while service.ticker.step():
            pass
        self.witness.settled = 0
        began = perf_counter()
        service.start()
        try:
            self.wait()
            seconds = perf_counter() - began
        finally:
            service.stop()
        return {"job": (seconds, self.count)}

    def submission(self, name: str) -> Submission:
        return Submission(name, SCHEDULE, self.target, source="config")

    def targets(self) -> dict[str, Any]:
        return {
            "no-op": NoWork(),
            "command": CommandTarget(),
            "http": HttpTarget(self.stack.runtime.clock.now),
        }

    def wait(self) -> None:
        pause, deadline = Event(), perf_counter() + PATIENCE_SECONDS
        while self.witness.settled < self.count:
            pause.wait(0.002)
            if perf_counter() > deadline:
                raise TimeoutError(f"{self.count - self.witness.settled} jobs were not settled in time")


class Bare:
    """The same work in a loop without schedules."""

    version = f"Python {sys.version.split()[0]}"

    def __init__(
        self, count: int, in_flight: int, work: Callable[[int, int], Coroutine[Any, Any, None]]
    ) -> None:
        self.count, self.in_flight, self.work = count, in_flight, work

    def check(self) -> dict[str, str]:
        return {}

    def run(self, _part: int, _parts: int) -> Timings:
        began = perf_counter()
        asyncio.run(self.work(self.count, self.in_flight))
        return {"job": (perf_counter() - began, self.count)}


async def side_by_side(one: Callable[[], Coroutine[Any, Any, None]], count: int, in_flight: int) -> None:
    left = iter(range(count))

    async def hand() -> None:
        for _ in left:
            await one()

    await asyncio.gather(*(hand() for _ in range(in_flight)))


async def processes(count: int, in_flight: int) -> None:
    async def one() -> None:
        process = await asyncio.create_subprocess_exec(
            PROGRAM, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, start_new_session=True
        )
        await process.communicate()

    await side_by_side(one, count, in_flight)


async def requests(url: str, count: int, in_flight: int) -> None:
    body = json.dumps({"job_id": "sched-abc-n1-rc0", "payload": {}, "attempt": 1}).encode()
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:

        async def one() -> None:
            async with session.post(url, data=body, headers={"Content-Type": "application/json"}) as answer:
                await answer.read()

        await side_by_side(one, count, in_flight)


def a_task(name: str, place: Place, url: str, is_quick: bool) -> Task:
    no_ops, commands, posts = (1_000, 100, 400) if is_quick else (5_000, 400, 2_000)
    match name:
        case "no-op":
            return Queued(place, no_ops, 100, "no-op", {})
        case "command":
            return Queued(place, commands, 8, "command", {"argv": [PROGRAM]})
        case "bare-command":
            return Bare(commands, 8, processes)
        case "http":
            return Queued(place, posts, 32, "http", {"url": url})
        case _:
            return Bare(posts, 32, partial(requests, url))


NAMES = ("no-op", "command", "bare-command", "http", "bare-http")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("task", choices=NAMES)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    pipe = subprocess.PIPE
    with (
        a_place() as place,
        subprocess.Popen([sys.executable, "-c", SERVER], stdin=pipe, stdout=pipe, text=True) as server,
    ):
        assert server.stdout is not None and server.stdin is not None
        url = f"http://127.0.0.1:{server.stdout.readline().strip()}/"
        answer_until_end(a_task(options.task, place, url, options.quick))
        server.stdin.close()


if __name__ == "__main__":
    main()
