"""The worker of B9 without a scheduler: processes and requests in a loop, so many at a time."""

import argparse
import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from time import perf_counter
from typing import Any

import aiohttp

from benchmarks.workers.answering import Timings, answer_until_end
from benchmarks.workers.sizes import accept_sizes, size_of

PROGRAM = "/bin/true"
COMMANDS, REQUESTS = (400, 100, 3), (2_000, 400, 3)  # full, quick, toy

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


@contextmanager
def a_server() -> Iterator[str]:
    """Provide the URL of an HTTP server in another process."""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", SERVER], stdin=pipe, stdout=pipe, text=True) as server:
        assert server.stdout is not None and server.stdin is not None
        yield f"http://127.0.0.1:{server.stdout.readline().strip()}/"
        server.stdin.close()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("work", choices=("command", "http"))
    parser.add_argument("in_flight", type=int)
    accept_sizes(parser)
    options = parser.parse_args()
    size = size_of(options)
    if options.work == "command":
        answer_until_end(Bare(size.of(*COMMANDS), options.in_flight, processes))
        return
    with a_server() as url:
        answer_until_end(Bare(size.of(*REQUESTS), options.in_flight, partial(requests, url)))


if __name__ == "__main__":
    main()
