"""The sample of the contract as a day of work: every section fires, with stand-ins for the programs that it names."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from everwhen.cli.node_resources import NodeResources
from everwhen.compat.body_shapes import BODY_SHAPES
from everwhen.config.read import Configuration, Host, read_configuration
from everwhen.config.submission import read_submission, rules_of
from everwhen.engine.delivery import SubscriberDelivery
from everwhen.model.claim import ClaimedJob
from everwhen.model.outcome import Outcome
from everwhen.operations.apply import apply
from everwhen.store.opened import store_of
from everwhen.targets.http import HttpTarget
from everwhen.testing import ManualScheduler, manual_scheduler
from everwhen.wiring import plugins_in, python_fault
from tests.cli.test_up import lines_until
from tests.config.reading import SAMPLE
from tests.rows.node import run_really
from tests.submissions import Submission, create_schedule
from tests.targets.http_server import Server, a_server, status

CLAUDE = '#!/bin/sh\nprompt=$(cat)\necho "$prompt" >> prompts\necho "$prompt"\n'
PG_DUMP = '#!/bin/sh\necho "$@" >> dumps\n'
TASKS = "runs = []\n\ndef recount(run):\n    runs.append(run.slot_at)\n    return len(runs)\n"
PLUGIN = """#!/bin/sh
printf '%s\\n\\n' "$(cat)" >> requests
echo '{"status": "ok"}'
"""


def furnish(folder: Path, url: str) -> Path:
    """The sample with everything that it names; its server is the one of the test."""
    shutil.copytree(SAMPLE, folder, dirs_exist_ok=True)
    path = folder / "everwhen.yaml"
    path.write_text(path.read_text().replace("http://127.0.0.1:9000", url))
    for name, text in (("bin/claude", CLAUDE), ("bin/pg_dump", PG_DUMP), ("plugins/withings/run", PLUGIN)):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    (folder / "myapp").mkdir()
    (folder / "myapp" / "tasks.py").write_text(TASKS)
    (folder / "inbox").mkdir()
    (folder / "inbox" / "12-fix.md").write_text("# Fix the door\n\nIt squeaks.\n")
    return path


class Day:
    """A node stepped by hand on Christmas Eve; what its schedules name is really run."""

    def __init__(self, path: Path, server: Server) -> None:
        self.server = server
        self.loop = asyncio.Runner()  # one for all, as a worker has it: connections belong to it
        self.folder = path.parent
        self.scheduler: ManualScheduler = manual_scheduler("2026-12-24T00:50:00Z", outcome=self._run)
        runtime = store_of(self.scheduler.runtime)
        self.host = Host(os.environ, lambda: "Europe/Berlin", runtime.clock.now(), plugins_in, python_fault)
        self.configuration: Configuration = read_configuration(path, self.host)
        self.node_resources = NodeResources(
            self.scheduler.stack, self.configuration, self.configuration.settings
        )
        (inbox,) = self.node_resources.subscribers
        self.inbox = SubscriberDelivery(runtime.messages, runtime.clock, inbox, node="manual-1")
        self.inbox.subscribe()
        apply(runtime, self.configuration.declared)

    def _run(self, claimed: ClaimedJob) -> Outcome:
        return run_really(self.node_resources.target_registry, claimed, self.loop.run)

    def close(self) -> None:
        assert self.scheduler.check().is_clean
        http = self.node_resources.target_registry.targets["http"]
        assert isinstance(http, HttpTarget)
        self.loop.run(http.close())
        self.loop.close()
        self.scheduler.stack.close()

    def outcomes(self, schedule_id: str) -> list[tuple[str, str]]:
        return [(f"{job.slot:%H:%M}", job.status) for job in self.scheduler.jobs(schedule_id)]


@pytest.fixture
def day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Day]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin", prepend=os.pathsep)
    monkeypatch.syspath_prepend(str(tmp_path))
    with a_server(status(200, "fine")) as server:
        found = Day(furnish(tmp_path, server.url), server)
        yield found
        found.close()
    for name in [name for name in sys.modules if name.split(".")[0] == "myapp"]:
        del sys.modules[name]


def test_every_section_of_the_sample_fires(day: Day) -> None:
    s = day.scheduler
    one = read_submission(  # Pipelit: the file says what the workflow is, and REST when it runs
        {"workflow_id": 1, "trigger_node_id": "trigger_schedule_abc123", "interval_seconds": 7200},
        "daily-report",
        rules_of(day.configuration, day.host, ["nights"], bodies=BODY_SHAPES),
    )
    create_schedule(s.runtime, Submission(one.schedule_id, one.fields, one.target, group=one.group))
    s.fire("reviewer.on-push", {"body": {"ref": "main"}})
    s.fire("reviewer.ask")
    s.advance("40m")
    for name in ("reviewer.check-issues", "recount", "included"):  # often enough
        s.pause(name)
    s.run_until("2026-12-24T17:00:00Z")
    day.inbox.step()

    # agents: the work item first, then the default; requests at once, one after another
    prompts = (day.folder / "prompts").read_text()
    assert "Check for ready issues." in prompts
    assert "## Work Item: 12-fix" in prompts
    assert prompts.count("Execute your configured task") == 2
    assert day.outcomes("reviewer.morning-report") == [("08:00", "succeeded")]  # 09:00 in Berlin
    assert day.outcomes("reviewer.check-issues")[0] == ("00:50", "succeeded")
    assert len(day.outcomes("reviewer.check-issues")) >= 7
    assert [status for _, status in day.outcomes("reviewer.on-push")] == ["succeeded"]
    assert [status for _, status in day.outcomes("reviewer.ask")] == ["succeeded"]
    # plugins: by day in Sydney and not by night in Paris, which leaves one hour
    assert day.outcomes("withings.hourly") == [("06:50", "succeeded")]
    (request,) = map(json.loads, (day.folder / "requests").read_text().split("\n\n")[:-1])
    assert (request["command"], request["payload"]) == ("token_refresh", {"source": "scheduler"})
    assert request["config"] == {"token_file": "tokens.json"}
    # general: a command, a function, what an included file says
    assert day.outcomes("nightly-backup") == [("01:00", "succeeded")]
    assert (day.folder / "dumps").read_text() == "-Fc app\n"
    assert day.outcomes("recount") == [
        (f"{at}", "succeeded") for at in ("00:50", "01:00", "01:10", "01:20", "01:30")
    ]
    assert day.outcomes("included") == [("00:50", "succeeded")]
    # a workflow over HTTP, and a message to its subscriber
    runs = [seen.json for seen in day.server.seen if seen.path == "/run"]
    assert {run["scheduled_job_id"] for run in runs} == {"daily-report"}
    assert [run["repeat_number"] for run in runs] == list(range(8))
    (message,) = [seen.json for seen in day.server.seen if seen.path == "/inbox"]
    assert (message["content"]["text"], message["source"]["thread_id"]) == ("Presents!", "family")
    assert s.state("reminder").status == "done"


def test_the_sample_runs_as_a_service(tmp_path: Path) -> None:
    with a_server(status(200)) as server:
        furnish(tmp_path, server.url)
        environ = {**os.environ, "PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "PYTHONPATH": str(tmp_path)}
        command = str(Path(sys.executable).parent / "everwhen")
        checked = subprocess.run(
            [command, "config", "check"], cwd=tmp_path, env=environ, timeout=60, check=False
        )
        assert checked.returncode == 0
        with subprocess.Popen(
            [command, "up"], cwd=tmp_path, env=environ, stderr=subprocess.PIPE, text=True
        ) as process:
            try:
                seen = lines_until(process.stderr, "Ctrl-C stops", 1)
                assert "9 schedules" in seen[-1]
                waited_for = {"recount", "included", "reviewer.check-issues"}
                while waited_for:
                    (line,) = lines_until(process.stderr, "", 1)
                    waited_for -= {name for name in waited_for if name in line and "succeeded" in line}
                process.send_signal(signal.SIGTERM)
                assert process.wait(60) == 0
            finally:
                process.kill()
    assert "## Work Item: 12-fix" in (tmp_path / "prompts").read_text()
