"""What runs report about themselves: processes by a file, agents by their output, plugins, servers, functions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from everwhen.engine.call_executor import CallExecutor
from everwhen.model.cost import Cost
from everwhen.model.outcome import Outcome
from everwhen.targets.agent import AgentTarget
from everwhen.targets.command import CommandTarget
from everwhen.targets.plugin import PluginTarget
from everwhen.targets.plugin_folders import PluginFolders
from everwhen.targets.python_call import PythonTarget
from everwhen.targets.reports import read_claude
from everwhen.testing import ManualClock
from tests.targets.http_server import Requests, a_server, status
from tests.targets.plugins import put_plugin
from tests.targets.running import Kept, a_run, perform

ROOT = Path(__file__).parents[2]
USD = Cost(420_000, "USD")
MAX = Cost(500_000, "USD")


def shell(script: str, output: Kept | None = None) -> Outcome:
    return perform(
        CommandTarget(), {"argv": ["sh", "-c", script]}, replace(a_run(output=output), max_cost=MAX)
    )


def test_a_process_reports_its_cost_in_the_file_that_its_environment_names() -> None:
    outcome = shell(
        """echo worked; echo '{"cost": {"amount": 0.42, "currency": "USD"}}' > "$EVERWHEN_REPORT" """
    )
    assert outcome == Outcome("succeeded", result="worked", cost=USD)


def test_a_report_may_fail_a_run_and_its_summary_is_the_result() -> None:
    said = {"status": "failed", "error": "no key", "cost": "0.42 USD", "usage": {"tokens": 7}}
    outcome = shell(f"""echo '{json.dumps(said)}' > "$EVERWHEN_REPORT" """)
    assert (outcome.status, outcome.error, outcome.cost) == ("failed", "no key", USD)
    assert json.loads(outcome.events) == {"usage": {"tokens": 7}}
    outcome = shell("""echo noise; echo '{"summary": "3 mails"}' > "$EVERWHEN_REPORT" """)
    assert outcome == Outcome("succeeded", result="3 mails")


def test_a_run_that_fails_after_its_report_still_costs() -> None:
    outcome = shell("""echo '{"cost": "0.42 USD", "status": "succeeded"}' > "$EVERWHEN_REPORT"; exit 3""")
    assert (outcome.status, outcome.cost) == ("failed", USD)
    outcome = shell("""echo noise; echo '{"error": "no key"}' > "$EVERWHEN_REPORT"; exit 3""")
    assert (outcome.status, outcome.error) == ("failed", "exit code 3: no key")


@pytest.mark.parametrize("script", ["mkfifo $EVERWHEN_REPORT", "ln -s /dev/zero $EVERWHEN_REPORT"])
def test_what_is_not_a_file_is_no_report_and_stops_nobody(script: str) -> None:
    output = Kept()
    assert shell(script, output).status == "succeeded"
    assert output.text("log") == "report: is not a regular file\n"


@pytest.mark.parametrize(
    ("report", "noted"),
    [
        ("not json", "report: is not valid JSON"),
        ("[1]", "report: is not a JSON object"),
        ('{"cost": "much"}', 'report: cost: "much" is not a number and a unit'),
        ('{"cost": {"amount": -1, "currency": "USD"}}', "report: cost: an amount is 0 to"),
        ('{"cost": {"amount": NaN, "currency": "USD"}}', "report: is not valid JSON"),
        ('{"cost": {"amount": 1, "currency": "usd"}}', 'report: cost: currency "usd" is not a unit'),
        ('{"status": "great"}', "report: status is neither succeeded nor failed"),
        ('{"costs": 1}', 'report: there is no key "costs"'),
    ],
)
def test_a_report_that_cannot_be_read_is_noted_and_fails_nothing(report: str, noted: str) -> None:
    output = Kept()
    outcome = shell(f"""printf '%s' '{report}' > "$EVERWHEN_REPORT" """, output)
    assert (outcome.status, outcome.cost) == ("succeeded", None)
    assert output.text("log").startswith(noted)


def test_a_process_learns_what_its_run_may_cost() -> None:
    assert shell("echo $EVERWHEN_MAX_COST $EVERWHEN_MAX_COST_UNIT").result == "0.5 USD"


def test_no_file_is_left_behind_in_a_folder_that_others_cannot_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    shell("""echo '{}' > "$EVERWHEN_REPORT" """)
    (folder,) = tmp_path.iterdir()
    assert (list(folder.iterdir()), folder.stat().st_mode & 0o777) == ([], 0o700)
    folder.chmod(0o755)  # as somebody else may have made it
    shell("""echo '{}' > "$EVERWHEN_REPORT" """)
    assert len(list(tmp_path.iterdir())) == 2


# -- agents --

RESULT = {
    "type": "result",
    "subtype": "success",
    "is_error": False,
    "result": "3 issues",
    "total_cost_usd": 0.42,
    "usage": {"input_tokens": 7},
}


def agent(*command: str, may_cost: Cost | None = MAX, **fields: Any) -> Outcome:
    target = AgentTarget({}, ManualClock())
    spec = {"agent": "reviewer", "command": list(command), "prompt": "go", **fields}
    return perform(target, spec, replace(a_run(), max_cost=may_cost))


def test_an_agent_of_claude_reports_its_cost_and_its_result() -> None:
    outcome = agent("echo", json.dumps(RESULT), report="claude")
    assert (outcome.status, outcome.result, outcome.cost) == ("succeeded", "3 issues", USD)


def test_an_error_that_claude_reports_fails_the_job_whatever_the_exit_code() -> None:
    said = RESULT | {"is_error": True, "subtype": "error_max_budget", "result": None}
    outcome = agent("echo", json.dumps(said), report="claude")
    assert (outcome.status, outcome.error, outcome.cost) == ("failed", "error_max_budget", USD)


@pytest.mark.parametrize(
    "printed",
    [
        json.dumps(RESULT, indent=2),
        json.dumps([{"type": "system"}, RESULT]),
        "\n".join(["Warning: old", json.dumps({"type": "assistant"}), json.dumps(RESULT), ""]),
    ],
    ids=["object", "array", "lines"],
)
def test_the_result_is_found_in_every_format_of_claude(printed: str) -> None:
    assert read_claude(printed.encode()).cost == USD


@pytest.mark.parametrize("printed", [None, b"", b"plain text", b'{"type": "system"}', b"[1, 2]", b"{"])
def test_output_without_a_result_is_noted(printed: bytes | None) -> None:
    report = read_claude(printed)
    assert report.cost is None and "no object of type result" in report.faults[0]


def test_the_most_that_a_run_may_cost_stands_in_the_argv_of_an_agent() -> None:
    assert agent("echo", "--max-budget-usd", "{max_cost}").result == "--max-budget-usd 0.5"
    outcome = agent("echo", "{max_cost}", may_cost=None)
    assert outcome.is_final and "needs a budget with cost_per_run" in (outcome.error or "")


# -- plugins, servers, functions --


def test_a_plugin_reports_its_cost_in_its_answer(tmp_path: Path) -> None:
    said = {"status": "ok", "result": "fine", "cost": {"amount": "0.42", "currency": "USD"}}
    put_plugin(tmp_path, program=f"#!/bin/sh\necho '{json.dumps(said)}'\n")
    target = PluginTarget(PluginFolders([tmp_path]), lambda plugin: {})
    spec = {"name": "withings", "command": "poll", "config": {}}
    assert perform(target, spec) == Outcome("succeeded", result="fine", cost=USD)
    put_plugin(tmp_path, program='#!/bin/sh\necho \'{"status": "error", "error": "no", "cost": "free"}\'\n')
    output = Kept()
    outcome = perform(target, spec, a_run(output=output))
    assert (outcome.status, outcome.cost) == ("failed", None)
    assert output.text("log").startswith('cost: "free" is not')


@pytest.mark.parametrize(
    ("code", "body", "header", "cost"),
    [
        (200, "done", "0.42 USD", USD),
        (200, '{"cost": {"amount": 0.42, "currency": "USD"}}', None, USD),
        (200, '{"cost": "0.42 USD"}', "1 USD", Cost(1_000_000, "USD")),
        (500, "no luck", "0.42 USD", USD),
        (200, '{"cost": 12}', None, None),
        (200, '["cost"]', None, None),
        (200, 'the "cost" of it', None, None),
        (200, "done", "free", None),
    ],
)
def test_a_server_reports_a_cost_in_the_header_or_in_its_body(
    code: int, body: str, header: str | None, cost: Cost | None
) -> None:
    headers = {} if header is None else {"Everwhen_Cost": header}
    with a_server(status(code, body, **headers)) as server:
        run = replace(a_run(), max_cost=MAX)
        outcome = perform(Requests(), {"url": server.url}, run)
    assert outcome.cost == cost
    assert server.seen[0].headers["everwhen-max-cost"] == "0.5 USD"


@pytest.fixture
def call_executor() -> Iterator[CallExecutor]:
    call_executor = CallExecutor(2)
    yield call_executor
    call_executor.close()


@pytest.mark.parametrize("isolate", [False, True], ids=["here", "isolated"])
def test_a_function_reports_its_cost(call_executor: CallExecutor, isolate: bool) -> None:
    def call(name: str) -> Outcome:
        spec = {"function": f"tests.targets.functions:{name}", "isolate": isolate, "cwd": str(ROOT)}
        return perform(PythonTarget(call_executor), spec)

    outcome = call("costly")
    assert (outcome.result, outcome.cost) == ("worked", USD)
    assert json.loads(outcome.events) == {"usage": {"tokens": 7}}
    assert call("costly_failure").cost == Cost(200_000, "USD")
    outcome = call("costly_async")
    assert (outcome.result, outcome.cost) == ("all done", Cost(300_000, "USD"))
