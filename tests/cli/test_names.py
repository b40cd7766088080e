"""A schedule is named by its id, its key, or its name where that is unique, in every command and both ways."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex

import pytest

from everwhen.model.alerts import Alert
from everwhen.store.opened import store_of
from tests.api.serving import serving
from tests.cli.test_talking import Shell

HOURLY = ("--every", "1h", "--first-run", "after_interval", "--run", '{"message": {"text": "hello"}}')


@pytest.fixture(scope="module")
def shells(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Shell]]:
    folder = tmp_path_factory.mktemp("names")
    with serving(folder, file="agents: {bot: {command: ['true']}}") as service:
        reach = {
            "service": Shell(("--url", service.url, "--token", service.admin.secret or "")),
            "database": Shell(("--database", f"sqlite:///{folder}/api.db")),
            "ada": Shell(
                ("--url", service.url, "--token", service.client("admin", owner="ada").secret or "")
            ),
        }
        bob = service.client("admin", owner="bob").secret or ""
        reach["bob"] = Shell(("--url", service.url, "--token", bob))
        reach["bob"].text("schedules", "create", "--id", "hers", "--name", "Bob's", *HOURLY)
        for key, name in (("report", "Daily report"), ("one", "twin"), ("two", "twin")):
            reach["service"].text("schedules", "create", "--id", key, "--name", name, *HOURLY)
        reach["service"].text(
            "schedules", "create", "--id", "bots", "--run", '{"agent": {"name": "bot"}}', *HOURLY[:4]
        )
        one = reach["service"].json("schedules", "show", "one")["id"]
        alert = Alert.about("schedule.failing", one, service.runtime.clock.now(), schedule_id=one, uid=one)
        store_of(service.runtime).alerts.keep([alert])
        reach["ada"].text("schedules", "create", "--id", "hers", "--name", "Ada's", *HOURLY)
        reach["ada"].text("schedules", "create", "--id", "report", "--name", "twin", *HOURLY)
        yield reach


@pytest.fixture(params=["service", "database"])
def shell(request: pytest.FixtureRequest, shells: dict[str, Shell]) -> Shell:
    return shells[request.param]


def test_the_key_stands_beside_an_id_that_stays_a_uuid(shell: Shell) -> None:
    found = shell.json("schedules", "show", "report")
    assert (found["key"], found["name"], len(found["id"])) == ("report", "Daily report", 36)
    assert found["uid"] == found["id"]
    listed = shell.text("schedules", "list", "--match", "Daily")
    assert "report" in listed and found["id"] not in listed


@pytest.mark.parametrize("name", ["report", "Daily report"])
def test_every_command_finds_a_schedule_by_key_and_by_name(shell: Shell, name: str) -> None:
    schedule_id = shell.json("schedules", "show", name)["id"]
    assert shell.json("schedules", "pause", name)["status"] == "paused"
    assert shell.json("schedules", "resume", name)["status"] == "active"
    assert shell.json("schedules", "update", name, "--jitter", "5m")["jitter"] == "5m"
    assert shell.json("schedules", "upcoming", name)[0]["schedule_id"] == schedule_id
    assert shell.json("why", name)["fate"]
    job = shell.json("schedules", "trigger", name)["job"]
    assert job["schedule_id"] == schedule_id
    assert job["id"] in [one["id"] for one in shell.json("jobs", "list", "--schedule", name)]
    assert {one["schedule_id"] for one in shell.json("audit", "--schedule", name)} == {schedule_id}
    assert shell.json("jobs", "logs", name)["is_over"] is False
    assert "0 slots would be filled" in shell.run(
        "schedules", "backfill", name, "--from", "2020-01-01", "--to", "2020-01-02", "--dry-run"
    ).stderr.replace("slot would", "slots would")


def test_alerts_of_a_schedule_are_listed_and_silenced_by_key_and_by_name(shell: Shell) -> None:
    for name in ("report", "Daily report"):
        assert shell.json("alerts", "list", "--schedule", name) == []
        said = shell.text("alerts", "silence", name, "--for", "1h")
        assert said.startswith("alerts of schedule report are held until ")
    assert len(shell.json("alerts", "list", "--schedule", "one")) == 1
    assert shell.json("alerts", "silence", "bot", "--for", "1h")["kind"] == "group"
    assert shell.refusal("alerts", "list", "--schedule", "nobody").startswith('there is no schedule "nobody"')
    assert "3 schedules are named" in shell.refusal("alerts", "silence", "twin", "--for", "1h")


def test_a_name_of_several_lists_them(shell: Shell) -> None:
    said = shell.refusal("schedules", "pause", "twin")
    assert said.startswith('3 schedules are named "twin"; name one of them by its id or key:\n')
    assert {"  one", "  two"} <= set(said.splitlines())
    assert "3 schedules are named" in shell.refusal("jobs", "list", "--schedule", "twin")


def test_a_key_goes_before_a_name_and_ones_own_before_that_of_others(shells: dict[str, Shell]) -> None:
    ours, hers = (shells[who].json("schedules", "show", "report") for who in ("database", "ada"))
    assert (ours["owner"], hers["owner"]) == (None, "ada")
    assert shells["database"].json("schedules", "show", "Ada's")["owner"] == "ada"


def test_schedules_of_several_owners_with_one_key_are_listed_by_their_ids(shells: dict[str, Shell]) -> None:
    listed = shells["bob"].json("schedules", "list"), shells["ada"].json("schedules", "list")
    ids = {one["id"] for page in listed for one in page if one["key"] == "hers"}
    said = shells["service"].refusal("schedules", "pause", "hers")
    assert len(ids) == 2 and {line.strip() for line in said.splitlines()[1:]} == ids


def test_tables_show_the_key_that_was_chosen_instead_of_the_generated_id(shell: Shell) -> None:
    found = shell.json("schedules", "show", "one")
    shell.text("schedules", "trigger", "one")
    for line in ("upcoming one", "jobs list --schedule one", "audit --schedule one", "alerts list", "status"):
        said = shell.run(*line.split()).stdout
        assert found["id"] not in said.replace(f"sched-{found['id']}", ""), line
        assert "one" in said or line == "status", line
    assert " of one, slot " in shell.run("logs", "-f", "one", "--json").stderr


@pytest.mark.parametrize("key", ["a/b", "a b", "-", "ü"])
def test_a_key_with_other_characters_is_refused_with_those_that_are_allowed(shell: Shell, key: str) -> None:
    said = shell.refusal("schedules", "create", f"--id={key}", *HOURLY)
    assert "letters, digits, ., _, : and -" in said and "begin" in said


def test_a_token_finds_only_what_it_may_see(shells: dict[str, Shell]) -> None:
    assert shells["ada"].json("schedules", "show", "twin")["owner"] == "ada"  # the only one that it sees
    for name in ("one", "Daily report"):
        assert shells["ada"].refusal("why", name).startswith(f'there is no schedule "{name}"')


def test_a_key_that_names_a_schedule_already_is_refused(shell: Shell) -> None:
    before = shell.json("schedules", "show", "one")
    said = shell.refusal("schedules", "create", "--id", "one", *HOURLY)
    assert said == '"one" names a schedule already; change it with: everwhen schedules update one'
    assert shell.json("schedules", "show", "one") == before


def test_a_name_that_is_almost_right_gets_the_right_one_suggested(shell: Shell) -> None:
    name = f"heartbeat-{token_hex(4)}"
    shell.json("schedules", "create", "--id", name, *HOURLY)
    for line in ("why", "schedules pause"):
        said = shell.refusal(*line.split(), f"haer{name[4:]}")
        assert said == f'there is no schedule "haer{name[4:]}", did you mean "{name}"?'


def test_a_name_that_is_unknown_says_where_all_are(shell: Shell) -> None:
    said = 'there is no schedule "nobody"; `everwhen schedules list` lists all'
    for line in ("why nobody", "schedules pause nobody", "jobs logs nobody", "jobs list --schedule nobody"):
        assert shell.refusal(*line.split()) == said
    assert "has not run yet; run it now with: everwhen schedules trigger two" in shell.refusal(
        "jobs", "logs", "two"
    )


def test_the_output_of_the_newest_job_is_printed_by_the_name_of_its_schedule(tmp_path: Path) -> None:
    from everwhen import Scheduler
    from tests.scheduler.waiting import until

    url = f"sqlite:///{tmp_path}/e.db"
    with Scheduler(url, name="logs", max_workers=1) as scheduler:
        scheduler.add("says", every="1h", run={"command": ["echo", "hello"]})
        until(lambda: scheduler.get_schedule("says").last_success_at)
        at_once = Shell(("--database", url)).run(
            "jobs", "logs", "says"
        )  # a node writes output twice a second
    answer = Shell(("--database", url)).run("jobs", "logs", "says")
    assert (at_once.stdout, at_once.stderr) == (answer.stdout, answer.stderr)
    assert answer.stdout == "hello\n" and answer.stderr.startswith("job sched-")
    assert json.loads(Shell(("--database", url)).text("jobs", "logs", "says", "--json"))["is_over"]
