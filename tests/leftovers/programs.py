"""Programs that open something, use it and close it, and then say what of the process is still open.

`main`, called with NAME FOLDER, prints one line per leftover: an open file or socket, a thread, a
child process. A process of its own, because a test runner has threads and files of others.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.client import HTTPResponse
from pathlib import Path
from urllib.request import Request, urlopen

import uvloop
from click.testing import CliRunner

from everwhen import Run, Scheduler, SchedulerEvent
from everwhen.cli.configuration import this_host
from everwhen.cli.main import everwhen
from everwhen.config.read import read_configuration
from everwhen.engine.service import ServiceOptions
from everwhen.model.node import Role
from everwhen.operations.apply import apply
from everwhen.wiring import build_service, open_stack
from tests.api.serving import Service, serving

CONFIG = """
api: {allow_code_targets: true, port: 0}
schedules:
  - {id: hello, every: 1h, run: {command: [echo, hello]}}
  - {id: fetch, every: 1h, run: {http: {url: "http://127.0.0.1:9/"}}}
quiet_hours: {nights: {windows: [{between: "22:00-07:00"}]}}
"""
READING = (
    "schedules list",
    "schedules show hello",
    "schedules upcoming hello",
    "why hello",
    "jobs list",
    "system status",
    "system scheduler",
    "quiet-hours list",
    "quiet-hours show nights",
    "audit",
    "token list",
    "config check",
    "config show",
    "config diff",
    "config schema",
    "db check",
    "simulate --to 2100-01-01T01:00Z --from 2100-01-01T00:00Z",
    "next @daily",
)


def leftovers() -> Iterator[str]:
    """What is open: files and sockets, threads, child processes."""
    gc.collect()
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the listing itself
            yield f"file {entry.name} {entry.readlink()}"
    for thread in threading.enumerate():
        if thread is not threading.main_thread():
            yield f"thread {thread.name}"
    for task in Path("/proc/self/task").iterdir():
        for child in (task / "children").read_text().split():
            yield f"child {Path(f'/proc/{child}/cmdline').read_text()!r}"


def _wait_for(has_run: Callable[[], bool]) -> None:
    waiting = threading.Event()
    while not has_run():
        waiting.wait(0.01)


def run_scheduler(folder: Path) -> None:
    """Threads, a child process for an isolated function, a command with its guardian, an http request."""
    logging.getLogger("everwhen").addHandler(logging.NullHandler())  # the request fails, and that is logged
    scheduler = Scheduler(f"sqlite:///{folder}/a.db", name="a")
    scheduler.every("1h", id="thread")(in_thread)
    scheduler.every("1h", id="child", isolate=True)(in_thread)
    scheduler.every("1h", id="loop")(on_loop)
    with scheduler:
        scheduler.add("command", every="1h", run={"command": ["true"]})
        scheduler.add("http", every="1h", run={"http": {"url": "http://127.0.0.1:9/"}})
        ids = ("thread", "child", "loop", "command", "http")
        _wait_for(lambda: all(scheduler.get_schedule(one).last_completed_at for one in ids))


def run_listeners(folder: Path) -> None:
    """A thread that listens, its cursor, and the loop of a coroutine."""
    scheduler = Scheduler(f"sqlite:///{folder}/l.db", name="l")
    heard: list[str] = []
    scheduler.every("1h", id="thread")(in_thread)
    scheduler.on("job.succeeded")(lambda event: heard.append(event.type))

    @scheduler.on("job.succeeded", scope="all", name="audit")
    async def hear(event: SchedulerEvent) -> None:
        heard.append(event.type)

    with scheduler:
        _wait_for(lambda: len(heard) == 2)


def run_async_scheduler(folder: Path) -> None:
    async def program() -> None:
        scheduler = Scheduler("sqlite://", name="b")
        scheduler.every("1h", id="loop")(on_loop)
        async with scheduler:
            while scheduler.get_schedule("loop").last_completed_at is None:
                await asyncio.sleep(0.01)

    asyncio.run(program())


def in_thread(run: Run) -> str:
    return str(run.attempt)


async def on_loop(run: Run) -> None:
    await asyncio.sleep(0)


def _run_node(folder: Path, role: Role) -> None:
    stack = open_stack(f"sqlite:///{folder}/n.db")
    service = build_service(stack, ServiceOptions(role=role))
    service.start()
    if role != "worker":
        _wait_for(lambda: service.ticker.counts.checks > 0)
    service.stop()
    stack.close()


def run_nodes(folder: Path) -> None:
    for role in ("up", "scheduler", "worker"):
        _run_node(folder, role)


def _stream(service: Service) -> HTTPResponse:
    headers = {"Authorization": f"Bearer {service.admin.secret}", "Last-Event-ID": "0"}
    stream: HTTPResponse = urlopen(
        Request(f"{service.url}/api/v1/events/stream/", headers=headers), timeout=60
    )
    return stream


def run_api(folder: Path) -> None:
    with serving(folder, file=CONFIG) as service:
        assert service.admin.get("/schedules/").status == 200
        with _stream(service) as stream:
            assert stream.readline()


def read_commands(folder: Path) -> None:
    (folder / "everwhen.yaml").write_text(CONFIG)
    options = ["--config", str(folder / "everwhen.yaml")]
    os.chdir(folder)
    stack = open_stack(f"sqlite:///{folder}/everwhen.db")
    apply(stack.runtime, read_configuration(folder / "everwhen.yaml", this_host()).declared)
    stack.close()
    for fields in READING:
        needs_file = fields not in ("next @daily", "config schema")
        answer = CliRunner().invoke(everwhen, [*fields.split(), *(options if needs_file else [])])
        expected = 1 if fields == "system status" else 0  # no scheduler runs
        if answer.exit_code != expected:
            raise SystemExit(f"{fields}: {answer.output} {answer.exception!r}")


PROGRAMS: dict[str, Callable[[Path], None]] = {
    "scheduler": run_scheduler,
    "listeners": run_listeners,
    "async scheduler": run_async_scheduler,
    "nodes": run_nodes,
    "api": run_api,
    "reading commands": read_commands,
}


def main() -> None:
    uvloop.new_event_loop().close()  # libuv keeps one pipe for the signals of the process, from its first loop on
    before = set(leftovers())
    PROGRAMS[sys.argv[1]](Path(sys.argv[2]))
    for leftover in leftovers():
        if leftover not in before:
            print(leftover)
