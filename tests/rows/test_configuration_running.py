"""Rows about the configuration of a scheduler that runs: reload, drift, herdctl's options and its questions."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from everwhen.config.read import Host, read_configuration
from everwhen.errors import ConfigError
from everwhen.model.outcome import SUCCEEDED, JobEnd
from everwhen.operations.apply import Applied, apply, reload
from everwhen.operations.schedules import check
from everwhen.store.opened import store_of
from everwhen.testing import ManualClock
from everwhen.verify.ledger import check_ledger
from everwhen.wiring import open_stack, plugins_in
from tests.rows.node import WorkingNode
from tests.targets.plugins import put_plugin

ECHO = """#!/bin/sh
cat > /dev/null
echo '{"status": "ok", "result": "done"}'
"""


class Home(WorkingNode):
    """A node with a configuration file and a folder of plugins beside it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(plugin_dirs=(folder / "plugins",))
        self.folder = folder

    def take(self, text: str) -> Applied:
        """Write the file and reload it."""
        (self.folder / "everwhen.yaml").write_text(text)
        runtime = store_of(self.scheduler.runtime)
        host = Host({}, lambda: "Europe/Berlin", runtime.clock.now(), plugins_in)
        return reload(runtime, lambda: read_configuration(self.folder / "everwhen.yaml", host).declared)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    found = Home(tmp_path)
    yield found
    found.close()


def versions(number: int) -> str:
    lines = [
        f"- {{id: s{each}, every: 1s, payload: {{version: {number}}}, run: {{command: [x]}}}}"
        for each in range(20)
    ]
    return "\n".join(["schedules:", *lines])


def test_d47_a_tick_sees_one_configuration_however_many_reloads_go_on_beside_it(tmp_path: Path) -> None:
    clock = ManualClock("2026-01-05T08:00:00Z")
    stack = open_stack(f"sqlite:///{tmp_path}/d47.db", clock=clock)
    host, slots = Host({}, lambda: "UTC", clock.now()), store_of(stack.runtime).slots
    declared = []
    for number in (1, 2):
        (tmp_path / "everwhen.yaml").write_text(versions(number))
        declared.append(read_configuration(tmp_path / "everwhen.yaml", host).declared)
    apply(stack.runtime, declared[0])
    is_over = threading.Event()

    def reload_again_and_again() -> None:
        while not is_over.is_set():
            for one in reversed(declared):
                apply(stack.runtime, one)

    reloading = threading.Thread(target=reload_again_and_again)
    reloading.start()
    seen: list[set[int]] = []
    while len(seen) < 40 or set.union(*seen) != {1, 2}:
        slots.heartbeat(clock.now(), node="n", version="test", is_scheduler=True)
        slots.tick(clock.now(), limit=500, behind=False)
        claimed = slots.claim_jobs(clock.now(), node="n", limit=500)
        assert len(claimed) == 20  # every slot of this second, once
        seen.append({json.loads(one.definition.payload)["version"] for one in claimed})
        slots.settle(clock.now(), [JobEnd(one.job.job_id, one.job.fence, SUCCEEDED) for one in claimed])
        clock.advance("1s")
    is_over.set()
    reloading.join()
    assert all(len(each) == 1 for each in seen)
    with store_of(stack.runtime).ledger.history() as history:
        assert check_ledger(history, clock.now()).is_clean
    stack.close()


def test_d47_an_invalid_file_is_refused_whole_while_the_old_one_fires(home: Home) -> None:
    home.take("schedules: [{id: a, every: 1m, run: {command: ['true']}}]")
    home.scheduler.step()
    with pytest.raises(ConfigError, match="Invalid time unit"):
        home.take(
            "schedules: [{id: a, every: 2m, run: {command: ['true']}}, {id: b, every: 1x, run: {command: [x]}}]"
        )
    home.scheduler.advance("2m")
    assert [job.schedule_id for job in home.scheduler.jobs()] == ["a", "a", "a"]
    assert home.scheduler.events(None, "config.rejected")


WITHINGS = """plugins:
  withings:
    schedules:
    - {id: poll, every: 1h}
    - {id: refresh, command: token_refresh, every: 1h, max_retries: 5, %s}
"""


def test_d48_a_command_that_leaves_the_manifest_while_the_service_runs_ends_its_entry_until_it_is_fixed(
    home: Home,
) -> None:
    plugins = home.folder / "plugins"
    put_plugin(plugins, program=ECHO)
    home.take(WITHINGS % "name: a")
    home.scheduler.advance("30m")
    put_plugin(plugins, program=ECHO, commands=[{"name": "poll"}])
    home.scheduler.advance("2h")
    jobs = [(job.schedule_id, job.status) for job in home.scheduler.jobs()]
    assert jobs.count(("withings.refresh", "failed")) == 1  # terminally: no retry, no further slot
    assert jobs.count(("withings.poll", "succeeded")) == 3
    assert home.scheduler.state("withings.refresh").status == "invalid"
    # A reload that finds it as it is refuses the file, and leaves everything as it was.
    with pytest.raises(
        ConfigError, match='schedule "refresh" references unsupported command "token_refresh"'
    ):
        home.take(WITHINGS % "name: b")
    assert home.scheduler.state("withings.refresh").status == "invalid"
    # Fixed: the same file is valid again, and the entry goes on by itself.
    put_plugin(plugins, program=ECHO)
    assert home.take(WITHINGS % "name: a").switched == ("withings.refresh",)
    home.scheduler.advance("1h")
    assert [job.status for job in home.scheduler.jobs("withings.refresh")] == [
        "succeeded",
        "failed",
        "succeeded",
    ]
    assert home.scheduler.events("withings.refresh", "schedule.restored")


AGENTS = """agents:
  reviewer:
    command: [cat]
    max_concurrent: 1
    schedules:
      check: {type: interval, interval: 5m}
      report: {type: cron, expression: "0 9 * * *"}
      push: {type: webhook}
  writer:
    command: [cat]
    schedules: {draft: {type: interval, interval: 10m}}
"""


def test_h4_the_options_of_herdctl_stand_in_the_file(tmp_path: Path) -> None:
    def settings(text: str) -> tuple[float, str]:
        (tmp_path / "everwhen.yaml").write_text(text)
        found = read_configuration(tmp_path / "everwhen.yaml", Host({}, lambda: "UTC", 0)).settings
        return found.check_interval, found.database

    assert settings("") == (1.0, "sqlite:///everwhen.db")  # checkInterval 1000 ms; stateDir
    assert settings("service: {check_interval: 5s, database: 'sqlite:///state/x.db'}") == (
        5.0,
        "sqlite:///state/x.db",
    )


def test_h5_other_agents_are_set_while_it_runs(home: Home) -> None:
    assert set(home.take(AGENTS).created) == {
        "reviewer.check",
        "reviewer.report",
        "reviewer.push",
        "writer.draft",
    }
    home.scheduler.step()
    before = home.scheduler.state("writer.draft")
    applied = home.take(AGENTS.replace("  reviewer:", "  auditor:").replace("interval: 10m", "interval: 20m"))
    assert len(applied.created) == len(applied.removed) == 3
    assert applied.changed == ("writer.draft",)
    after = home.scheduler.state("writer.draft")
    assert (after.uid, after.run_count, after.last_run_at) == (before.uid, 1, before.last_run_at)
    home.scheduler.advance("20m")
    assert [job.schedule_id for job in home.scheduler.jobs()].count("auditor.check") == 5
    assert len(home.scheduler.jobs("writer.draft")) == 2


def test_h12_the_agents_of_a_file_are_asked_in_herdctls_order(home: Home) -> None:
    home.take(AGENTS)
    s = home.scheduler
    runtime = s.runtime

    def reason(name: str) -> str | None:
        return check(runtime, f"reviewer.{name}").skip_reason

    assert (reason("push"), reason("check"), reason("report")) == ("unsupported_type", None, "not_due")
    s.tick()
    (running,) = [one for one in s.claim() if one.job.schedule_id == "reviewer.check"]
    assert (reason("check"), reason("report")) == ("already_running", "at_capacity")
    s.pause("reviewer.check")
    assert reason("check") == "disabled"
    s.settle(running)
    assert (reason("check"), reason("report")) == ("disabled", "not_due")
    s.work()
