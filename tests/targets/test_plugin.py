"""Plugins as real processes: whatever they do, there is an outcome, and the worker lives on."""

from __future__ import annotations

import json
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from everwhen.model.outcome import Outcome, PluginUpdate
from everwhen.target import Run
from everwhen.targets.plugin import PluginTarget
from everwhen.targets.plugin_folders import PluginFolders
from tests.targets.plugins import put_plugin
from tests.targets.running import Kept, a_run, is_alive, open_descriptors, perform, pid_in

OK = '{"status": "ok", "result": "fine"}'


class Memory:
    """What plugins remembered, for tests without a store."""

    def __init__(self, **states: dict[str, Any]) -> None:
        self._states = states

    def state_of(self, plugin: str) -> dict[str, Any]:
        return self._states.get(plugin, {})


def ask(
    directory: Path,
    *,
    command: str = "poll",
    config: dict[str, Any] | None = None,
    run: Run | None = None,
    memory: Memory | None = None,
    **keys: Any,
) -> Outcome:
    target = PluginTarget(PluginFolders([directory]), (memory or Memory()).state_of)
    spec = {"name": "withings", "command": command, "config": config or {}}
    return perform(target, spec, run, **keys)


def shell(directory: Path, script: str, **keys: Any) -> Outcome:
    put_plugin(directory, program=f"#!/bin/sh\n{script}\n")
    return ask(directory, **keys)


# -- the protocol --


def test_a_plugin_reads_its_request_and_its_answer_is_the_outcome(tmp_path: Path) -> None:
    put_plugin(
        tmp_path,
        program=f"""#!{sys.executable}
import json, sys
request = json.load(sys.stdin)
print(json.dumps({{"status": "ok", "result": json.dumps(request, sort_keys=True)}}))
""",
        commands=[{"name": "poll", "input_schema": {"depth": {"type": "integer", "default": 2}}}],
        config_keys={"required": ["token_file"]},
    )
    outcome = ask(
        tmp_path,
        config={"token_file": "tokens.json"},
        memory=Memory(withings={"seen": 3}),
        run=a_run(source="scheduler"),
    )
    assert outcome.status == "succeeded"
    request = json.loads(outcome.result or "")
    assert request.pop("context")["schedule_id"] == "backup"
    assert request == {
        "protocol": 2,
        "job_id": "sched-abc-n1-rc0",
        "command": "poll",
        "config": {"token_file": "tokens.json"},
        "state": {"seen": 3},
        "payload": {"source": "scheduler", "depth": 2},
        "deadline_at": None,
    }


def test_what_it_wants_remembered_goes_with_its_success(tmp_path: Path) -> None:
    outcome = shell(tmp_path, """cat >/dev/null; echo '{"status": "ok", "state_updates": {"seen": 4}}'""")
    assert outcome == Outcome("succeeded", result="", also=PluginUpdate("withings", '{"seen": 4}'))


def test_a_failure_is_remembered_by_nobody(tmp_path: Path) -> None:
    answer = '{"status": "error", "error": "no luck", "state_updates": {"seen": 4}}'
    assert shell(tmp_path, f"cat >/dev/null; echo '{answer}'") == Outcome("failed", error="no luck")


def test_retry_false_is_final(tmp_path: Path) -> None:
    answer = '{"status": "error", "error": "bad token", "retry": false}'
    outcome = shell(tmp_path, f"cat >/dev/null; echo '{answer}'; exit 1")
    assert outcome == Outcome("failed", error="bad token", is_final=True)


def test_exit_78_is_final_whatever_was_printed(tmp_path: Path) -> None:
    assert shell(tmp_path, "echo no config >&2; exit 78").is_final
    assert shell(tmp_path, f"cat >/dev/null; echo '{OK}'; exit 78") == Outcome(
        "failed", error=f"exit code 78: {OK}", is_final=True
    )
    error = '{"status": "error", "error": "no config", "retry": true}'
    outcome = shell(tmp_path, f"cat >/dev/null; echo '{error}'; exit 78")
    assert outcome == Outcome("failed", error="no config", is_final=True)


def test_an_answer_counts_whatever_the_exit_code(tmp_path: Path) -> None:
    assert shell(tmp_path, f"cat >/dev/null; echo '{OK}'; exit 1") == Outcome("succeeded", result="fine")


def test_an_error_without_a_sentence_gets_one(tmp_path: Path) -> None:
    outcome = shell(tmp_path, """cat >/dev/null; echo '{"status": "error"}'""")
    assert outcome == Outcome("failed", error="the plugin reports an error without a message")


def test_its_complaints_and_its_logs_are_output_and_its_answer_is_not(tmp_path: Path) -> None:
    kept = Kept()
    answer = '{"status": "ok", "logs": [{"level": "warn", "message": "slow"}]}'
    shell(tmp_path, f"cat >/dev/null; echo progress >&2; echo '{answer}'", run=a_run(output=kept))
    assert kept.text("stderr") == "progress\n"
    assert kept.text("log") == "warn: slow\n"
    assert kept.text("stdout") == ""


def test_its_events_go_with_its_outcome_a_line_each(tmp_path: Path) -> None:
    events = '"events": [{"type": "weighed", "payload": {"kg": 71}}, {"type": "done"}]'
    kept = '{"type": "weighed", "payload": {"kg": 71}}\n{"type": "done"}\n'
    ok = shell(tmp_path, f"""cat >/dev/null; echo '{{"status": "ok", {events}}}'""")
    assert ok == Outcome("succeeded", result="", events=kept)
    error = shell(tmp_path, f"""cat >/dev/null; echo '{{"status": "error", "error": "half", {events}}}'""")
    assert error == Outcome("failed", error="half", events=kept)


def test_it_sees_no_secret_of_the_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_PASSWORD", "hush")
    script = """cat >/dev/null; echo "{\\"status\\": \\"ok\\", \\"result\\": \\"[$DATABASE_PASSWORD]\\"}\""""
    assert shell(tmp_path, script).result == "[]"


def test_its_config_is_resolved_when_it_runs_and_masked_in_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WITHINGS_TOKEN", "hush-hush")
    kept = Kept()
    put_plugin(
        tmp_path,
        program=f"""#!{sys.executable}
import json, sys
token = json.load(sys.stdin)["config"]["token"]
print(token, file=sys.stderr)
print(json.dumps({{"status": "ok", "result": f"used {{token}}", "state_updates": {{"length": len(token)}},
    "events": [{{"type": "used", "token": token}}]}}))
""",
    )
    outcome = ask(tmp_path, config={"token": "${WITHINGS_TOKEN}"}, run=a_run(output=kept))
    assert outcome.result == "used ***"
    assert outcome.events == '{"type": "used", "token": "***"}\n'
    assert outcome.also == PluginUpdate("withings", '{"length": 9}')
    assert kept.text("stderr") == "***\n"
    unset = ask(tmp_path, config={"token": "${NOT_THERE}"})
    assert unset.is_final and "has no NOT_THERE" in (unset.error or "")


# -- what plugins do wrong --


@pytest.mark.parametrize(
    ("script", "error"),
    [
        ("cat >/dev/null", "nothing on standard output"),
        ("cat >/dev/null; exit 3", "exit code 3; nothing on standard output"),
        ("cat >/dev/null; echo Traceback", "standard output is not valid JSON: b'Traceback\\n'"),
        ("cat >/dev/null; echo why >&2; printf '{\"status\": '", "valid JSON: b'{\"status\": '; why"),
        ("cat >/dev/null; head -c 300 /dev/urandom", "standard output is not valid JSON: b"),
        ("kill -KILL $$", "killed by SIGKILL; nothing on standard output"),
        (f"cat >/dev/null; echo '{OK}'; kill -SEGV $$", "killed by SIGSEGV"),
    ],
)
def test_anything_else_fails_and_shows_how(tmp_path: Path, script: str, error: str) -> None:
    outcome = shell(tmp_path, script)
    assert (outcome.status, outcome.is_final) == ("failed", False)
    assert error in (outcome.error or "")


@pytest.mark.parametrize("script", ["exec <&-", ""])
def test_a_plugin_that_does_not_read_its_request_may_answer_all_the_same(tmp_path: Path, script: str) -> None:
    run = a_run(blob="x" * 60_000)  # as large as a payload may be, so that it fills no pipe
    assert shell(tmp_path, f"{script}\necho '{OK}'", run=run).status == "succeeded"


def test_a_plugin_that_closes_its_input_on_a_request_larger_than_a_pipe(tmp_path: Path) -> None:
    memory = Memory(withings={"blob": "x" * 1_000_000})
    assert shell(tmp_path, f"exec <&-; echo '{OK}'", memory=memory).status == "succeeded"


def test_a_hundred_megabytes_fail_and_stay_out_of_memory(tmp_path: Path) -> None:
    tracemalloc.start()
    try:
        outcome = shell(tmp_path, "cat >/dev/null; head -c 100000000 /dev/zero")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert outcome.status == "failed"
    assert (outcome.error or "").startswith("100000000 bytes on standard output are too many: b'\\x00")
    assert len(outcome.error or "") < 2_000
    assert peak < 40_000_000


def test_a_plugin_that_complains_for_ever_is_ended_when_its_time_is_up(tmp_path: Path) -> None:
    outcome = shell(tmp_path, "cat >/dev/null; exec yes >&2", run=a_run(0.3))
    assert outcome.status == "timed_out"
    assert (outcome.error or "").startswith("timed out after 0.3s")


def test_a_plugin_that_never_ends_is_ended_when_its_time_is_up(tmp_path: Path) -> None:
    assert shell(tmp_path, "exec sleep 600", run=a_run(0.3)).status == "timed_out"


def test_a_cancelled_plugin_goes_with_everything_that_it_started(tmp_path: Path) -> None:
    pid = tmp_path / "pid"

    def is_written() -> bool:
        return pid.exists() and pid.read_text().endswith("\n")

    outcome = shell(tmp_path, f"sleep 600 & echo $! > {pid}; wait", cancel_when=is_written)
    assert outcome.status == "cancelled"
    assert not is_alive(pid_in(pid))


def test_nothing_stays_open(tmp_path: Path) -> None:
    shell(tmp_path, f"cat >/dev/null; echo '{OK}'")
    before = open_descriptors()
    for _ in range(3):
        ask(tmp_path)
    assert open_descriptors() == before


# -- drift --


def test_a_command_that_left_the_manifest_ends_the_schedule(tmp_path: Path) -> None:
    put_plugin(tmp_path, commands=[{"name": "poll"}])
    outcome = ask(tmp_path, command="token_refresh")
    assert (outcome.status, outcome.is_final, outcome.invalidates) == ("failed", True, True)
    assert outcome.error == 'plugin "withings" does not have the command "token_refresh" any more'


def test_a_plugin_that_is_gone_ends_the_schedule(tmp_path: Path) -> None:
    outcome = ask(tmp_path)
    assert outcome.invalidates and outcome.error == 'plugin "withings" is not installed'


def test_a_plugin_that_is_broken_now_ends_the_schedule(tmp_path: Path) -> None:
    put_plugin(tmp_path, protocol=1)
    outcome = ask(tmp_path)
    assert outcome.invalidates and 'protocol "1" is not supported' in (outcome.error or "")


def test_config_that_a_plugin_has_come_to_require_ends_the_schedule(tmp_path: Path) -> None:
    put_plugin(tmp_path, config_keys={"required": ["token", "user"]})
    outcome = ask(tmp_path, config={"user": "me"})
    assert outcome.invalidates and outcome.error == 'plugin "withings" requires config: token'


def test_a_payload_that_does_not_fit_fails_the_job_and_not_the_schedule(tmp_path: Path) -> None:
    put_plugin(tmp_path, commands=[{"name": "poll", "input_schema": {"source": "string"}}])
    outcome = ask(tmp_path, run=a_run(source=5))
    assert outcome == Outcome("failed", error="payload.source: 5 is not of type 'string'", is_final=True)
