"""Every key of `service` arrives where it is used, in every process that uses it.

One row for each key: what a file says, what that is where it is used, and where that is in each process. A key that is
added has no row, and the first test says so.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner

import everwhen.api.app
from everwhen.api.context import ApiContext
from everwhen.cli import api_command, serving
from everwhen.cli.main import everwhen as everwhen_command
from everwhen.cli.node_log import current_settings
from everwhen.cli.node_resources import chain_links
from everwhen.config.schema import RETENTION, SERVICE
from everwhen.config.settings import LogSettings, Settings
from everwhen.engine.heartbeat import OutsideHeartbeat
from everwhen.engine.service import Service, ServiceOptions
from everwhen.model.instants import DAY, SECOND
from everwhen.model.retention import Retention
from everwhen.operations.schedules import get_schedule
from everwhen.queues.rq import RqLinks
from everwhen.store.opened import store_of
from everwhen.wiring import Stack, build_service, open_heartbeat, open_stack
from everwhen.worker_runtime import open_worker_runtime

NODES = ("up", "scheduler", "worker")
PROCESSES = (*NODES, "api", "queue worker")
KEPT = {"jobs": 31, "audit": 32, "breaker_transitions": 33, "messages": 34, "output": 35}  # days
KEPT |= {"alerts": 36, "deliveries": 37}


@dataclass
class Seen:
    """What a process was made of."""

    folder: Path
    stack: Any = None
    service: Any = None
    context: Any = None
    job_runner: Any = None
    grace: int | None = None  # of the schedule in the file
    timeout: float | None = None  # of the stop
    log: Any = None
    heartbeat: tuple[str, float] | None = None  # to the outside


Look = Callable[[Seen], object]


class Row(NamedTuple):
    """A key: what the file says (to all processes, or to each), what that is where it is used, and where that is."""

    said: object
    expected: object
    where: Mapping[str, Look]


def in_nodes(look: Look, **others: Look) -> dict[str, Look]:
    return {**dict.fromkeys(NODES, look), **others}


def zones(seen: Seen) -> object:
    found = {seen.stack.runtime.timezone} if seen.stack is not None else set()
    if seen.context is not None:
        found |= {seen.context.runtime.timezone, seen.context.rules().timezone}
    return found


def check_intervals(seen: Seen) -> object:
    return {seen.service.options.check_interval, store_of(seen.stack.runtime).slots._lately / SECOND / 10}


def node_workers(seen: Seen) -> object:
    """Workers of the node, its threads, and those of Python targets."""
    worker, python = seen.service.worker, seen.service._targets["python"]
    return {worker._max_workers, worker._runs._threads._most, python._hands._most}


def leases(seen: Seen) -> object:
    found = {seen.service.lease.seconds}
    if seen.service._dispatcher is not None:
        found.add(seen.service._dispatcher._patience / SECOND)
    return found


def retained(seen: Seen) -> object:
    found = seen.service.options.retention
    assert seen.service._janitor._retention == found
    assert seen.context is None or seen.context.jobs_kept == found.jobs
    return {age.name: getattr(found, age.name) // DAY for age in fields(found)}


def graces(seen: Seen) -> object:
    """Of what the file declares, and of what somebody submits."""
    found = set() if seen.context is None else {seen.context.rules().misfire_grace}
    return found if seen.grace is None else found | {f"{seen.grace // SECOND}s"}


ROWS: Mapping[str, Row] = {
    "name": Row(
        "billing",
        "billing",
        in_nodes(
            lambda seen: seen.service.node.partition("-")[0],
            api=lambda seen: seen.context.metrics._service,
            worker_runtime=lambda seen: seen.job_runner.node.partition("-")[0],
        ),
    ),
    "database": Row(
        "sqlite:///{folder}/other.db",
        True,
        dict.fromkeys(PROCESSES, lambda seen: (seen.folder / "other.db").exists()),
    ),
    "timezone": Row("Europe/Berlin", {"Europe/Berlin"}, dict.fromkeys(PROCESSES, zones)),
    "check_interval": Row("7s", {7.0}, in_nodes(check_intervals)),
    "misfire_grace": Row("11s", {"11s"}, {"up": graces, "scheduler": graces, "api": graces}),
    "catch_up_stagger": Row(
        "13s",
        13 * SECOND,
        in_nodes(
            lambda seen: store_of(seen.stack.runtime).slots._stagger,
            worker_runtime=lambda seen: store_of(seen.stack.runtime).slots._stagger,
        ),
    ),
    "max_workers": Row(3, {3}, in_nodes(node_workers)),
    "max_workers_per_owner": Row(2, 2, in_nodes(lambda seen: seen.service.worker._most_per_owner)),
    "shutdown_timeout": Row("17s", 17.0, in_nodes(lambda seen: seen.timeout)),
    "lease": Row(
        "19s", {19.0}, in_nodes(leases, worker_runtime=lambda seen: {seen.job_runner.lease.seconds})
    ),
    "when_cut_off": Row(
        "stop",
        "stop",
        in_nodes(
            lambda seen: seen.service._greeting._when_cut_off,
            worker_runtime=lambda seen: seen.job_runner._greeting._when_cut_off,
        ),
    ),
    "dispatch": Row(
        {"up": "rq", "scheduler": "celery", "worker": "local", "api": "rq", "queue worker": "rq"},
        {"up": "RQ", "scheduler": "Celery", "api": "rq"},
        {
            "up": lambda seen: seen.service._dispatcher._queue.name,
            "scheduler": lambda seen: seen.service._dispatcher._queue.name,
            "api": lambda seen: seen.context.node_hooks.dispatch,
        },
    ),
    "redis": Row(
        "redis://127.0.0.1:1/5",
        "redis://127.0.0.1:1/5",
        {"up": lambda seen: seen.service._dispatcher._queue._url},
    ),
    "celery_broker": Row(
        "redis://127.0.0.1:1/6",
        "redis://127.0.0.1:1/6",
        {"scheduler": lambda seen: seen.service._dispatcher._queue._broker},
    ),
    "approval_ttl": Row("3d", 3 * DAY, in_nodes(lambda seen: seen.service._tidy.keywords["approval_ttl"])),
    "retention": Row({age: f"{days}d" for age, days in KEPT.items()}, KEPT, in_nodes(retained)),
    "log": Row(
        {"format": "json", "level": "error"},
        LogSettings("json", "error"),
        in_nodes(lambda seen: seen.log, api=lambda seen: seen.log),
    ),
    "heartbeat": Row(
        {"url": "http://127.0.0.1:1/", "every": "23s"},
        ("http://127.0.0.1:1/", 23.0),
        in_nodes(lambda seen: seen.heartbeat),
    ),
}


def file_of(process: str, folder: Path) -> Path:
    """A file that says something else than the defaults with every key."""
    service = {}
    for key, row in ROWS.items():
        said: Any = row.said[process] if key == "dispatch" else row.said  # type: ignore[index]
        service[key] = said.format(folder=folder) if isinstance(said, str) else said
    schedule = {"id": "a", "cron": "0 0 29 2 *", "run": {"command": ["true"]}}
    path = folder / "everwhen.yaml"
    path.write_text(json.dumps({"service": service, "api": {"port": 0}, "schedules": [schedule]}))
    return path


def test_every_key_has_its_row_and_a_value_that_is_no_default() -> None:
    assert ROWS.keys() == SERVICE.keys.keys() == {key.name for key in fields(Settings)}
    assert KEPT.keys() == RETENTION.keys.keys() == {age.name for age in fields(Retention)}
    assert all(row.said != SERVICE.keys[key].default for key, row in ROWS.items())
    assert all(f"{days}d" != RETENTION.keys[age].default for age, days in KEPT.items())


@pytest.mark.parametrize("process", PROCESSES)
def test_every_key_arrives_where_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, process: str
) -> None:
    path, seen = file_of(process, tmp_path), Seen(tmp_path)
    if process == "queue worker":
        look_into_an_worker_runtime(path, seen, monkeypatch)
    else:
        look_into(process, path, seen, monkeypatch)
    looks = {key: row.where[process] for key, row in ROWS.items() if process in row.where}
    expected = {key: ROWS[key].expected for key in looks}
    if "dispatch" in looks:
        expected["dispatch"] = ROWS["dispatch"].expected[process]  # type: ignore[index]
    assert {key: look(seen) for key, look in looks.items()} == expected


def look_into(process: str, path: Path, seen: Seen, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the process from its start to its stop; nothing is put in anything's place, it is only looked at."""
    build, create, stop = build_service, everwhen.api.app.create_app, Service.stop

    def build_and_keep(stack: Stack, options: ServiceOptions, **keys: Any) -> Service:
        seen.stack, seen.service = stack, (service := build(stack, options, **keys))
        return service

    def open_and_keep(url: str, every: float, unreadiness: Callable[[], str | None]) -> OutsideHeartbeat:
        seen.heartbeat = (url, every)
        return open_heartbeat(url, every, unreadiness)

    def create_and_keep(context: ApiContext, *further: Any, **more: Any) -> Any:
        seen.context = context
        return create(context, *further, **more)

    def stop_and_keep(service: Service, *, timeout: float = -1.0, **keys: Any) -> None:
        seen.timeout = timeout
        stop(service, timeout=timeout, **keys)

    def stop_at_once(_stopped: threading.Event) -> None:
        seen.log = current_settings()
        if process in ("up", "scheduler"):
            seen.grace = get_schedule(seen.stack.runtime, "a").definition.misfire_grace

    monkeypatch.setattr(serving, "build_service", build_and_keep)
    monkeypatch.setattr(serving, "open_heartbeat", open_and_keep)
    monkeypatch.setattr(everwhen.api.app, "create_app", create_and_keep)
    monkeypatch.setattr(Service, "stop", stop_and_keep)
    for module in (serving, api_command):
        monkeypatch.setattr(module, "wait_until", stop_at_once)
    result = CliRunner().invoke(everwhen_command, [process, "--config", str(path)])
    assert result.exit_code == 0, (result.output, result.exception)


def look_into_an_worker_runtime(path: Path, seen: Seen, monkeypatch: pytest.MonkeyPatch) -> None:
    open_stack(f"sqlite:///{seen.folder}/other.db").close()
    monkeypatch.setenv("EVERWHEN_CONFIG", str(path))
    worker_runtime = open_worker_runtime()
    seen.stack, seen.job_runner = worker_runtime.stack, worker_runtime.job_runner()
    worker_runtime.close()


def test_schedules_that_go_on_by_themselves_do_so_on_the_redis_of_the_file() -> None:
    links = chain_links("up", Settings(dispatch="rq-chain", redis="redis://127.0.0.1:1/7"))
    assert isinstance(links, RqLinks)
    assert links._url == "redis://127.0.0.1:1/7"
    links.close()
