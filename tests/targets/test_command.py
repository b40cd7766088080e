"""Commands as real processes."""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

from everwhen.model.outcome import Outcome
from everwhen.ports.target import Run
from everwhen.targets.command import CommandTarget


def a_run(seconds: float | None = 30.0, **payload: Any) -> Run:
    return Run(
        job_id="sched-abc-n1-rc0",
        schedule_id="backup",
        schedule_name="Backup",
        slot_at=1_767_600_000_000_000,
        attempt=1,
        origin="schedule",
        repeat_number=0,
        payload=payload,
        deadline_at=None,
        seconds_left=seconds,
    )


def run(*argv: str, run: Run | None = None, **keys: Any) -> Outcome:
    return CommandTarget().run(json.dumps({"argv": list(argv), **keys}), run or a_run())


def python(code: str, **keys: Any) -> Outcome:
    return run(sys.executable, "-c", code, **keys)


def test_exit_code_zero_succeeds_with_its_output() -> None:
    assert run("echo", "hello") == Outcome("succeeded", result="hello")


def test_any_other_exit_code_fails_with_code_and_output_and_78_is_final() -> None:
    assert python("print('no luck'); raise SystemExit(3)") == Outcome("failed", error="exit code 3: no luck")
    assert python("raise SystemExit(78)").is_final


def test_a_missing_program_fails_and_says_which() -> None:
    outcome = run("no-such-program")
    assert outcome.status == "failed"
    assert "cannot start 'no-such-program'" in (outcome.error or "")


def test_the_run_is_in_the_environment_and_little_else_is(monkeypatch: Any) -> None:
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


def test_it_runs_where_it_is_told(tmp_path: Path) -> None:
    assert run("pwd", cwd=str(tmp_path)).result == str(tmp_path)


def test_a_timeout_ends_the_whole_process_group(tmp_path: Path) -> None:
    mark = tmp_path / "child"
    outcome = run("sh", "-c", f"sleep 60 & echo $! > {mark}; wait", run=a_run(seconds=3.0))
    assert outcome.status == "timed_out"
    assert not is_alive(int(mark.read_text()))


def test_a_cancel_ends_it() -> None:
    cancelled = a_run()
    threading.Timer(0.2, cancelled.cancelled.set).start()
    assert run("sleep", "60", run=cancelled).status == "cancelled"


def test_endless_output_keeps_only_its_tail() -> None:
    outcome = python("for n in range(200000): print(n)")
    assert outcome.status == "succeeded"
    assert (outcome.result or "").endswith("199999")
    assert len(outcome.result or "") <= 4_096


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/stat")
    return not status.exists() or status.read_text().rsplit(")", 1)[1].split()[0] != "Z"
