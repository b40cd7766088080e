"""What is true of every kind of target: payload, outcome, timeout, cancel, a refusal of nothing."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from everwhen.engine.call_executor import CallExecutor
from everwhen.model.outcome import Outcome
from everwhen.target import Run, Target
from everwhen.targets.command import CommandTarget
from everwhen.targets.python_call import PythonTarget
from tests.targets import functions
from tests.targets.http_server import Requests, Seen, a_server, status
from tests.targets.running import a_run, children, perform, until
from tests.targets.test_http import hang

ROOT = Path(__file__).parents[2]
PRINT = "import os; print(os.environ['EVERWHEN_PAYLOAD'])"


@dataclass
class Kind:
    """A kind of target, and the words with which it does each thing."""

    target: Target
    echoes: dict[str, Any]  # its result is the payload as JSON
    fails: dict[str, Any]
    fails_for_good: dict[str, Any]
    never_ends: dict[str, Any]

    def run(self, fields: dict[str, Any], run: Run | None = None, **keys: Any) -> Outcome:
        return perform(self.target, fields, run, **keys)


def command() -> Iterator[Kind]:
    shell = ["sh", "-c"]
    yield Kind(
        CommandTarget(),
        echoes={"argv": [sys.executable, "-c", PRINT]},
        fails={"argv": [*shell, "exit 1"]},
        fails_for_good={"argv": [*shell, "exit 78"]},
        never_ends={"argv": ["sleep", "60"]},
    )


def http() -> Iterator[Kind]:
    def answer(connection: Any, request: Seen) -> None:
        match request.path:
            case "/echo":
                status(200, json.dumps(request.json["payload"]))(connection, request)
            case "/fail":
                status(500)(connection, request)
            case "/never":
                hang(connection, request)
            case _:
                status(400)(connection, request)

    with a_server(answer) as server:
        paths = [{"url": f"{server.url}/{path}"} for path in ("echo", "fail", "wrong", "never")]
        yield Kind(Requests(), *paths)


def python(isolate: bool) -> Iterator[Kind]:
    functions.gate.clear()
    call_executor = CallExecutor(4)

    def fields(name: str) -> dict[str, Any]:
        return {"function": f"tests.targets.functions:{name}", "isolate": isolate, "cwd": str(ROOT)}

    yield Kind(
        PythonTarget(call_executor),
        fields("echoes"),
        fields("exits"),
        fields("outcome"),
        fields("awaits_for_ever"),
    )
    functions.gate.set()
    call_executor.close()


@pytest.fixture(params=["command", "http", "python", "isolated"])
def kind(request: pytest.FixtureRequest) -> Iterator[Kind]:
    match request.param:
        case "command":
            yield from command()
        case "http":
            yield from http()
        case name:
            yield from python(isolate=name == "isolated")


def test_it_gets_the_payload(kind: Kind) -> None:
    payload: dict[str, Any] = {"text": "ü \" ' $HOME\n", "numbers": [1, 2.5, None]}
    outcome = kind.run(kind.echoes, a_run(**payload))
    assert outcome.status == "succeeded"
    assert json.loads(outcome.result or "") == payload


def test_a_failure_may_be_retried_or_is_final_and_says_why(kind: Kind) -> None:
    failed, final = kind.run(kind.fails), kind.run(kind.fails_for_good)
    assert (failed.status, failed.is_final, final.status, final.is_final) == ("failed", False, "failed", True)
    assert failed.error and final.error


def test_the_time_is_up(kind: Kind) -> None:
    run, before = a_run(seconds=1.5), children()
    outcome = kind.run(kind.never_ends, run)
    assert outcome.status == "timed_out"
    assert (outcome.error or "").startswith("timed out after 1.5s")
    assert run.cancelled.is_set()
    until(lambda: children() <= before)
    until(lambda: all(work.done() for work in run.still_running))


def test_somebody_cancels_it_before_it_has_begun(kind: Kind) -> None:
    run = a_run()
    outcome = kind.run(kind.never_ends, run, cancel_when=lambda: True)
    assert outcome.status == "cancelled"
    until(lambda: all(work.done() for work in run.still_running))
