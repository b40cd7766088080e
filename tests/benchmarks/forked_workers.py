"""Runs workers of the benchmarks once at toy size, each in a process that is forked when everything is imported.

It reads a JSON list of [worker, arguments, URL of a server or null], and prints a JSON line for each: its complaint,
which is empty where it worked, and its seconds of CPU.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from importlib import import_module
from tempfile import TemporaryFile
from typing import IO, NamedTuple, NoReturn

from benchmarks.workers.places import SERVER

AT_ONCE = 6
REQUESTS = '{"command": "check"}\n{"command": "run", "part": 0, "parts": 1}\n'


class Toy(NamedTuple):
    worker: str
    arguments: tuple[str, ...]
    server: str | None


class Running(NamedTuple):
    """A forked worker, the file that it answers into, and the one that it complains into."""

    process: int
    answers: IO[str]
    complaints: IO[str]


def main() -> None:
    toys = [Toy(worker, tuple(arguments), server) for worker, arguments, server in json.load(sys.stdin)]
    for toy in toys:
        import_module(toy.worker)
    # A fork copies one thread only, so this process has no other.
    waiting = toys[::-1]
    running: dict[int, tuple[Toy, Running]] = {}
    while waiting or running:
        while waiting and len(running) < AT_ONCE:
            toy = waiting.pop()
            started = forked(toy)
            running[started.process] = (toy, started)
        process, status, used = os.wait3(0)
        toy, started = running.pop(process)
        complaint = complaint_of(started, os.waitstatus_to_exitcode(status))
        print(json.dumps([*toy[:2], complaint, used.ru_utime + used.ru_stime]), flush=True)


def forked(toy: Toy) -> Running:
    running = TemporaryFile("w+"), TemporaryFile("w+")  # noqa: SIM115  # `complaint_of` closes them
    process = os.fork()
    if not process:
        work(toy, *running)
    return Running(process, *running)


def work(toy: Toy, answers: IO[str], complaints: IO[str]) -> NoReturn:
    """Be the worker: its input ends after the requests."""
    status = 1
    try:
        with TemporaryFile("w+") as requests:
            requests.write(REQUESTS)
            requests.flush()
            requests.seek(0)
            os.dup2(requests.fileno(), 0)
        os.dup2(answers.fileno(), 1)
        os.dup2(complaints.fileno(), 2)
        sys.stdin = os.fdopen(0, closefd=False)
        sys.argv = [toy.worker, *toy.arguments, "--toy"]
        if toy.server is not None:
            os.environ[SERVER] = toy.server
        import_module(toy.worker).main()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def complaint_of(running: Running, status: int) -> str:
    """Return why a worker did not answer both requests, or nothing."""
    with running.answers, running.complaints:
        running.answers.seek(0)
        answers = [json.loads(line) for line in running.answers]
        errors = [answer["error"] for answer in answers if "error" in answer]
        if not status and not errors and len(answers) == 2 and answers[1]["timings"]:
            return ""
        running.complaints.seek(0)
        return f"status {status}, {errors or answers}: {running.complaints.read()[-2_000:]}"


if __name__ == "__main__":
    main()
