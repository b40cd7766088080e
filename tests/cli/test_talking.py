"""Commands that look and do, each over a running service and on the database itself, in words and as JSON."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from everwhen import Scheduler
from everwhen.cli.main import COMMANDS, everwhen
from tests.api.serving import serving
from tests.scheduler.waiting import until

COMMAND = str(Path(sys.executable).parent / "everwhen")
FILE = """
quiet_hours: {nights: {timezone: Europe/Paris, windows: [{days: [mon], between: "22:00-07:00"}]}}
agents: {bot: {command: ["true"]}}
budgets: {bot: {fires_per_day: 20, cost_per_month: 5 USD, cost_per_run: 0.5 USD}}
"""


@dataclass(frozen=True, slots=True)
class Shell:
    """A command line that reaches one database, in one of the two ways."""

    options: tuple[str, ...]

    def run(self, *fields: str, code: int = 0) -> Result:
        answer = CliRunner().invoke(everwhen, [*fields, *self.options])
        if answer.exception is not None and not isinstance(answer.exception, SystemExit) and code == 0:
            raise answer.exception
        return answer

    def text(self, *fields: str) -> str:
        answer = self.run(*fields)
        assert answer.exit_code == 0, answer.output
        return answer.stdout

    def json(self, *fields: str) -> Any:
        return json.loads(self.text(*fields, "--json"))

    def refusal(self, *fields: str) -> str:
        """The words of an error of everwhen's own, which `main` prints."""
        answer = CliRunner().invoke(everwhen, [*fields, *self.options])
        assert answer.exception is not None
        return str(answer.exception) if not isinstance(answer.exception, SystemExit) else answer.output


@pytest.fixture(scope="module")
def shells(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Shell]]:
    """A database in which something ran, behind a service and in the open."""
    folder = tmp_path_factory.mktemp("talking")
    url = f"sqlite:///{folder}/api.db"
    with serving(folder, file=FILE, allow_code_targets=True) as service:
        with Scheduler(url, name="talk", max_workers=2) as scheduler:
            scheduler.add(
                "greets", every="1h", run={"command": ["echo", "hello there"]}, timezone="Europe/Paris"
            )
            scheduler.add("fails", every="1h", run={"command": ["false"]}, circuit_breaker={"threshold": 1})
            until(lambda: all(scheduler.get_schedule(one).last_run_at for one in ("greets", "fails")))
            until(lambda: scheduler.get_total_running_job_count() == 0)
        config = str(folder / "everwhen.yaml")
        yield {
            "service": Shell(("--url", service.url, "--token", service.admin.secret or "")),
            "database": Shell(("--config", config, "--database", url)),
        }


@pytest.fixture(params=["service", "database"])
def shell(request: pytest.FixtureRequest, shells: dict[str, Shell]) -> Shell:
    return shells[request.param]


def made(shell: Shell, name: str, **fields: str) -> str:
    settings = {
        "name": name,
        "every": "1h",
        "first_run": "after_interval",
        "run": '{"command": ["true"]}',
        **fields,
    }
    answer = shell.json("schedules", "create", *(f"--set={key}={value}" for key, value in settings.items()))
    return str(answer["id"])


def test_schedules_are_listed(shell: Shell) -> None:
    listed = shell.text("schedules", "list", "--match", "greets")
    assert "greets" in listed and "active" in listed and "every hour" in listed
    assert [one["id"] for one in shell.json("schedules", "list", "--match", "fails")] == ["fails"]
    assert "no schedules yet" in shell.text("schedules", "list", "--match", "nobody has this")


def test_a_schedule_is_shown(shell: Shell) -> None:
    shown = shell.text("schedules", "show", "greets")
    assert "every hour (Europe/Paris)" in shown and '{"command": ["echo", "hello there"]}' in shown
    shown_to_json = shell.json("schedules", "show", "greets")
    assert (shown_to_json["run_count"], shown_to_json["source"]) == (1, "python")


def test_a_schedule_is_created_changed_paused_resumed_and_deleted(shell: Shell) -> None:
    schedule = made(shell, "report")
    assert "every 2 hours (active; next" in shell.text("schedules", "update", schedule, "--set", "every=2h")
    assert "(paused" in shell.text("schedules", "pause", schedule, "--note", "holidays")
    assert shell.json("schedules", "show", schedule)["status_reason"] == "holidays"
    assert "(active; next" in shell.text("schedules", "resume", schedule)
    assert f"deleted {schedule}" in shell.text("schedules", "delete", schedule, "--yes")
    assert shell.refusal("schedules", "show", schedule) == (
        f'there is no schedule "{schedule}"; `everwhen schedules list` lists all'
    )


def test_what_cannot_be_meant_is_refused_with_its_cure(shell: Shell) -> None:
    schedule = made(shell, "meant")
    pause = shell.refusal("schedules", "pause", schedule, "--until", "2020-01-01")
    assert "until is already past; give a time to come" in pause
    assert shell.json("schedules", "show", schedule)["status"] == "active"
    span = shell.refusal("schedules", "backfill", schedule, "--from", "2026-01-02", "--to", "2026-01-01")
    assert "its end is not after its start" in span
    for fields in (("schedules", "show", ""), ("why", ""), ("jobs", "show", ""), ("quiet-hours", "show", "")):
        assert shell.run(*fields, code=2).exit_code == 2
        assert "an id is empty" in shell.refusal(*fields)


def test_a_slot_before_the_schedule_says_when_it_was_created(shell: Shell) -> None:
    assert "created only at" in shell.text("why", "greets", "--at", "2020-01-01T00:00")


def test_a_service_and_a_database_are_not_named_at_once(shells: dict[str, Shell]) -> None:
    both = Shell((*shells["service"].options, *shells["database"].options))
    assert "give one of them" in both.run("schedules", "list", code=2).output


def test_a_database_that_is_typed_stands_before_a_service_of_the_environment(
    shells: dict[str, Shell], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVERWHEN_URL", "http://127.0.0.1:1")
    assert "greets" in shells["database"].text("schedules", "list")


def test_a_database_is_not_made_by_looking_at_it(tmp_path: Path) -> None:
    typo = Shell(("--database", f"sqlite:///{tmp_path}/typo.db"))
    assert "there is no database" in typo.refusal("schedules", "list")
    assert list(tmp_path.iterdir()) == []


def test_a_service_that_wants_a_token_says_where_one_is_given(shells: dict[str, Shell]) -> None:
    assert "--token or EVERWHEN_TOKEN" in Shell(shells["service"].options[:2]).refusal("schedules", "list")


def test_what_is_deleted_is_printed_as_json(shell: Shell) -> None:
    schedule = made(shell, "short-lived")
    assert shell.json("schedules", "delete", schedule, "--yes") == {"deleted": [schedule]}
    shell.text("quiet-hours", "create", "brief", "--set", 'windows=[{"between": "12:00-13:00"}]')
    assert shell.json("quiet-hours", "delete", "brief") == {"id": "brief"}


def test_a_schedule_comes_from_a_file(shell: Shell, tmp_path: Path) -> None:
    source = tmp_path / "s.json"
    source.write_text(json.dumps({"name": "from a file", "cron": "0 9 * * *", "run": {"command": ["true"]}}))
    assert shell.json("schedules", "create", "--file", str(source))["cron"] == "0 9 * * *"
    source.write_text("[1]")
    assert "does not hold a JSON object" in shell.refusal("schedules", "create", "--file", str(source))


def test_every_mistake_of_a_submission_is_reported_at_once(shell: Shell) -> None:
    said = shell.refusal("schedules", "create", "--set", "evry=5m")
    assert 'evry: unknown key, did you mean "every"?' in said and "run is required" in said
    assert "no key is given" in shell.refusal("schedules", "create")
    assert "write it like jitter=30s" in shell.refusal("schedules", "create", "--set", "jitter")


def test_a_dead_schedule_is_what_revive_is_for(shell: Shell) -> None:
    assert "active" in shell.refusal("schedules", "revive", "greets")


def test_a_schedule_is_triggered_and_its_job_cancelled(shell: Shell) -> None:
    schedule = made(shell, "by hand")
    assert "its output: everwhen logs -f sched-" in shell.text("schedules", "trigger", schedule)
    job = shell.json("schedules", "trigger", schedule, "--payload", '{"a": 1}', "--if-running", "allow")[
        "job"
    ]
    assert job["payload"] == {"a": 1}
    assert shell.text("jobs", "cancel", job["id"]) == f"{job['id']}: cancelled\n"
    assert "is not valid JSON" in shell.refusal("schedules", "trigger", schedule, "--payload", "{")


def test_past_slots_are_filled(shell: Shell) -> None:
    schedule = made(shell, "backfilled")
    span = ("--from", "2026-01-05T08:00", "--to", "2026-01-05T10:00")
    assert (
        shell.json("schedules", "backfill", schedule, *span, "--dry-run")["count"] == 0
    )  # it was not there then
    assert "soon" in shell.refusal("schedules", "backfill", schedule, "--from", "soon", "--to", "later")


def test_upcoming_slots_are_listed(shell: Shell) -> None:
    assert "greets" in shell.text("schedules", "upcoming", "greets", "--limit", "2")
    found = shell.json("schedules", "upcoming", "greets", "--limit", "2")
    assert [one["is_estimate"] for one in found] == [False, False]


def test_a_pause_of_the_system_is_seen_in_lists_and_in_what_comes_next(shell: Shell) -> None:
    schedule = made(shell, "stopped")
    shell.text("system", "pause")
    try:
        for fields in (("schedules", "list"), ("schedules", "upcoming"), ("schedules", "upcoming", schedule)):
            answer = shell.run(*fields)
            assert "the system is paused" in answer.stdout, fields
            assert "To go on: everwhen system resume" in answer.stderr, fields
        assert shell.json("schedules", "upcoming", schedule)[0]["skip_reason"] == "system"
    finally:
        shell.text("system", "resume")
    assert "the system is paused" not in shell.text("schedules", "list")


def test_a_schedule_that_is_stopped_says_in_upcoming_how_to_go_on(shell: Shell) -> None:
    schedule = made(shell, "halted")
    shell.text("schedules", "pause", schedule)
    assert f"everwhen schedules resume {schedule}" in shell.run("schedules", "upcoming", schedule).stderr


def test_every_instant_of_an_answer_is_in_the_zone_of_the_schedule(shell: Shell) -> None:
    sentence, *evidence = shell.text("why", "greets").splitlines()
    assert re.match(r"✓ \w{3} \d{4}-\d\d-\d\d \d\d:\d\d:\d\d CES?T \+0[12]:00 fired", sentence)
    reported = [line for line in evidence if "ended" in line]
    assert reported and all(line.endswith((" CET +01:00", " CEST +02:00")) for line in reported), reported


def test_why_says_a_sentence_and_then_the_evidence(shell: Shell) -> None:
    lines = shell.text("why", "greets").splitlines()
    assert "fired; its job succeeded" in lines[0]
    assert any(line.strip().startswith("job sched-") for line in lines[1:])
    assert shell.json("why", "greets")["fate"] == "fired"


def test_why_reads_a_time_without_an_offset_in_the_zone_of_the_schedule(shell: Shell) -> None:
    assert "No slot at Fri 2026-01-02 09:01:00 CET +01:00" in shell.text(
        "why", "greets", "--at", "2026-01-02T09:01"
    )
    assert "--at" in shell.refusal("why", "greets", "--at", "yesterday")


def test_a_time_of_day_alone_is_todays(shell: Shell) -> None:
    assert " 09:01:00 CET +01:00" in shell.text("why", "greets", "--at", "09:01")
    assert " 09:01:30 CET +01:00" in shell.text("why", "greets", "--at", "09:01:30")
    assert "--at" in shell.refusal("why", "greets", "--at", "25:01")


def test_why_answers_for_deleted_schedules(shell: Shell) -> None:
    schedule = made(shell, "gone")
    shell.text("schedules", "delete", schedule, "--yes")
    assert "No slot" in shell.text("why", schedule)


def test_jobs_are_listed_shown_and_their_output_read(shell: Shell) -> None:
    (job,) = shell.json("jobs", "list", "--schedule", "greets", "--status", "succeeded")
    assert "hello there" in shell.text("jobs", "list", "--schedule", "greets", "--status", "succeeded")
    assert "succeeded" in shell.text("jobs", "show", job["id"])
    assert shell.json("jobs", "show", job["id"])["attempt"] == 1
    assert job["queue"] == "default"  # the name of the program is no business of people
    assert shell.text("jobs", "logs", job["id"]) == "hello there\n"
    assert shell.text("jobs", "logs", "-f", job["id"]) == "hello there\n"
    assert shell.json("jobs", "logs", job["id"])["is_over"]
    assert shell.text("jobs", "list", "--status", "timed_out") == "no jobs\n"
    assert shell.text("jobs", "list", "--schedule", "greets", "--status", "lost") == "no jobs\n"
    assert 'no schedule "greet"' in shell.refusal("jobs", "list", "--schedule", "greet")


def test_a_job_is_run_again(shell: Shell) -> None:
    (job,) = shell.json("jobs", "list", "--schedule", "fails", "--status", "failed")
    again = shell.json("jobs", "rerun", job["id"])["job"]
    assert again["slot_at"] == job["slot_at"] and again["id"] != job["id"]
    assert "job sched-" in shell.text("jobs", "rerun", job["id"])
    assert shell.refusal("jobs", "show", "sched-nobody-n1-rc0")


def test_quiet_hours_are_made_changed_and_deleted(shell: Shell) -> None:
    assert "monday 22:00-07:00" in shell.text("quiet-hours", "list")
    setting = 'windows=[{"between": "12:00-13:00"}]'
    assert shell.text("quiet-hours", "create", "lunch", "--set", setting) == "created lunch\n"
    assert shell.text("quiet-hours", "update", "lunch", "--set", "action=defer") == "changed lunch\n"
    assert shell.json("quiet-hours", "show", "lunch")["action"] == "defer"
    assert "12:00-13:00" in shell.text("quiet-hours", "show", "lunch")
    assert shell.text("quiet-hours", "delete", "lunch") == "deleted lunch\n"
    assert "declared in the configuration file" in shell.refusal("quiet-hours", "delete", "nights")
    assert "is not valid JSON" in shell.refusal("quiet-hours", "create", "x", "--set", "windows=[")


def test_the_history_of_a_breaker_is_shown_and_it_is_reset(shell: Shell) -> None:
    shown = shell.text("system", "breaker", "fails")
    assert "closed → open" in shown and "failure_threshold" in shown
    assert shell.json("system", "breaker", "fails")[0]["transitions"][-1]["to_state"] == "open"
    assert "✓ fails  closed" in shell.text("system", "breaker", "fails", "--reset")
    assert 'no breaker of "nobody" has counted a failure' in shell.refusal("system", "breaker", "nobody")


def test_the_system_says_whether_it_works(shell: Shell) -> None:
    shown = shell.run("system", "status")
    assert shown.exit_code == 1 and "✗ no scheduler is running: nothing fires" in shown.stdout
    found = json.loads(shell.run("system", "status", "--json").stdout)
    assert {node["role"] for node in found["nodes"]} == {"up"}
    assert shell.json("system", "scheduler")["status"] == "stopped"
    assert "in another process" in shell.text("system", "scheduler")


def test_the_system_is_paused_and_resumed(shell: Shell) -> None:
    assert "nothing fires" in shell.text("system", "pause")
    assert "– paused by" in shell.run("system", "status").stdout
    assert shell.text("system", "resume") == "resumed\n"
    assert shell.json("system", "pause")["is_paused"] and not shell.json("system", "resume")["is_paused"]


def test_the_audit_is_listed_with_the_newest_last(shell: Shell) -> None:
    lines = shell.text("audit", "--schedule", "greets").splitlines()
    assert "schedule.created" in lines[0]
    assert any("schedule.fired" in line for line in lines[1:])
    kinds = {event["type"] for event in shell.json("audit", "--type", "scheduler.started")}
    assert kinds == {"scheduler.started"}


def test_an_empty_audit_says_how_a_deleted_schedule_is_found(shell: Shell) -> None:
    done = shell.run("audit", "--schedule", "gone-for-long")
    assert (done.exit_code, done.stdout) == (0, "") and "--match finds one by its key or name" in done.stderr


def test_the_audit_goes_on_with_events_and_firings_each_printed_once(shell: Shell) -> None:
    name = made(shell, "followed")
    fields = [COMMAND, "audit", "-f", "--schedule", name, *shell.options]
    with subprocess.Popen(fields, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            lines = iter(process.stdout.readline, "")
            reported = [next(lines)]  # it has looked, and goes on
            for verb in ("trigger", "pause", "resume"):
                shell.text("schedules", verb, name)
            while "schedule.resumed" not in reported[-1]:
                reported.append(next(lines))
        finally:
            process.kill()
    listed = shell.json("audit", "--schedule", name)
    assert [event["type"] for event in listed] == [
        next(word for word in line.split() if "." in word) for line in reported
    ]
    assert [event["type"] for event in listed].count("schedule.fired") == 1


# -- reaching nobody --


def test_no_database_and_no_service_is_reported_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    answer = CliRunner().invoke(everwhen, ["schedules", "list"])
    assert "no database everwhen.db here, and no service is named" in str(answer.exception)
    assert list(tmp_path.iterdir()) == []


def test_a_service_that_does_not_answer_is_named() -> None:
    answer = CliRunner().invoke(everwhen, ["schedules", "list", "--url", "http://127.0.0.1:9"])
    assert "no answer from http://127.0.0.1:9" in str(answer.exception)
    answer = CliRunner().invoke(everwhen, ["schedules", "list", "--url", "nonsense"])
    assert "write http://127.0.0.1:8750" in str(answer.exception)


def test_a_wrong_token_is_reported(shells: dict[str, Shell]) -> None:
    options = [*shells["service"].options[:3], "ew_wrong"]
    answer = CliRunner().invoke(everwhen, ["schedules", "list", *options])
    assert "unknown, expired or revoked" in str(answer.exception)


# -- a starter --


def test_init_writes_a_starter_that_is_valid_and_overwrites_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "my app"
    assert CliRunner().invoke(everwhen, ["init", str(folder)]).exit_code == 0
    checked = CliRunner().invoke(everwhen, ["config", "check", "--config", str(folder / "everwhen.yaml")])
    assert checked.exit_code == 0, checked.output
    again = CliRunner().invoke(everwhen, ["init", str(folder)])
    assert again.exit_code == 1 and "exists already; nothing was written" in again.output


def test_init_says_where_it_cannot_write(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    (tmp_path / "file").write_text("")
    for folder in (loop, tmp_path / "file" / "app"):
        answer = CliRunner().invoke(everwhen, ["init", str(folder)])
        assert answer.exit_code == 1 and f"Error: {folder} cannot be written to: " in answer.output


@pytest.mark.parametrize(
    ("host", "line"),
    [
        ("Asia/Tokyo", "timezone: Asia/Tokyo"),
        ("XYZ-3", "timezone: UTC  # cannot tell the IANA name of this machine"),
    ],
)
def test_init_writes_the_zone_of_this_machine_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str, line: str
) -> None:
    monkeypatch.setenv("TZ", host)
    CliRunner().invoke(everwhen, ["init", str(tmp_path / "app")], catch_exceptions=False)
    file = tmp_path / "app" / "everwhen.yaml"
    assert f"\n  {line}" in file.read_text()
    checked = CliRunner().invoke(everwhen, ["config", "check", "--config", str(file)])
    assert checked.exit_code == 0, checked.output


def test_the_starter_runs(tmp_path: Path) -> None:
    """The sample plugin is executed as a worker would: one JSON object in, one out."""
    CliRunner().invoke(everwhen, ["init", str(tmp_path / "app")])
    plugin = tmp_path / "app" / "plugins" / "hello" / "hello.py"
    asked = json.dumps({"protocol": 2, "state": {"count": 4}, "payload": {"name": "you"}})
    answer = subprocess.run([str(plugin)], input=asked, capture_output=True, text=True, check=True)
    assert json.loads(answer.stdout)["result"] == "Hello, you, time number 5"


@pytest.mark.parametrize(
    "fields", [("next", "5m", "--json"), ("config", "schema"), *((name, "--help") for name in COMMANDS)]
)
def test_every_command_answers(fields: tuple[str, ...]) -> None:
    answer = CliRunner().invoke(everwhen, list(fields))
    assert answer.exit_code == 0 and answer.output


def test_ctrl_c_ends_following_without_a_word(shells: dict[str, Shell]) -> None:
    command = [str(Path(sys.executable).parent / "everwhen"), "audit", "-f", "--json"]
    with subprocess.Popen(
        [*command, *shells["database"].options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as following:
        assert following.stdout is not None
        assert json.loads(following.stdout.readline())["type"]
        following.send_signal(signal.SIGINT)
        _, said = following.communicate(timeout=30)
    assert (following.returncode, said) == (0, "")


def test_budgets_are_listed_with_what_is_used_and_left(shell: Shell) -> None:
    (budget,) = shell.json("budgets", "list")
    assert (budget["kind"], budget["name"], budget["cost_per_run"]) == ("group", "bot", 0.5)
    lines = [" ".join(line.split()[:11]) for line in shell.text("budgets", "list").splitlines()]
    assert "group bot fires_per_day 0 20 20 ok 0" in " | ".join(lines)
    assert "group bot cost_per_month 0 USD 0 USD 5 USD 5 USD" in " | ".join(lines)


def test_the_limits_on_what_a_token_makes_are_listed_among_the_budgets(tmp_path: Path) -> None:
    options = ["--database", f"sqlite:///{tmp_path}/e.db"]
    limits = ["--limit", "max_schedules=3", "--limit", "min_interval=10m", "--limit", "cost_per_run=1 USD"]

    def said(*words: str) -> str:
        answer = CliRunner().invoke(everwhen, [*words, *options])
        assert answer.exit_code == 0, answer.output
        return answer.output

    said("db", "migrate")
    said("token", "create", "agent", "--role", "operator", *limits)
    lines = [line.split() for line in said("budgets", "list").splitlines()]
    assert ["token", "agent", "max_schedules", "0", "3", "3", "ok"] in lines
    assert ["token", "agent", "min_interval", "10m"] in lines
