"""Rows about the configuration: Ductile's and herdctl's sections, as a file and as a running scheduler see them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from everwhen.config.read import Configuration
from everwhen.model.declare import Declared
from everwhen.timetable.trigger import Every, EveryMonth
from tests.config.reading import mistakes, read

PLUGIN = "plugins: {withings: {config: {token_file: t}, %s}}"


def plugin(folder: Path, fields: str) -> dict[str, Declared]:
    return schedules(read(folder, PLUGIN % fields))


def schedules(configuration: Configuration) -> dict[str, Declared]:
    return {one.schedule_id: one for one in configuration.declared.schedules}


def faults(folder: Path, fields: str) -> list[str]:
    return [line.split(": ", 2)[2] for line in mistakes(folder, PLUGIN % fields)]


def test_d4_every_key_of_ductiles_sample_is_taken(tmp_path: Path) -> None:
    fields = """schedules: [{id: hourly, command: poll, every: 1h, jitter: 30s, catch_up: run_once, if_running: skip,
        only_between: "08:00-18:00", timezone: Australia/Sydney, not_on: [saturday, sunday],
        payload: {source: scheduler}}]"""
    definition = plugin(tmp_path, fields)["withings.hourly"].definition
    assert (definition.jitter_ms, definition.catch_up, definition.if_running) == (30_000, "run_once", "skip")
    assert (str(definition.only_between), definition.zone.name) == ("08:00-18:00", "Australia/Sydney")
    assert (definition.not_on, json.loads(definition.payload)) == (0b1000001, {"source": "scheduler"})


def test_d5_d6_d7_id_command_and_payload_have_defaults(tmp_path: Path) -> None:
    found = plugin(tmp_path, "schedules: [{every: 1h}]")["withings.default"].definition
    assert (found.command, found.payload) == ("poll", "{}")


@pytest.mark.parametrize("fields", ["{}", "{every: 1h, after: 1h}"])
def test_d8_exactly_one_trigger_is_set(tmp_path: Path, fields: str) -> None:
    (fault,) = faults(tmp_path, f"schedule: {fields}")
    assert fault.endswith("one of every, cron, at, or after")


@pytest.mark.parametrize(
    ("every", "seconds"),
    [
        ("5m", 300),
        ("15m", 900),
        ("30m", 1800),
        ("hourly", 3600),
        ("2h", 7200),
        ("daily", 86400),
        ("weekly", 604800),
    ],
)
def test_d9_every_takes_durations_and_names(tmp_path: Path, every: str, seconds: int) -> None:
    trigger = plugin(tmp_path, f"schedule: {{every: {every}}}")["withings.default"].definition.trigger
    assert isinstance(trigger, Every) and trigger.seconds == seconds


def test_d9_monthly_is_a_calendar_month(tmp_path: Path) -> None:
    trigger = plugin(tmp_path, "schedule: {every: monthly}")["withings.default"].definition.trigger
    assert isinstance(trigger, EveryMonth)


def test_d34_d35_one_plugin_has_several_cadences(tmp_path: Path) -> None:
    found = plugin(
        tmp_path,
        "schedules: [{id: refresh, command: token_refresh, every: 1h, jitter: 5m, payload: {source: s}},"
        " {id: data, command: poll, every: 15m, jitter: 2m}]",
    )
    assert [(name, one.definition.command) for name, one in found.items()] == [
        ("withings.refresh", "token_refresh"),
        ("withings.data", "poll"),
    ]


def test_d36_the_singular_schedule_still_works_and_polls(tmp_path: Path) -> None:
    assert plugin(tmp_path, "schedule: {every: 1h}")["withings.default"].definition.command == "poll"


def test_d37_schedule_and_schedules_together_are_refused(tmp_path: Path) -> None:
    assert faults(tmp_path, "schedule: {every: 1h}, schedules: [{every: 1h}]") == [
        'set either "schedule" or "schedules", not both'
    ]


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ("command: handle", 'command "handle" cannot be scheduled'),
        (
            "command: fetch",
            'schedule "default" references unsupported command "fetch"; available: poll, token_refresh',
        ),
        (
            "command: token_refresh, payload: {source: 1}",
            """schedule "default": payload.source: 1 is not of type 'string'""",
        ),
    ],
)
def test_d38_d39_d40_commands_and_payloads_are_checked_against_the_manifest(
    tmp_path: Path, fields: str, fault: str
) -> None:
    assert faults(tmp_path, f"schedule: {{every: 1h, {fields}}}") == [fault]


def test_d49_several_schedules_need_ids(tmp_path: Path) -> None:
    assert faults(tmp_path, "schedules: [{every: 1h}, {every: 2h}]") == [
        "id is required when a plugin has several schedules",
        "id is required when a plugin has several schedules",
    ]


def agent(folder: Path, fields: str) -> Declared:
    return schedules(read(folder, f"agents: {{bot: {{command: [x], schedules: {{s: {fields}}}}}}}"))["bot.s"]


@pytest.mark.parametrize("kind", ["webhook", "chat"])
def test_h6_webhook_and_chat_are_configuration_only(tmp_path: Path, kind: str) -> None:
    assert agent(tmp_path, f"{{type: {kind}}}").definition.type == kind
    for trigger in ("interval: 5m", "cron: 0 9 * * *"):
        file = f"agents: {{bot: {{command: [x], schedules: {{s: {{type: {kind}, {trigger}}}}}}}}}"
        assert mistakes(tmp_path, file), f"{kind} beside {trigger}"


def test_h7_h8_an_agents_interval_counts_from_completion_and_keeps_its_prompt(tmp_path: Path) -> None:
    declared = agent(tmp_path, "{type: interval, interval: 5m, prompt: Look.}")
    assert declared.definition.is_chain
    assert json.loads(declared.target.spec)["prompt"] == "Look."
    assert agent(tmp_path, "{type: cron, expression: 0 9 * * 1-5}").definition.type == "cron"


def test_h10_an_agents_cron_has_five_fields_in_the_systems_zone(tmp_path: Path) -> None:
    assert agent(tmp_path, "{type: cron, cron: 0 9 * * *}").definition.zone.name == "Europe/Berlin"
    six = "agents: {bot: {command: [x], schedules: {s: {type: cron, cron: 0 0 9 * * *}}}}"
    assert "expected 5 fields, got 6" in mistakes(tmp_path, six)[0]
