"""A scheduler starts on a database whose schedules run what their owners may not use (X9)."""

from __future__ import annotations

import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from everwhen.config.submission import read_submission
from everwhen.operations.access import Caller
from everwhen.operations.groups import UNUSABLE
from everwhen.operations.schedules import get_schedule
from everwhen.operations.submissions import create_entries, new_id
from everwhen.operations.tokens import create_token
from everwhen.wiring import open_stack
from tests.api.serving import around_of, configuration_of
from tests.cli.test_up import lines_until
from tests.targets.running import until

COMMAND = Path(sys.executable).parent / "everwhen"
FILE = "agents: {bot: {owner: team-a, command: ['true']}}"
SHARED = FILE.replace("team-a,", "team-a, shared: true,")


def test_what_breaks_the_rule_is_invalid_from_the_start_on_and_goes_on_when_it_is_shared(
    tmp_path: Path,
) -> None:
    stack = open_stack(f"sqlite:///{tmp_path}/everwhen.db")
    runtime = stack.runtime
    try:
        caller = Caller(create_token(runtime, "b", "operator", owner="team-b").token)
        around = around_of(configuration_of(tmp_path, FILE), runtime)  # as the release before let it in
        declared = read_submission(
            {"every": "1h", "run": {"agent": {"name": "bot"}}}, new_id(around.now), around
        )
        declared = replace(declared, definition=replace(declared.definition, owner="team-b"))
        schedule_id = declared.schedule_id
        create_entries(runtime, [declared], caller)
        fields = [str(COMMAND), "scheduler"]
        process = subprocess.Popen(fields, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
        try:
            lines_until(process.stderr, "Ctrl-C stops", 1)
            until(lambda: get_schedule(runtime, schedule_id).state.status == "invalid")
            assert (get_schedule(runtime, schedule_id).state.status_reason or "").startswith(UNUSABLE)
            (tmp_path / "everwhen.yaml").write_text(SHARED)
            process.send_signal(signal.SIGHUP)
            lines_until(process.stderr, "reloaded", 1)
            until(lambda: get_schedule(runtime, schedule_id).state.status == "active")
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=60)
        finally:
            process.kill()
    finally:
        stack.close()
