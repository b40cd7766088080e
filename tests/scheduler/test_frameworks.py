"""A scheduler inside frameworks, in real servers with one or several processes: each slot is fired once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from everwhen.model.job import Job
from everwhen.model.queries import EventFilter, JobFilter
from everwhen.operations.schedules import get_schedule
from everwhen.store.opened import OpenStore, store_of
from everwhen.verify.ledger import check_ledger
from everwhen.wiring import open_stack
from tests.scheduler.waiting import PATIENCE, until
from tests.servers.everwhen_database import PostgresDatabase
from tests.servers.unix_sockets import connect

ROOT = Path(__file__).parents[2]
PROGRAMS = "tests.scheduler.programs"
ENOUGH = 3


@contextmanager
def serving(url: str, *fields: str, folder: Path = ROOT, **variables: str) -> Iterator[subprocess.Popen[str]]:
    """A server, until it is told to end and has done so, without a word of trouble."""
    environ = {**os.environ, "SHOP_DATABASE": url, "PYTHONPATH": str(folder), **variables}
    command = [sys.executable, "-m", *fields]
    process = subprocess.Popen(command, cwd=folder, env=environ, stderr=subprocess.PIPE, text=True)
    try:
        yield process
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=PATIENCE)
        assert "Traceback" not in said, said
    finally:
        process.kill()
        process.communicate()


@contextmanager
def looking_at(url: str) -> Iterator[OpenStore]:
    stack = open_stack(url)
    try:
        yield store_of(stack.runtime)
    finally:
        stack.close()


def jobs(runtime: OpenStore) -> list[Job]:
    return runtime.ledger.jobs(JobFilter(), limit=1_000)


def events(runtime: OpenStore, kind: str) -> int:
    return sum(found.event.type == kind for found in runtime.ledger.events(EventFilter(), limit=1_000))


def asked(path: Path) -> str:
    """What the application answers over its socket."""
    with connect(path, PATIENCE) as connection:
        connection.sendall(b"GET / HTTP/1.0\r\nHost: shop\r\n\r\n")
        answer = b""
        while piece := connection.recv(4_096):
            answer += piece
    return answer.decode().partition("\r\n\r\n")[2].strip().strip('"')


def await_runs(runtime: OpenStore, processes: int) -> None:
    def is_enough() -> bool:
        return (
            events(runtime, "scheduler.started") >= processes
            and len([job for job in jobs(runtime) if job.status == "succeeded"]) >= ENOUGH
        )

    until(is_enough)


def check(url: str, processes: int) -> None:
    """Every slot has its one job, which ran once, in one of the processes; and all of them said goodbye."""
    with looking_at(url) as runtime:
        found = jobs(runtime)
        assert len({job.slot_at for job in found}) == len(found) >= ENOUGH
        assert get_schedule(runtime, "tick").state.fire_count == len(found)
        assert {job.attempt for job in found if job.status == "succeeded"} == {1}
        assert {job.status for job in found} <= {"succeeded", "queued"}  # fired, and then everybody stopped
        ran_in = {job.result for job in found if job.result is not None}
        assert all(result.startswith("process ") for result in ran_in)
        assert len(ran_in) <= processes
        assert events(runtime, "scheduler.started") == events(runtime, "scheduler.stopped") == processes
        with runtime.ledger.history() as history:
            report = check_ledger(history, runtime.clock.now())
        assert report.is_clean, report


def gunicorn(folder: Path, program: str, processes: int) -> list[str]:
    bind = ["--bind", f"unix:{folder / 'shop'}", "--workers", str(processes)]
    return ["gunicorn", *bind, "--log-level", "error", f"{PROGRAMS}.{program}"]


def test_a_plain_script_runs_until_it_is_asked_to_stop(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/shop.db"
    with looking_at(url) as runtime, serving(url, f"{PROGRAMS}.script") as process:
        await_runs(runtime, 1)
    assert process.returncode == 0
    check(url, 1)


def test_fastapi_runs_it_in_its_lifespan_and_on_its_loop(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/shop.db"
    server = ["uvicorn", "--uds", str(tmp_path / "shop"), "--log-level", "error"]
    with looking_at(url) as runtime, serving(url, *server, f"{PROGRAMS}.fastapi_app:app"):
        await_runs(runtime, 1)
        assert asked(tmp_path / "shop") == "running"
    check(url, 1)


def test_django_in_several_processes_of_gunicorn_shares_one_file(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/shop.db"
    with (
        looking_at(url) as runtime,
        serving(url, *gunicorn(tmp_path, "django_site:application()", 3)) as process,
    ):
        await_runs(runtime, 3)
        assert asked(tmp_path / "shop") == "running"
    assert process.returncode == 0
    check(url, 3)


def test_flask_in_several_processes_of_gunicorn_shares_one_postgresql(
    tmp_path: Path, everwhen_on_18: PostgresDatabase
) -> None:
    url = everwhen_on_18.empty()
    with looking_at(url) as runtime:
        with serving(url, *gunicorn(tmp_path, "flask_app:create_app()", 3)) as process:
            await_runs(runtime, 3)
            assert asked(tmp_path / "shop") == "running"
        assert process.returncode == 0
    check(url, 3)
