"""The worker of B2: schedules created in bulk or one by one, in an empty database in each round."""

import argparse
import json
import os
import secrets
import subprocess
import sys
from collections.abc import Callable
from http.client import HTTPConnection
from time import perf_counter
from typing import Any, Protocol
from urllib.parse import urlsplit

from benchmarks.workers.answering import Task, Timings, answer_until_end
from benchmarks.workers.places import Files, Place, a_place
from benchmarks.workers.sizes import Size, accept_sizes, size_of

BULK, AT_ONCE = 100_000, 1_000
BY_PEER = 1_000  # APScheduler's cost per schedule does not depend on their number
SINGLE = 200


class Surface(Protocol):
    """A way in that users have, open on one database."""

    def open(self) -> None:
        """Get ready for a turn, before the clock starts."""

    def create(self, numbers: range) -> None: ...

    def close(self) -> None: ...


class Program:
    """`Scheduler.add_many`."""

    def __init__(self, url: str) -> None:
        from everwhen import Scheduler

        self.scheduler = Scheduler(url, name="bench")

    def open(self) -> None:
        """Keep what is open."""

    def create(self, numbers: range) -> None:
        self.scheduler.add_many([{"id": f"s{n}", **schedule(n)} for n in numbers])  # type: ignore[typeddict-item]

    def close(self) -> None:
        self.scheduler.close()


class Rest:
    """An `everwhen api` process: `POST /schedules/batch/` with a JSON line per schedule, `POST /schedules/` for one."""

    def __init__(self, url: str) -> None:
        token = secrets.token_urlsafe(32)
        command = [sys.executable, "-m", "everwhen", "api", "--database", url]
        rules = {**os.environ, "EVERWHEN_API_PORT": "0", "EVERWHEN_ADMIN_TOKEN": token}
        self.server = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=rules
        )
        assert self.server.stdout is not None
        address = next(line for line in self.server.stdout if line.startswith(b"API on ")).split()[2]
        self.client = HTTPConnection(urlsplit(address.decode()).netloc)
        self.token = token

    def open(self) -> None:
        """Connect anew, as the server closes what is idle while others have their turn; then keep it."""
        self.client.close()
        self.get("/me/")

    def create(self, numbers: range) -> None:
        if len(numbers) == 1:
            self.post("/schedules/", {"name": f"s{numbers[0]}", **schedule(numbers[0])})
            return
        body = "\n".join(json.dumps({"name": f"s{n}", **schedule(n)}) for n in numbers)
        results = self.send("POST", "/schedules/batch/", body, "application/x-ndjson")
        if results.count(b'"id"') != len(numbers):
            raise RuntimeError(f"the batch was answered {results[:300]!r}")

    def get(self, path: str) -> Any:
        return json.loads(self.send("GET", path, None, "application/json"))

    def post(self, path: str, body: object) -> Any:
        return json.loads(self.send("POST", path, json.dumps(body), "application/json"))

    def send(self, method: str, path: str, body: str | None, kind: str) -> bytes:
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": kind}
        self.client.request(method, f"/api/v1{path}", body, headers)
        answer = self.client.getresponse()
        content = answer.read()
        if answer.status not in (200, 201):
            raise RuntimeError(f"{method} {path} was answered {answer.status}: {content[:300]!r}")
        return content

    def close(self) -> None:
        self.client.close()
        self.server.terminate()
        self.server.communicate()


class Loading:
    """everwhen, through one of its surfaces."""

    def __init__(
        self, place: Place, open_surface: Callable[[str], Surface], count: int, at_once: int
    ) -> None:
        from everwhen.version import __version__

        self.version = __version__
        self.place = place
        self.open_surface = open_surface
        self.count = count
        self.at_once = at_once
        self.url = ""

    def check(self) -> dict[str, str]:
        return {}

    def run(self, part: int, parts: int) -> Timings:
        if part == 0:
            self.begin_anew()
        self.surface.open()
        share = self.count // parts
        began = perf_counter()
        for start in range(part * share, (part + 1) * share, self.at_once):
            self.surface.create(range(start, start + self.at_once))
        elapsed = perf_counter() - began
        if part == parts - 1:
            self.surface.close()
        return {"schedule": (elapsed, share)}

    def begin_anew(self) -> None:
        if self.url:
            self.place.drop(self.url)
        self.url = self.place.fresh()
        self.surface = self.open_surface(self.url)


def schedule(number: int) -> dict[str, Any]:
    return {**fields(number), "run": {"message": {"text": "now"}}}


def fields(number: int) -> dict[str, Any]:
    """Return half intervals, half cron."""
    if number % 2:
        return {"cron": f"{number % 60} {number % 24} * * *"}
    return {"every": f"{3_600 + number % 3_600}s", "first_run": "after_interval"}


def everwhen(place: Place, way: str, size: Size) -> Task:
    return Loading(place, Program, *counts(way, size))


def everwhen_rest(place: Place, way: str, size: Size) -> Task:
    return Loading(place, Rest, *counts(way, size))


def raw(place: Place, way: str, size: Size) -> Task:
    if isinstance(place, Files):
        from benchmarks.workers.raw import RawLoading

        return RawLoading(place, *counts(way, size))
    from benchmarks.workers.raw_postgres import RawLoading as RawLoadingServed

    return RawLoadingServed(place, *counts(way, size))


def apscheduler(place: Place, _way: str, size: Size) -> Task:
    from benchmarks.workers import apscheduler_jobs

    return apscheduler_jobs.Loading(place, "wal", size.of(BY_PEER, BY_PEER // 2, 3))


def counts(way: str, size: Size) -> tuple[int, int]:
    """Return how many schedules there are, and how many of them each call creates."""
    if way == "single":
        return size.of(SINGLE, SINGLE, 2), 1
    return size.of(BULK, BULK // 10, 10), size.of(AT_ONCE, AT_ONCE, 10)


CONTESTANTS: dict[str, Callable[[Place, str, Size], Task]] = {
    "everwhen": everwhen,
    "everwhen-rest": everwhen_rest,
    "raw": raw,
    "apscheduler": apscheduler,
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("contestant", choices=CONTESTANTS)
    parser.add_argument("way", choices=("bulk", "single"))
    accept_sizes(parser)
    options = parser.parse_args()
    with a_place() as place:
        answer_until_end(CONTESTANTS[options.contestant](place, options.way, size_of(options)))


if __name__ == "__main__":
    main()
