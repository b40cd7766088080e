"""Commands as real processes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from everwhen.model.outcome import Outcome
from everwhen.target import Run
from everwhen.targets.command import CommandTarget, signal_name
from tests.targets.running import Kept, a_run, is_alive, is_written, perform, pid_in


def run(*argv: str, run: Run | None = None, **keys: Any) -> Outcome:
    return perform(CommandTarget(), {"argv": list(argv), **keys}, run)


def python(code: str, **keys: Any) -> Outcome:
    return run(sys.executable, "-c", code, **keys)


def test_exit_code_zero_succeeds_with_its_output() -> None:
    assert run("echo", "hello") == Outcome("succeeded", result="hello")


def test_any_other_exit_code_fails_with_code_and_output_and_78_is_final() -> None:
    assert python("print('no luck'); raise SystemExit(3)") == Outcome("failed", error="exit code 3: no luck")
    assert python("raise SystemExit(78)").is_final


def test_what_it_complained_about_is_its_error() -> None:
    outcome = run("sh", "-c", "echo progress; echo disk full >&2; exit 1")
    assert outcome == Outcome("failed", error="exit code 1: disk full")


def test_an_end_by_signal_is_reported_as_one() -> None:
    assert run("sh", "-c", "kill -SEGV $$").error == "killed by SIGSEGV"
    assert signal_name(40) == "signal 40"


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        ({"argv": ["no-such-program"]}, "cannot start 'no-such-program': [Errno 2]"),
        ({"argv": ["true"], "cwd": "/no/such/folder"}, "/no/such/folder"),
        ({"argv": ["true", "a\0b"]}, "embedded null byte"),
        ({"argv": ["true"], "env": {"A=B": "1"}}, "illegal environment variable name"),
    ],
)
def test_a_program_that_cannot_be_started_fails_and_says_why(spec: dict[str, Any], fault: str) -> None:
    outcome = perform(CommandTarget(), spec)
    assert outcome.status == "failed"
    assert fault in (outcome.error or "")


def test_the_run_is_in_the_environment_and_little_else_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_SECRET", "42")
    outcome = python(
        "import json, os; print(json.dumps(dict(os.environ)))", run=a_run(user=7), env={"LISTED": "yes"}
    )
    seen = json.loads(outcome.result or "{}")
    assert (seen["EVERWHEN_JOB_ID"], seen["EVERWHEN_SCHEDULE_ID"]) == ("sched-abc-n1-rc0", "backup")
    assert json.loads(seen["EVERWHEN_PAYLOAD"]) == {"user": 7}
    assert (seen["EVERWHEN_ATTEMPT"], seen["EVERWHEN_CATCH_UP"]) == ("1", "false")
    assert seen["LISTED"] == "yes"
    assert "MY_SECRET" not in seen


def test_it_runs_in_the_given_folder(tmp_path: Path) -> None:
    assert run("pwd", cwd=str(tmp_path)).result == str(tmp_path)


def test_a_timeout_ends_the_whole_process_group(tmp_path: Path) -> None:
    mark = tmp_path / "child"
    spec = {"argv": ["sh", "-c", f"sleep 60 & echo $! > {mark}; wait"]}
    outcome = perform(CommandTarget(), spec, a_run(seconds=1.0), late_when=lambda: is_written(mark))
    assert (outcome.status, outcome.error) == ("timed_out", "timed out after 1s")
    assert not is_alive(pid_in(mark))


def test_a_cancel_ends_it_and_its_last_words_are_kept(tmp_path: Path) -> None:
    mark = tmp_path / "begun"
    outcome = perform(
        CommandTarget(),
        {"argv": ["sh", "-c", f"echo half way >&2; echo $$ > {mark}; sleep 60"]},
        cancel_when=lambda: is_written(mark),
    )
    assert outcome == Outcome("cancelled", error="cancelled: half way")
    assert not is_alive(pid_in(mark))


def test_its_output_is_handed_on_while_it_runs() -> None:
    output = Kept()
    outcome = perform(
        CommandTarget(),
        {"argv": ["sh", "-c", "echo first; echo other >&2; sleep 60"]},
        a_run(output=output),
        cancel_when=lambda: len(output.pieces) == 2,
    )
    assert outcome.status == "cancelled"
    assert (output.text("stdout"), output.text("stderr")) == ("first\n", "other\n")


def test_endless_output_keeps_only_its_tail() -> None:
    outcome = python("for n in range(200000): print(n)")
    assert outcome.status == "succeeded"
    assert (outcome.result or "").endswith("199999")
    assert len(outcome.result or "") <= 4_096


def test_references_to_the_environment_are_resolved_and_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "s3cr3t-value")
    output = Kept()
    outcome = run(
        "sh",
        "-c",
        "echo $1 $TOKEN; exit 1",
        "sh",
        "x${MY_TOKEN}x",
        run=a_run(output=output),
        env={"TOKEN": "${MY_TOKEN}"},
    )
    assert outcome == Outcome("failed", error="exit code 1: x***x ***")
    assert output.text() == "x***x ***\n"


def test_a_reference_to_nothing_is_final_and_says_what_is_missing() -> None:
    outcome = run("echo", "${NO_SUCH_VARIABLE}")
    assert outcome.is_final
    assert "has no NO_SUCH_VARIABLE; set it" in (outcome.error or "")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("#!/no/such/interpreter\n", "the interpreter that its first line names"),
        ("print('hello')\n", "its first line does not name its interpreter"),
    ],
)
def test_a_script_that_cannot_be_started_says_what_is_missing(tmp_path: Path, text: str, fault: str) -> None:
    script = tmp_path / "script"
    script.write_text(text)
    script.chmod(0o755)
    outcome = run(str(script))
    assert (outcome.status, outcome.is_final) == ("failed", False)
    assert fault in (outcome.error or "")


def test_an_environment_that_the_system_does_not_take_fails_the_run() -> None:
    outcome = run("true", env={"HUGE": "x" * 200_000})
    assert outcome == Outcome(
        "failed",
        error="cannot start 'true': its arguments and its environment are larger than the system allows",
    )
