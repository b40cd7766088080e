"""`everwhen import`: what it prints is a file that passes `everwhen config check`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from everwhen.cli.main import everwhen
from everwhen.compat.importers.apscheduler_program import read_program
from everwhen.errors import ConfigError
from tests.compat.test_others import BEAT
from tests.config.reading import SAMPLE

CRONTAB = """
MAILTO=ops@example.org
CRON_TZ=Europe/Berlin
# with: a colon, and "quotes"
*/5 * * * * test -x /usr/bin/x && printf '%s' no | grep -q "a: b" # not a comment
0 0 1 1 * on
@reboot never
"""
SYSTEM = """
SHELL=/bin/bash
17 *	* * *	root    cd / && run-parts --report /etc/cron.hourly
25 6	* * *	root	test -x /usr/sbin/anacron || { cd / && run-parts --report /etc/cron.daily; }
@weekly nobody true
"""
AGENT = "name: reviewer\nschedules: {a: {type: interval, interval: 5m}, b: {type: chat}}"
FLEET = "version: 1\nfleet: {name: mine}\nagents: [{path: agents/fixer.yaml}, {path: agents/writer.yaml}]"
FIXER = """
name: Issue Fixer
model: sonnet
instances: {max_concurrent: 2}
permissions: {mode: acceptEdits}
schedules:
  check: {type: interval, interval: 5m, prompt: Look., work_source: {type: github, repo: a/b}}
  daily: {type: cron, expression: "0 9 * * 1-5", prompt: "Report: all of it."}
  push: {type: webhook}
"""
DUCTILE = """
service: {name: home, tick_interval: 60s, log_level: info}
state: {path: ./data/state.db}
plugins_dir: plugins
plugins:
  withings:
    enabled: true
    config: {token_file: "${TOKENS:-tokens.json}"}
    max_outstanding_polls: 1
    circuit_breaker: {threshold: 3, reset_after: 30m}
    timeouts: {poll: 60s}
    schedules:
    - {command: token_refresh, every: 1h, jitter: 5m, payload: {source: scheduler}, catch_up: run_once}
    - {every: 15m, jitter: 2m, if_running: skip, only_between: "22:00-06:00", not_on: [saturday, 7]}
    - {cron: "*/15 9-17 * * 1-5", timezone: Australia/Sydney, catch_up: run_all}
    - {id: once, after: 10m}
"""
LEGACY = """
plugins_dir: plugins
plugins:
  withings: {enabled: true, config: {token_file: x}, retry: {max: 2}, schedule: {every: hourly, jitter: 30s}}
"""
SOURCES = {
    "crontab": ["crontab", CRONTAB],
    "a system's crontab": ["crontab", SYSTEM, "--system"],
    "celery": ["celery", BEAT],
    "an agent": ["herdctl", AGENT],
    "a fleet": ["herdctl", FLEET],
    "ductile": ["ductile", DUCTILE],
    "ductile's one schedule": ["ductile", LEGACY],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With what the sources name: plugins, the files of a fleet."""
    shutil.copytree(SAMPLE / "plugins", tmp_path / "plugins")
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "fixer.yaml").write_text(FIXER)
    (tmp_path / "agents" / "writer.yaml").write_text("name: writer\nschedules: {draft: {type: chat}}")
    return tmp_path


@pytest.mark.parametrize("name", SOURCES)
def test_what_is_printed_passes_the_check(folder: Path, name: str) -> None:
    kind, text, *fields = SOURCES[name]
    source, path = folder / "source", folder / "everwhen.yaml"
    source.write_text(text)
    printed = CliRunner().invoke(everwhen, ["import", kind, *fields, str(source)])
    assert printed.exit_code == 0, printed.output
    assert "note: " in printed.stderr
    path.write_text(printed.stdout)
    checked = CliRunner().invoke(everwhen, ["config", "check", "--config", str(path)])
    assert (checked.stdout, checked.exit_code) == ("", 0)


def test_a_crontab_is_read_from_standard_input_and_printed_as_json() -> None:
    result = CliRunner().invoke(everwhen, ["import", "crontab", "-", "--json"], input="0 2 * * * backup")
    answer = json.loads(result.stdout)
    assert answer["document"]["schedules"][0]["id"] == "backup"


def test_a_missing_file_is_one_sentence(tmp_path: Path) -> None:
    result = CliRunner().invoke(everwhen, ["import", "crontab", str(tmp_path / "none")])
    assert result.exit_code == 1
    assert "cannot be read: No such file or directory" in str(result.exception)


JOBS = """
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler

def poll(place: str, *, deep: bool = False) -> None: ...

class App:
    scheduler = BackgroundScheduler(
        timezone="Europe/Berlin", jobstores={"default": SQLAlchemyJobStore("sqlite:///jobs.db")}
    )

scheduler = App.scheduler
scheduler.add_job(poll, "interval", minutes=5, args=["no"], kwargs={"deep": True}, jitter=30, id="poll")
scheduler.add_job(poll, "cron", day_of_week="mon-fri", hour=7, minute=30, args=["a: b"], misfire_grace_time=None)
scheduler.add_job(poll, "date", run_date="2090-01-01 12:00:00", args=["%"], id="new year", next_run_time=None)
scheduler.add_job(lambda: None, "interval", hours=1, id="nobody")
"""


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module in the present folder, which no other test imports."""
    name = f"jobs_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(JOBS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return name


@pytest.mark.parametrize("path", ["scheduler", "App.scheduler"])
def test_the_jobs_of_a_scheduler_object_pass_the_check(jobs: str, tmp_path: Path, path: str) -> None:
    printed = CliRunner().invoke(everwhen, ["import", "apscheduler", f"{jobs}:{path}"])
    assert printed.exit_code == 0, printed.output
    assert "note: nobody: left out: " in printed.stderr
    (tmp_path / "everwhen.yaml").write_text(printed.stdout)
    checked = CliRunner().invoke(everwhen, ["config", "check", "--config", str(tmp_path / "everwhen.yaml")])
    assert (checked.stdout, checked.exit_code) == ("", 0)
    found = CliRunner().invoke(everwhen, ["import", "apscheduler", f"{jobs}:{path}", "--json"])
    schedules = json.loads(found.stdout)["document"]["schedules"]
    assert [one["id"] for one in schedules] == ["poll", "poll-2", "new-year"]
    program = CliRunner().invoke(everwhen, ["import", "apscheduler", f"{jobs}:{path}", "--python"])
    compile(program.stdout, "program", "exec")
    assert f"import {jobs}" in program.stdout
    assert "note: nobody: left out: " in program.stderr


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("jobs", "'jobs' is not of the form \"module:scheduler\""),
        ("no_such_module:scheduler", "cannot be imported: ModuleNotFoundError"),
        ("json:scheduler", "cannot be imported: AttributeError"),
        ("json:dumps", "this is a builtins.function, not a scheduler of APScheduler 3"),
    ],
)
def test_a_name_that_is_no_scheduler_is_one_sentence(name: str, message: str) -> None:
    result = CliRunner().invoke(everwhen, ["import", "apscheduler", name])
    assert result.exit_code == 1
    assert message in str(result.exception)


PROGRAM = """
import pathlib, sys, threading, time
from {module} import {kind}

def work() -> None:
    pathlib.Path("worked").touch()

scheduler = {kind}()
scheduler.add_job(work, "interval", seconds=1, id="work", next_run_time=__import__("datetime").datetime.now())
{rest}
"""
BLOCKING = ("apscheduler.schedulers.blocking", "BlockingScheduler")
BACKGROUND = ("apscheduler.schedulers.background", "BackgroundScheduler")
ENDS = {
    "a scheduler that blocks": (
        BLOCKING,
        f"import {BACKGROUND[0]}\nscheduler.start()\npathlib.Path('cleaned-up').touch()",
    ),
    "a loop that keeps the program alive": (
        BACKGROUND,
        "scheduler.start()\ntry:\n    while True:\n        time.sleep(2)\nfinally:\n    scheduler.shutdown()",
    ),
    "an end with a status": (BACKGROUND, "scheduler.start()\nsys.exit(0)"),
    "a server": (
        BACKGROUND,
        "scheduler.start()\nfrom http.server import *\nHTTPServer(('', 0), BaseHTTPRequestHandler).serve_forever()",
    ),
    "an application": (
        BACKGROUND,
        "scheduler.start()\nimport flask, uvicorn\nflask.Flask('x').run(port=0)\nuvicorn.run(None)",
    ),
    "a thread that never ends": (
        BACKGROUND,
        "scheduler.start()\nthreading.Thread(target=threading.Event().wait).start()",
    ),
    "an event loop": (
        ("apscheduler.schedulers.asyncio", "AsyncIOScheduler"),
        "import asyncio\nloop = asyncio.new_event_loop()\nscheduler.start()\nloop.run_forever()",
    ),
}


@pytest.mark.parametrize("end", ENDS)
def test_a_program_that_starts_its_scheduler_is_read_and_runs_nothing(
    end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (module, kind), rest = ENDS[end]
    (tmp_path / "program.py").write_text(PROGRAM.format(module=module, kind=kind, rest=rest))
    monkeypatch.chdir(tmp_path)
    imported = read_program("program:scheduler")
    assert [schedule["every"] for schedule in imported.document["schedules"]] == ["1s"]
    assert "the module starts its scheduler when it is imported; here it was not started" in imported.notes
    assert not (tmp_path / "worked").exists()
    assert not (tmp_path / "cleaned-up").exists()


def test_a_program_that_does_not_end_is_read_as_far_as_it_has_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = PROGRAM.format(module=BACKGROUND[0], kind=BACKGROUND[1], rest="threading.Event().wait()")
    (tmp_path / "program.py").write_text(program)
    (tmp_path / "stuck.py").write_text("import threading\nthreading.Event().wait()")
    monkeypatch.chdir(tmp_path)
    imported = read_program("program:scheduler", limit=20)
    assert "the import of the module does not end; it was read as far as it had come" in imported.notes
    with pytest.raises(ConfigError, match=r"stuck:scheduler cannot be imported: the import of the module"):
        read_program("stuck:scheduler", limit=4)
    with pytest.raises(
        ConfigError, match=r"stuck:scheduler cannot be imported: it has not ended within 0\.1 s"
    ):
        read_program("stuck:scheduler", limit=0.1)
