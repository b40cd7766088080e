"""Sections: plugins, agents, workflows and general schedules become the same declarations."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from everwhen.config.problems import Report
from everwhen.config.read import Configuration, examine, read_configuration
from everwhen.model.declare import Declared
from everwhen.model.instants import HOUR, MINUTE, SECOND
from everwhen.model.policy import BreakerRule, Budget, Capacity, Guard
from tests.config.reading import NOW, SAMPLE, host, mistakes, read


@pytest.fixture
def sample() -> dict[str, Declared]:
    return by_id(read_configuration(SAMPLE / "everwhen.yaml", host()))


def by_id(configuration: Configuration) -> dict[str, Declared]:
    return {one.schedule_id: one for one in configuration.declared.schedules}


def test_the_sample_of_the_contract_is_valid(sample: dict[str, Declared]) -> None:
    assert list(sample) == [
        "withings.hourly",
        "reviewer.check-issues",
        "reviewer.morning-report",
        "reviewer.on-push",
        "reviewer.ask",
        "nightly-backup",
        "reminder",
        "recount",
        "included",
    ]


def test_a_reminder_of_last_year_is_a_warning() -> None:
    report = Report()
    later = replace(host(), now=NOW + 400 * 24 * HOUR)
    examine(SAMPLE / "everwhen.yaml", later, report)
    assert report.errors == []
    (warning,) = report.warnings
    assert warning.path == "schedules[1].at"


def test_a_plugin_has_the_defaults_of_its_section(tmp_path: Path) -> None:
    text = "plugins: {withings: {config: {token_file: t}, schedule: {every: 15m}}}"
    definition = by_id(read(tmp_path, text))["withings.default"].definition
    assert definition.command == "poll"
    assert definition.guard == Guard("guard:withings:poll", 1)
    assert definition.breaker == BreakerRule("withings:poll", 3, 30 * MINUTE)
    assert (definition.timeout, definition.interval_from) == (10 * MINUTE, "slot")


def test_what_stands_on_the_plugin_holds_for_its_schedules(tmp_path: Path) -> None:
    text = """
plugins:
  withings:
    enabled: false
    owner: ada
    queue: slow
    timezone: Asia/Tokyo
    max_outstanding_polls: 0
    max_concurrent: 2
    circuit_breaker: false
    timeouts: {poll: 60s}
    timeout: 5m
    config: {token_file: t}
    schedules: [{id: a, every: 1h}, {id: b, every: 1h, command: token_refresh, payload: {source: x}, queue: own}]
"""
    found = by_id(read(tmp_path, text))
    a, b = found["withings.a"].definition, found["withings.b"].definition
    assert (a.owner, a.queue, a.zone.name, a.timeout) == ("ada", "slow", "Asia/Tokyo", 60 * SECOND)
    assert (a.guard, a.breaker, a.capacity) == (None, None, Capacity("capacity:withings", 2))
    assert (b.queue, b.timeout, b.on_lost) == ("own", 5 * MINUTE, "fail")
    assert not found["withings.a"].is_enabled


SHARED = """
agents:
  bot: {command: [x], owner: ada, shared: true, circuit_breaker: {threshold: 2}, max_outstanding: 4, timeout: 5m, schedules: {%s}}
plugins:
  withings: {owner: ada, shared: true, timeouts: {poll: 60s}, config: {token_file: t}, schedules: [%s]}
workflows:
  "7": {owner: ada, shared: true, timeout: 5m, run: {http: {url: "http://x/run"}}}
schedules: [%s]
"""  # noqa: E501


def test_another_owner_on_a_shared_group_has_keys_of_its_own(tmp_path: Path) -> None:
    text = SHARED % (
        "a: {interval: 5m, owner: bob}, b: {interval: 5m}",
        "{id: a, every: 1h, owner: bob, timeout: 30s}, {id: b, every: 1h}",
        "{id: w, every: 1h, owner: bob, run: {workflow: {id: '7'}}}",
    )
    found = {name: one.definition for name, one in by_id(read(tmp_path, text)).items()}
    tenant, own = found["bot.a"], found["bot.b"]
    assert (tenant.owner, own.owner) == ("bob", "ada")
    assert (tenant.breaker, own.breaker) == (
        BreakerRule("bot@bob", 2, 30 * MINUTE),
        BreakerRule("bot", 2, 30 * MINUTE),
    )
    assert (tenant.guard, own.guard) == (Guard("guard:bot@bob", 4), Guard("guard:bot", 4))
    assert tenant.capacity == own.capacity == Capacity("capacity:bot", 1)
    assert tenant.timeout == found["w"].timeout == 5 * MINUTE
    tenant, own = found["withings.a"], found["withings.b"]
    assert tenant.breaker and tenant.breaker.key == "withings:poll@bob"
    assert (tenant.timeout, own.timeout) == (30 * SECOND, 60 * SECOND)


@pytest.mark.parametrize("shared", ["", "shared: false, "])
def test_what_runs_a_group_belongs_to_the_groups_owner(tmp_path: Path, shared: str) -> None:
    text = (SHARED % ("a: {interval: 5m, owner: bob}", "{every: 1h, owner: bob}", WORKFLOW)).replace(
        "shared: true, ", shared
    )
    assert [line.partition(": ")[2] for line in mistakes(tmp_path, text)] == [
        'agents.bot.schedules.a.owner: must be "ada", whose agent it runs; leave it out',
        'plugins.withings.schedules[0].owner: must be "ada", whose plugin it runs; leave it out',
        'schedules[0].owner: must be "ada", whose workflow it runs; leave it out',
    ]


WORKFLOW = "{id: w, every: 1h, owner: bob, run: {workflow: {id: '7'}}}"


@pytest.mark.parametrize(
    ("fields", "key"),
    [
        ("circuit_breaker: false", "circuit_breaker"),
        ("max_outstanding: 9", "max_outstanding"),
        ("queue: fast", "queue"),
        ("on_lost: fail", "on_lost"),
        ("timeout: 6m", "timeout"),
        ("timeout: 0", "timeout"),
    ],
)
def test_another_owner_cannot_say_what_a_shared_group_says(tmp_path: Path, fields: str, key: str) -> None:
    said = f"every: 1h, owner: bob, {fields}"
    text = SHARED % (f"a: {{{said}}}", f"{{{said}}}", f"{{id: w, run: {{workflow: {{id: '7'}}}}, {said}}}")
    assert [line.split(": ")[1] for line in mistakes(tmp_path, text)] == [
        f"agents.bot.schedules.a.{key}",
        f"plugins.withings.schedules[0].{key}",
        f"schedules[0].{key}",
    ]


def test_a_disabled_plugin_need_not_be_installed(tmp_path: Path) -> None:
    configuration = read(tmp_path, "plugins: {garmin: {enabled: false, schedule: {every: 1h}}}")
    assert [str(warning).partition(": ")[2] for warning in configuration.warnings] == [
        'plugins.garmin: plugin "garmin" is not installed in ' + str(tmp_path / "plugins")
    ]


def test_an_agent_has_the_defaults_of_its_section(sample: dict[str, Declared]) -> None:
    definition = sample["reviewer.check-issues"].definition
    assert definition.is_chain
    assert (definition.zone.name, definition.timeout) == ("Europe/Berlin", HOUR)
    assert definition.capacity == Capacity("capacity:reviewer", 1)
    assert definition.budgets == (Budget("budget:reviewer", 20, 200),)
    spec = json.loads(sample["reviewer.check-issues"].target.spec)
    assert spec["work_source"] == {"type": "directory", "path": "inbox", "when_empty": "run"}
    assert spec["prompt"] == "Check for ready issues."


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ("{interval: 5m}", "interval"),
        ("{every: 5m}", "interval"),
        ("{expression: '@daily'}", "cron"),
        ("{cron: '@daily'}", "cron"),
        ("{at: 2030-01-01T00:00:00Z}", "one_shot"),
        ("{after: 5m}", "one_shot"),
        ("{type: webhook}", "webhook"),
        ("{type: chat}", "chat"),
    ],
)
def test_an_agents_trigger_may_say_itself_what_it_is(tmp_path: Path, fields: str, kind: str) -> None:
    text = f"agents: {{a: {{command: [x], instances: {{max_concurrent: 3}}, schedules: {{s: {fields}}}}}}}"
    definition = by_id(read(tmp_path, text))["a.s"].definition
    assert definition.type == kind
    assert definition.capacity == Capacity("capacity:a", 3)


def test_a_webhooks_secret_stays_a_reference(sample: dict[str, Declared]) -> None:
    assert json.loads(sample["reviewer.on-push"].target.spec)["secret"] == "${PUSH_SECRET}"


def test_a_general_schedule_of_a_group_takes_the_groups_limits(tmp_path: Path) -> None:
    text = """
workflows:
  "7": {name: report, owner: ada, max_concurrent: 1, run: {http: {url: "http://x/run"}}, triggers: [t]}
agents:
  bot: {command: [x]}
plugins:
  withings: {config: {token_file: t}, max_concurrent: 2}
schedules:
- {id: w, every: 1h, run: {workflow: {id: 7, trigger_node_id: t}}}
- {id: a, every: 1h, run: {agent: {name: bot, prompt: Hello.}}}
- {id: p, every: 1h, run: {plugin: {name: withings}}}
"""
    configuration = read(tmp_path, text)
    found = by_id(configuration)
    assert (found["w"].group, found["w"].definition.capacity) == ("7", Capacity("capacity:7", 1))
    assert json.loads(found["w"].target.spec) == {"workflow_id": "7", "trigger_node_id": "t", "owner": "ada"}
    assert found["a"].definition.capacity == Capacity("capacity:bot", 1)
    assert (found["p"].definition.command, found["p"].definition.capacity) == (
        "poll",
        Capacity("capacity:withings", 2),
    )
    (workflow,) = configuration.workflows
    assert (workflow.workflow_id, workflow.name, workflow.triggers) == ("7", "report", ("t",))


def test_a_budget_binds_a_group_and_an_owner(tmp_path: Path) -> None:
    text = """
budgets: {bot: {fires_per_hour: 1}, ada: {fires_per_day: 9}, nobody: {fires_per_day: 1}}
agents: {bot: {command: [x], owner: ada, schedules: {s: {interval: 5m}}}}
"""
    configuration = read(tmp_path, text)
    assert by_id(configuration)["bot.s"].definition.budgets == (
        Budget("budget:ada", None, 9),
        Budget("budget:bot", 1, None),
    )
    assert [warning.path for warning in configuration.warnings] == ["budgets.nobody"]


def test_watchers_of_a_schedule_are_part_of_it(tmp_path: Path) -> None:
    fields = "expect: {within: 26h, grace: 1h}, ping: {url: 'https://hc/${PING}'}, run: {command: [x]}"
    definition = by_id(read(tmp_path, f"schedules: [{{id: a, every: 1h, {fields}}}]"))["a"].definition
    assert (definition.expect_within, definition.expect_grace) == (26 * HOUR, HOUR)
    assert definition.ping_url == "https://hc/${PING}"


def test_the_services_grace_holds_for_schedules_that_have_none(tmp_path: Path) -> None:
    text = "service: {misfire_grace: 10s}\nschedules: [{id: a, every: 1h, run: {command: [x]}}]"
    assert by_id(read(tmp_path, text))["a"].definition.misfire_grace == 10 * SECOND


def test_a_function_that_cannot_be_loaded_is_named(tmp_path: Path) -> None:
    def fault(name: str) -> str | None:
        return f'there is no module "{name.partition(":")[0]}"'

    (tmp_path / "everwhen.yaml").write_text("schedules: [{id: a, every: 1h, run: {python: 'nowhere:f'}}]")
    report = Report()
    examine(tmp_path / "everwhen.yaml", replace(host(), python_fault=fault), report)
    (problem,) = report.errors
    assert (problem.path, problem.message) == ("schedules[0].run.python", 'there is no module "nowhere"')


def test_sections_of_others_are_handed_on_checked(tmp_path: Path) -> None:
    (tmp_path / "more.yaml").write_text("notify: [{on: [node.lost], command: [b]}]")
    found: Any = read(tmp_path, "include: [more.yaml]\nnotify: [{on: [node.lost], command: [a]}]").sections
    assert [channel["command"] for channel in found["notify"]] == [["a"], ["b"]]
    assert mistakes(tmp_path, "notify: [{on: [node.lost], http: {url: '${ALERT_URL}'}}]") == []
