"""Python functions: in threads, on a loop, in a child process; whatever they do is an outcome."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from everwhen.engine.call_executor import CallExecutor
from everwhen.model.outcome import Outcome
from everwhen.target import Run
from everwhen.targets.python_call import PythonTarget
from tests.targets import functions
from tests.targets.running import Kept, a_run, perform, until

ROOT = Path(__file__).parents[2]


@pytest.fixture
def call_executor() -> Iterator[CallExecutor]:
    functions.gate.clear()
    functions.begun.clear()
    functions.reported.clear()
    call_executor = CallExecutor(4)
    yield call_executor
    functions.gate.set()
    call_executor.close()


@pytest.fixture(params=[False, True], ids=["here", "isolated"])
def isolate(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def run(
    call_executor: CallExecutor, name: str, given: Run | None = None, *, isolate: bool = False, **keys: Any
) -> Outcome:
    spec = {"function": f"tests.targets.functions:{name}", "isolate": isolate, "cwd": str(ROOT)}
    return perform(PythonTarget(call_executor), spec, given, **keys)


def test_a_function_gets_the_run_and_returns_its_result(call_executor: CallExecutor, isolate: bool) -> None:
    output = Kept()
    outcome = run(call_executor, "about", a_run(output=output, user=7), isolate=isolate)
    assert outcome.status == "succeeded"
    assert json.loads(outcome.result or "") == {
        "job": "sched-abc-n1-rc0",
        "slot": "2026-01-05 08:00:00+00:00",
        "attempt": 1,
        "cancelled": False,
    }
    assert output.text("stderr" if isolate else "log") == "INFO working on {'user': 7}\n"


@pytest.mark.parametrize(
    ("name", "outcome"),
    [
        ("nothing", Outcome("succeeded")),
        ("outcome", Outcome("failed", error="not today", is_final=True)),
        ("awaits", Outcome("succeeded", result="sched-abc-n1-rc0")),
        ("exits", Outcome("failed", error="called sys.exit(3)")),
        ("exits_well", Outcome("succeeded")),
        ("awaits_and_exits", Outcome("failed", error="called sys.exit(4)")),
    ],
)
def test_what_a_function_comes_to(
    call_executor: CallExecutor, isolate: bool, name: str, outcome: Outcome
) -> None:
    assert run(call_executor, name, isolate=isolate) == outcome


@pytest.mark.parametrize(
    ("name", "last"),
    [
        ("raises", "KeyError: 'no luck'"),
        ("raises_base", "tests.targets.functions.Raised: from the base"),
        ("raises_stop", "StopIteration"),
        ("raises_unprintable", "UnprintableError"),
        ("awaits_and_raises", "ValueError: async"),
        ("cancels_itself", "CancelledError"),
    ],
)
def test_a_function_that_raises_fails_with_its_traceback(
    call_executor: CallExecutor, isolate: bool, name: str, last: str
) -> None:
    outcome = run(call_executor, name, a_run(what="luck"), isolate=isolate)
    error = outcome.error or ""
    assert outcome.status == "failed" and not outcome.is_final
    assert last in error.splitlines()[-1]
    assert f"in {name}" in error
    assert "everwhen/targets" not in error


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("no.such.module:f", "cannot import 'no.such.module': ModuleNotFoundError"),
        ("tests.targets.functions:gone", "'tests.targets.functions' has no 'gone'"),
        ("tests.targets.functions:not_callable", "is a int, not a function"),
        ("nonsense", "'nonsense' is not of the form \"module:function\""),
    ],
)
def test_a_function_that_cannot_be_loaded_is_final_and_ends_its_schedule(
    call_executor: CallExecutor, isolate: bool, name: str, fault: str
) -> None:
    outcome = perform(PythonTarget(call_executor), {"function": name, "isolate": isolate})
    assert outcome.status == "failed" and outcome.is_final and outcome.invalidates
    assert fault in (outcome.error or "")


@pytest.mark.parametrize("isolate", [False, True])
@pytest.mark.parametrize("name", ["yields", "yields_and_awaits"])
def test_a_generator_is_no_success_since_nothing_of_it_ran(
    call_executor: CallExecutor, name: str, isolate: bool
) -> None:
    outcome = run(call_executor, name, isolate=isolate)
    assert (outcome.status, outcome.is_final) == ("failed", True)
    assert "it returned a generator, and nothing of it has run" in (outcome.error or "")


def test_what_an_isolated_function_prints_is_output(call_executor: CallExecutor) -> None:
    output = Kept()
    assert run(call_executor, "prints", a_run(output=output), isolate=True).result == "text"
    assert output.text() == "printed\n"


@pytest.mark.parametrize("name", ["blocks", "ignores_the_cancel", "blocks_the_loop"])
def test_r9_one_that_goes_on_ends_at_once_and_is_left_behind(call_executor: CallExecutor, name: str) -> None:
    given = a_run(seconds=0.2)
    outcome = run(call_executor, name, given, late_when=functions.begun.is_set)
    assert outcome == Outcome("timed_out", error="timed out after 0.2s")
    (left,) = given.still_running
    assert not left.done()
    functions.gate.set()
    until(left.done)


def test_r9_one_that_looks_notices(call_executor: CallExecutor) -> None:
    given = a_run()
    outcome = run(call_executor, "looks", given, cancel_when=functions.begun.is_set)
    assert outcome.status == "cancelled"
    assert functions.reported.wait(30)
    until(lambda: all(left.done() for left in given.still_running))


def test_r9_an_async_one_gets_the_cancel(call_executor: CallExecutor) -> None:
    given = a_run()
    outcome = run(call_executor, "awaits_for_ever", given, cancel_when=functions.begun.is_set)
    assert outcome.status == "cancelled"
    assert functions.reported.wait(30)
    until(lambda: all(left.done() for left in given.still_running))


def test_a_blocked_async_function_holds_up_no_thread(call_executor: CallExecutor) -> None:
    given = a_run(seconds=0.2)
    outcome = run(call_executor, "blocks_the_loop", given, late_when=functions.begun.is_set)
    assert outcome.status == "timed_out"
    assert run(call_executor, "nothing").status == "succeeded"


@pytest.mark.parametrize("name", ["awaits_for_ever", "looks", "sleeps", "cleans_up"])
def test_an_isolated_function_is_stopped_by_signal(call_executor: CallExecutor, name: str) -> None:
    output = Kept()
    target, given = PythonTarget(call_executor), a_run(seconds=1.5, output=output)
    target.processes.grace = 3_600.0  # it ends by the signal, or not at all
    spec = {"function": f"tests.targets.functions:{name}", "isolate": True, "cwd": str(ROOT)}
    assert perform(target, spec, given).status == "timed_out"
    assert given.still_running == []
    assert output.text("stdout") == ("cleaned up\n" if name == "cleans_up" else "")


def test_an_isolated_function_that_does_not_listen_is_killed(call_executor: CallExecutor) -> None:
    target = PythonTarget(call_executor)
    target.processes.grace = 0.2
    given = a_run(seconds=0.5)
    spec = {"function": "tests.targets.functions:sleeps_on", "isolate": True, "cwd": str(ROOT)}
    assert perform(target, spec, given).status == "timed_out"
    assert target.processes.count == 0
