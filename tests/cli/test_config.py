"""`everwhen config`: what an operator sees."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from everwhen.cli.main import everwhen
from tests.targets.plugins import put_plugin

GOOD = "schedules: [{id: a, every: 1h, run: {command: [ls]}}]"
BAD = "schedules:\n- {id: a, evry: 1h, run: {command: [ls]}}\n- {id: b, run: {command: [ls]}}"


def config(folder: Path, text: str, *fields: str) -> Result:
    path = folder / "everwhen.yaml"
    path.write_text(text)
    return CliRunner().invoke(everwhen, ["config", *fields, "--config", str(path)])


def test_a_valid_file_is_said_to_be_valid(tmp_path: Path) -> None:
    result = config(tmp_path, GOOD, "check")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.endswith("everwhen.yaml: valid, 1 schedule\n")


def test_mistakes_go_to_standard_output_with_exit_code_1(tmp_path: Path) -> None:
    result = config(tmp_path, BAD, "check")
    assert result.exit_code == 1
    assert result.stdout.replace(f"{tmp_path}/", "").splitlines() == [
        'everwhen.yaml:2: schedules[0].evry: unknown key, did you mean "every"?',
        "everwhen.yaml:3: schedules[1]: requires one of every, cron, at, or after",
    ]
    assert result.stderr.endswith("everwhen.yaml: 2 mistakes\n")


def test_mistakes_as_json_have_lines_and_columns(tmp_path: Path) -> None:
    answer = json.loads(config(tmp_path, BAD, "check", "--json").stdout)
    assert (answer["valid"], len(answer["errors"])) == (False, 2)
    assert (answer["errors"][0]["line"], answer["errors"][0]["column"]) == (2, 11)


def test_a_one_shot_in_the_past_is_a_warning(tmp_path: Path) -> None:
    text = GOOD.replace("every: 1h", "at: 2020-01-01T00:00:00Z")
    result = config(tmp_path, text, "check")
    assert result.exit_code == 0
    assert "1: schedules[0].at: has no slot to come: the schedule is done and fires nothing" in result.stderr


def test_the_schema_describes_every_key() -> None:
    schema = json.loads(CliRunner().invoke(everwhen, ["config", "schema"]).stdout)
    schedule = schema["properties"]["schedules"]["items"]
    assert schedule["required"] == ["id", "run"]
    assert all(key["description"] for key in schedule["properties"].values())


def test_a_diff_tells_what_moves_and_fits_into_ci(tmp_path: Path) -> None:
    database = ["--database", f"sqlite:///{tmp_path}/x.db"]
    assert config(tmp_path, GOOD, "diff", *database).exit_code == 3
    assert not (tmp_path / "x.db").exists()  # who only looks makes no database
    assert config(tmp_path, GOOD, "reload", *database).exit_code == 0
    assert config(tmp_path, GOOD, "diff", *database).exit_code == 0
    assert config(tmp_path, BAD, "diff", *database).exit_code == 1
    result = config(tmp_path, GOOD.replace("every: 1h", "cron: 0 9 * * *"), "diff", *database)
    assert result.exit_code == 3
    lines = result.stdout.replace(f"{tmp_path}/", "").splitlines()
    assert lines[:2] == ["~ a  everwhen.yaml:1", "    trigger: every 1h → cron 0 9 * * *"]
    assert any("firings of the next 7 days vanish" in line for line in lines)


def test_a_diff_as_json_names_every_instant(tmp_path: Path) -> None:
    hourly = GOOD.replace("every: 1h", "cron: 0 * * * *")
    result = config(tmp_path, hourly, "diff", "--json", "--database", f"sqlite:///{tmp_path}/x.db")
    (change,) = json.loads(result.stdout)["changes"]
    assert (change["what"], len(change["firings"]["appeared"])) == ("created", 168)


def test_what_is_shown_is_a_valid_file_without_secrets(tmp_path: Path) -> None:
    text = """
include: [more.yaml]
service: {database: "postgresql://ada:lovelace@db/x"}
agents:
  bot: {command: [x], schedules: {a: {type: webhook, secret: plain}, b: {type: webhook, secret: "${SECRET}"}}}
"""
    (tmp_path / "more.yaml").write_text(GOOD)
    shown = config(tmp_path, text, "show")
    assert "lovelace" not in shown.stdout and "plain" not in shown.stdout
    assert "postgresql://ada:***@db/x" in shown.stdout and "${SECRET}" in shown.stdout
    assert "check_interval: 1s" in shown.stdout and "id: a" in shown.stdout
    assert config(tmp_path, shown.stdout, "check").exit_code == 0


def test_a_plugin_that_others_may_write_to_is_a_warning_and_a_link_out_is_a_mistake(tmp_path: Path) -> None:
    text = "plugins: {withings: {schedule: {every: 1h}}}"
    put_plugin(tmp_path / "plugins").chmod(0o777)
    open_folder = config(tmp_path, text, "check")
    assert open_folder.exit_code == 0
    assert f"may write to {tmp_path}/plugins/withings" in open_folder.stderr.replace("\n", "")
    (tmp_path / "plugins" / "withings").rename(tmp_path / "elsewhere")
    (tmp_path / "plugins" / "withings").symlink_to(tmp_path / "elsewhere")
    linked = config(tmp_path, text, "check")
    assert linked.exit_code == 1 and "a link out of plugin_dirs" in linked.stdout


SECTIONS = """
workflows: {"1": {name: Report, run: {http: {url: "http://127.0.0.1:9000/run"}}}}
messages: {subscribers: [{id: inbox, http: {url: "http://127.0.0.1:9000/inbox"}}]}
notify: [{on: [breaker.opened], http: {url: "https://alerts.example/hunter2"}}]
api: {port: 8751}
"""


@pytest.mark.parametrize(
    ("before", "after", "entry"),
    [
        ("9000/run", "9001/run", "~ workflows.1"),
        ("9000/inbox", "9001/inbox", "~ messages.subscribers[0]"),
        ("breaker.opened", "schedule.died", "~ notify[0]"),
        ("hunter2", "hunter3", "~ notify[0]"),
        ("{port: 8751}", "{port: 8752}", "~ api.port"),
        (
            'messages: {subscribers: [{id: inbox, http: {url: "http://127.0.0.1:9000/inbox"}}]}',
            "",
            "- messages",
        ),
        ("{port: 8751}", "{port: 8751, max_body: 2MiB}", "+ api.max_body"),
    ],
)
def test_a_change_of_workflows_messages_notify_and_api_is_seen_and_said(
    tmp_path: Path, before: str, after: str, entry: str
) -> None:
    database = ["--database", f"sqlite:///{tmp_path}/x.db"]
    assert config(tmp_path, GOOD + SECTIONS, "reload", *database).exit_code == 0
    assert config(tmp_path, GOOD + SECTIONS, "diff", *database).exit_code == 0
    changed = (GOOD + SECTIONS).replace(before, after)
    result = config(tmp_path, changed, "diff", *database)
    assert result.exit_code == 3
    assert result.stdout.startswith(entry)
    assert "hunter" not in result.stdout
    (section,) = json.loads(config(tmp_path, changed, "diff", "--json", *database).stdout)["sections"]
    assert section["before"] != section["after"]
    assert section["key"] in config(tmp_path, changed, "reload", *database).stderr
    assert config(tmp_path, changed, "diff", *database).exit_code == 0


def test_the_first_load_calls_nothing_changed(tmp_path: Path) -> None:
    database = ["--database", f"sqlite:///{tmp_path}/x.db"]
    first = config(tmp_path, GOOD + SECTIONS, "reload", *database)
    assert "1 new" in first.stderr and "changed" not in first.stderr
    with closing(sqlite3.connect(tmp_path / "x.db")) as connection:
        (detail,) = connection.execute(
            "SELECT detail FROM audit_events WHERE type = 'config.reloaded'"
        ).fetchone()
    assert "sections" not in json.loads(detail)


def test_a_reference_to_the_environment_is_kept_as_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALERT_URL", "https://alerts.example/hunter2")
    text = GOOD + '\nnotify: [{on: [breaker.opened], http: {url: "${ALERT_URL}"}}]'
    database = ["--database", f"sqlite:///{tmp_path}/x.db"]
    assert "${ALERT_URL}" in config(tmp_path, text, "diff", *database).stdout
    assert config(tmp_path, text, "reload", *database).exit_code == 0
    assert b"hunter2" not in b"".join(file.read_bytes() for file in tmp_path.glob("x.db*"))


def test_what_a_release_without_a_record_of_sections_left_is_not_called_new(tmp_path: Path) -> None:
    database = ["--database", f"sqlite:///{tmp_path}/x.db"]
    config(tmp_path, GOOD + SECTIONS, "reload", *database)
    with closing(sqlite3.connect(tmp_path / "x.db")) as connection:
        connection.execute("UPDATE config_revisions SET sections = NULL")
        connection.commit()
    assert config(tmp_path, GOOD + SECTIONS, "diff", *database).exit_code == 0
    config(
        tmp_path, GOOD + SECTIONS, "reload", *database
    )  # the same file: what is in force is known from here on
    assert config(tmp_path, GOOD + SECTIONS.replace("8751", "8752"), "diff", *database).exit_code == 3


def test_a_diff_does_not_present_its_own_limit_as_a_fact(tmp_path: Path) -> None:
    database = ["--database", f"sqlite:///{tmp_path}/x.db"]
    often = GOOD.replace("every: 1h", "every: 1s")
    result = config(tmp_path, often, "diff", *database)
    assert "of the next 7 days" not in result.stdout
    assert re.search(r"10,000 firings until \w+ .* UTC appear", result.stdout), result.stdout
    (change,) = json.loads(config(tmp_path, often, "diff", "--json", *database).stdout)["changes"]
    firings = change["firings"]
    assert firings["until"] is not None and max(firings["appeared"]) < firings["until"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("service: {database: 'sqlite://everwhen.db'}", "lacks a slash"),
        ("service: {database: 'sqlite:///:memory:'}", "does not name a file"),
        ("service: {database: 'sqlite://', dispatch: rq}", "needs a database that its workers can open"),
        ("service: {database: 'postgresql://u@127.0.0.1:99999/x'}", "a port is between 1 and 65535"),
        (
            "{service: {dispatch: rq, redis: 'foo://x'}, api: {port: 0}}",
            "service.redis is not the address of a Redis server",
        ),
        (
            "{service: {dispatch: rq-chain, redis: 'foo://x'}, api: {port: 0}}",
            "service.redis is not the address of a Redis server",
        ),
        (
            "{service: {dispatch: celery, celery_broker: 'foo://x'}, api: {port: 0}}",
            "is not the address of a broker",
        ),
        ("api: {host: 0.0.0.0}", "serves other machines without TLS"),
        ("api: {tls: {cert: /no/cert.pem, key: /no/key.pem}}", "api.tls: /no/cert.pem cannot be read"),
    ],
)
def test_a_check_refuses_what_up_would_refuse(tmp_path: Path, text: str, said: str) -> None:
    result = config(tmp_path, text, "check")
    assert (result.exit_code, said in result.stdout) == (1, True), result.output
    answer = json.loads(config(tmp_path, text, "check", "--json").stdout)
    assert not answer["valid"]
    up = CliRunner().invoke(everwhen, ["up", "--config", str(tmp_path / "everwhen.yaml")])
    assert up.exit_code != 0 and said in f"{up.exception}{up.output}"


def test_up_with_a_certificate_that_cannot_be_read_stores_nothing(tmp_path: Path) -> None:
    settings = (
        f"service: {{database: 'sqlite:///{tmp_path}/x.db'}}\napi: {{tls: {{cert: no.pem, key: no.pem}}}}\n"
    )
    file = tmp_path / "everwhen.yaml"
    file.write_text(settings + GOOD)
    up = CliRunner().invoke(everwhen, ["up", "--config", str(file)])
    assert "api.tls: no.pem cannot be read" in str(up.exception)
    assert (up.output, list(tmp_path.iterdir())) == ("", [file])


def test_a_check_names_all_that_up_would_refuse(tmp_path: Path) -> None:
    text = "service: {database: 'sqlite://everwhen.db'}\napi: {host: 0.0.0.0}"
    answer = json.loads(config(tmp_path, text, "check", "--json").stdout)
    assert len(answer["errors"]) == 2
