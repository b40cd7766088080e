"""Reloading a service that runs: SIGHUP, `--watch`, `everwhen config reload`."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from everwhen.model.schedule import Target
from everwhen.operations.schedules import get_schedule
from everwhen.store.opened import store_of
from everwhen.verify.ledger import check_ledger
from everwhen.wiring import open_stack
from tests.cli.test_up import lines_until
from tests.submissions import Submission, create_schedule
from tests.targets.running import until

COMMAND = Path(sys.executable).parent / "everwhen"
FIRST = "schedules: [{id: first, every: 1s, run: {command: [echo, one]}}]"
SECOND = """
schedules:
- {id: first, every: 1s, run: {command: [echo, two]}}
- {id: second, every: 1s, run: {command: [ls]}}
"""


def replace(folder: Path, text: str) -> None:
    """As editors do it: another file is renamed over the old one."""
    (folder / "new").write_text(text)
    (folder / "new").rename(folder / "everwhen.yaml")


@contextmanager
def running(folder: Path, *fields: str) -> Iterator[subprocess.Popen[str]]:
    replace(folder, FIRST)
    process = subprocess.Popen([COMMAND, "up", *fields], cwd=folder, stderr=subprocess.PIPE, text=True)
    try:
        lines_until(process.stderr, "succeeded", 1)
        yield process
        process.send_signal(signal.SIGTERM)
        _, rest = process.communicate(timeout=60)
        assert rest.splitlines()[-1] == "stopped"
    finally:
        process.kill()
    stack = open_stack(f"sqlite:///{folder}/everwhen.db")
    with store_of(stack.runtime).ledger.history() as history:
        assert check_ledger(history, stack.runtime.clock.now()).is_clean
    stack.close()


@pytest.mark.parametrize("way", ["SIGHUP", "watch", "command"])
def test_a_running_service_takes_a_new_file(tmp_path: Path, way: str) -> None:
    with running(tmp_path, *(["--watch"] if way == "watch" else [])) as process:
        replace(tmp_path, SECOND)
        if way == "SIGHUP":
            process.send_signal(signal.SIGHUP)
        if way == "command":
            fields = [str(COMMAND), "config", "reload"]
            done = subprocess.run(
                fields, cwd=tmp_path, check=True, capture_output=True, text=True, timeout=60
            )
            assert done.stderr == "reloaded: 1 new, 1 changed\n"
        else:
            seen = lines_until(process.stderr, "reloaded", 1)
            assert seen[-1] == "reloaded: 1 new, 1 changed\n"
        lines_until(process.stderr, "second", 1)
        assert any("two" in line for line in lines_until(process.stderr, "first", 4))


def test_a_file_that_is_replaced_as_kubernetes_does_it_is_taken(tmp_path: Path) -> None:
    """The file is a link through a link to a folder, which is another one from then on."""
    with running(tmp_path, "--watch") as process:
        for name, text in (("first", FIRST), ("second", SECOND)):
            (tmp_path / name).mkdir()
            (tmp_path / name / "everwhen.yaml").write_text(text)
            (tmp_path / "data").symlink_to(name)
            (tmp_path / "data").rename(tmp_path / "..data")
            if name == "first":
                (tmp_path / "link").symlink_to("..data/everwhen.yaml")
                (tmp_path / "link").rename(tmp_path / "everwhen.yaml")
                assert lines_until(process.stderr, "reloaded", 1)[-1] == "reloaded: nothing changed\n"
        shutil.rmtree(tmp_path / "first")
        assert lines_until(process.stderr, "reloaded", 1)[-1] == "reloaded: 1 new, 1 changed\n"


def test_a_bad_file_is_refused_and_the_old_one_goes_on(tmp_path: Path) -> None:
    with running(tmp_path) as process:
        replace(tmp_path, FIRST.replace("every: 1s", "every: 5x"))
        process.send_signal(signal.SIGHUP)
        seen = lines_until(process.stderr, "reload refused", 1)
        seen += lines_until(process.stderr, "everwhen.yaml:1", 1)
        assert 'schedules[0].every: Invalid time unit "x"' in seen[-1]
        lines_until(process.stderr, "succeeded", 2)


def test_settings_that_need_a_start_are_named(tmp_path: Path) -> None:
    with running(tmp_path) as process:
        replace(tmp_path, f"service: {{max_workers: 3}}\n{FIRST}")
        process.send_signal(signal.SIGHUP)
        seen = lines_until(process.stderr, "reloaded: nothing changed", 1)
        assert "service.max_workers changed: it takes effect at the next start\n" in seen


def test_plugins_of_the_file_run(tmp_path: Path) -> None:
    shutil.copytree(Path(__file__).parents[1] / "config" / "sample" / "plugins", tmp_path / "plugins")
    with running(tmp_path) as process:
        plugin = "plugins: {withings: {config: {token_file: t}, schedule: {every: 1s}}}"
        replace(tmp_path, f"{FIRST}\n{plugin}")
        process.send_signal(signal.SIGHUP)
        lines_until(process.stderr, "reloaded: 1 new", 1)
        lines_until(process.stderr, f"{'withings.default':<24} ✓ succeeded", 1)


WORKFLOW = """
workflows: {"7": {run: {command: [echo, from the workflow]}}}
schedules:
- {id: first, every: 1s, run: {command: [echo, one]}}
- {id: report, every: 1s, run: {workflow: {id: "7"}}}
"""


def reload_external(folder: Path) -> None:
    subprocess.run([COMMAND, "config", "reload"], cwd=folder, check=True, capture_output=True, timeout=60)


def test_a_service_runs_the_workflows_that_another_process_loaded(tmp_path: Path) -> None:
    with running(tmp_path) as process:
        replace(tmp_path, WORKFLOW)
        reload_external(tmp_path)
        seen = lines_until(process.stderr, "another process reloaded the configuration", 1)
        seen += lines_until(process.stderr, "from the workflow", 1)
        assert not any("failed" in line for line in seen), seen  # not the first one either


def test_a_configuration_of_another_file_is_noticed_and_not_fought(tmp_path: Path) -> None:
    with running(tmp_path) as process:
        (tmp_path / "other.yaml").write_text(SECOND)
        fields = [str(COMMAND), "config", "reload", "--config", "other.yaml"]
        subprocess.run(fields, cwd=tmp_path, check=True, capture_output=True, timeout=60)
        lines_until(process.stderr, "not the one in this node's file", 1)
        seen = lines_until(process.stderr, "second", 3)
        assert not any("reload" in line for line in seen)


def test_a_worker_takes_the_workflows_of_a_new_file_on_sighup_and_applies_nothing(tmp_path: Path) -> None:
    replace(tmp_path, FIRST)
    fields = [str(COMMAND), "worker"]
    with subprocess.Popen(fields, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as worker:
        try:
            lines_until(worker.stderr, "Ctrl-C stops", 1)
            replace(tmp_path, WORKFLOW)
            worker.send_signal(signal.SIGHUP)
            lines_until(worker.stderr, "reloaded: plugins and workflows as the file has them", 1)
            replace(tmp_path, "schedules: 5")
            worker.send_signal(signal.SIGHUP)
            lines_until(worker.stderr, "everwhen.yaml:1: schedules: must be a list", 1)
            worker.send_signal(signal.SIGTERM)
            assert worker.wait(60) == 0
        finally:
            worker.kill()
    stack = open_stack(f"sqlite:///{tmp_path}/everwhen.db")
    assert store_of(stack.runtime).catalogue.of_source("config") == []
    stack.close()


def test_a_node_without_a_file_survives_sighup(tmp_path: Path) -> None:
    fields = [str(COMMAND), "worker", "--database", "sqlite:///x.db"]
    with subprocess.Popen(fields, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as worker:
        try:
            lines_until(worker.stderr, "Ctrl-C stops", 1)
            worker.send_signal(signal.SIGHUP)
            worker.send_signal(signal.SIGTERM)
            assert worker.wait(60) == 0
        finally:
            worker.kill()


def test_a_storm_of_signals_ends_with_the_newest_file(tmp_path: Path) -> None:
    with running(tmp_path) as process:
        for number in range(60):
            replace(tmp_path, FIRST.replace("echo, one", f"echo, number {number}"))
            process.send_signal(signal.SIGHUP)
        lines_until(process.stderr, "number 59", 1)


def test_what_could_not_run_goes_on_when_a_reload_brings_its_workflow_back(tmp_path: Path) -> None:
    with running(tmp_path) as process:
        replace(tmp_path, WORKFLOW)
        process.send_signal(signal.SIGHUP)
        lines_until(process.stderr, "report", 1)
        stack = open_stack(f"sqlite:///{tmp_path}/everwhen.db")
        target = Target("workflow", '{"workflow_id": "8"}')
        create_schedule(stack.runtime, Submission("by-hand", {"every": "1s"}, target))
        seen = lines_until(process.stderr, "Workflow not found.", 1)
        assert "by-hand" in seen[-1]
        # The line is there before the settlement; only that makes it invalid.
        until(lambda: get_schedule(stack.runtime, "by-hand").state.status == "invalid")
        replace(tmp_path, WORKFLOW.replace('{"7"', '{"8": {run: {command: [echo, back]}}, "7"'))
        process.send_signal(signal.SIGHUP)
        lines_until(process.stderr, "back", 1)
        assert get_schedule(stack.runtime, "by-hand").state.status == "active"
        stack.close()


def test_a_watched_file_may_go_and_come_back_and_a_folder_that_it_includes_may_come_later(
    tmp_path: Path,
) -> None:
    with running(tmp_path, "--watch") as process:
        (tmp_path / "everwhen.yaml").unlink()
        lines_until(process.stderr, "cannot be read: No such file or directory", 1)
        lines_until(process.stderr, "succeeded", 2)  # the old one goes on
        replace(tmp_path, f"include: ['d/*.conf']\n{FIRST.replace('one', 'again')}")
        lines_until(process.stderr, "again", 1)
        (tmp_path / "d").mkdir()
        (tmp_path / "d" / "a.conf").write_text(
            "schedules: [{id: late, every: 1s, run: {command: [echo, late]}}]"
        )
        lines_until(process.stderr, "late", 1)
        (tmp_path / "d" / "a.conf").unlink()
        lines_until(process.stderr, "reloaded: 1 removed", 1)
