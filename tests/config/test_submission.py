"""One schedule that comes by itself: the keys of a file and of the other shapes of a body, checked like a file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from everwhen.compat.body_shapes import BODY_SHAPES
from everwhen.config.submission import SubmissionRules, read_change, read_submission, rules_of
from everwhen.errors import SubmissionError, TimetableError
from everwhen.model.fields import schedule_to_json
from everwhen.model.instants import HOUR, MINUTE, SECOND
from everwhen.model.policy import Budget, Capacity
from everwhen.model.scalars import ZERO_BYTE
from everwhen.model.schedule import Definition
from everwhen.operations.schedules import get_schedule
from everwhen.testing import manual_scheduler
from tests.config.reading import host, read
from tests.submissions import Submission, create_schedule

FILE = """
service: {timezone: Europe/Berlin, misfire_grace: 3m}
quiet_hours: {nights: {windows: [{between: "22:00-07:00"}]}}
workflows:
  "1": {name: report, owner: "7", max_concurrent: 2, run: {http: {url: "http://x/run"}}, triggers: [t1]}
plugins: {withings: {config: {token_file: t}}}
agents: {bot: {command: [x]}}
budgets: {bob: {fires_per_hour: 5}}
"""
RUN = {"command": ["ls"]}


@pytest.fixture
def around(tmp_path: Path) -> SubmissionRules:
    return rules_of(read(tmp_path, FILE), host(), ["nights", "over-rest"], bodies=BODY_SHAPES)


def definition(fields: Mapping[str, Any], around: SubmissionRules) -> Definition:
    return read_submission(fields, "a", around).definition


def problems(fields: Any, around: SubmissionRules) -> list[tuple[str, str]]:
    with pytest.raises(SubmissionError) as caught:
        read_submission(fields, "a", around)
    return list(caught.value.problems)


def test_the_general_shape_has_the_words_of_a_file(around: SubmissionRules) -> None:
    fields = {
        "name": "Backup",
        "cron": "0 2 * * *",
        "jitter": "5m",
        "only_between": "01:00-05:00",
        "not_on": ["sun"],
        "quiet_hours": "over-rest",
        "catch_up": "run_all_capped",
        "owner": "bob",
        "enabled": False,
        "payload": {"a": [1, None, {"b": "ä"}]},
        "run": {"command": ["pg_dump", 1, True], "env": {"A": "1"}},
    }
    declared = read_submission(fields, "a", around)
    found = declared.definition
    assert (found.zone.name, found.misfire_grace, found.catch_up) == ("Europe/Berlin", 3 * MINUTE, "run_all")
    assert (found.quiet_hours_id, found.owner) == ("over-rest", "bob")
    assert found.budgets == (Budget("budget:bob", 5, None),)
    assert json.loads(found.payload) == fields["payload"]
    assert json.loads(found.target.spec) == {"argv": ["pg_dump", "1", "true"], "env": {"A": "1"}}
    assert not declared.is_enabled


def test_the_shape_with_seconds_has_its_own_defaults(around: SubmissionRules) -> None:
    fields = {
        "name": "Daily",
        "workflow_id": 1,
        "trigger_node_id": "t1",
        "interval_seconds": 300,
        "total_repeats": 5,
        "trigger_payload": {"x": 1},
        "user_profile_id": 7,
    }
    declared = read_submission(fields, "a", around)
    found = declared.definition
    assert (found.trigger.seconds, found.first_run) == (300, "after_interval")  # type: ignore[union-attr]
    assert (found.max_retries, found.retry_delay, found.timeout) == (3, 300 * SECOND, 600 * SECOND)
    assert (found.owner, found.payload, found.total_repeats) == ("7", '{"x": 1}', 5)
    assert (declared.group, found.capacity) == ("1", Capacity("capacity:1", 2))
    assert json.loads(found.target.spec) == {
        "workflow_id": "1",
        "is_number": True,
        "trigger_node_id": "t1",
        "owner": "7",
    }


def test_what_a_body_with_seconds_says_overrides_its_defaults(around: SubmissionRules) -> None:
    fields = {
        "workflow_id": "1",
        "interval_seconds": 60,
        "max_retries": 0,
        "timeout_seconds": 0,
        "retry_delay": "5s",
        "start_at": "2026-02-01T00:00:00Z",
    }
    found = definition(fields, around)
    assert (found.max_retries, found.timeout, found.retry_delay) == (0, None, 5 * SECOND)
    assert found.first_run is None


@pytest.mark.parametrize(
    ("kind", "spec", "type_"),
    [
        ("interval", "300", "interval"),
        ("interval", 300, "interval"),
        ("interval", "5m", "interval"),
        ("cron", "0 9 * * *", "cron"),
        ("one_shot", "2026-12-24T18:00:00+01:00", "one_shot"),
    ],
)
def test_the_shape_with_a_spec_publishes_a_message(
    around: SubmissionRules, kind: str, spec: Any, type_: str
) -> None:
    template = {"source": {"thread_id": "family"}, "content": {"text": "Presents!"}, "schema_version": "1.0"}
    fields = {
        "name": "Reminder",
        "type": kind,
        "spec": spec,
        "quiet_hours_policy_id": "nights",
        "catch_up_policy": "run_once",
        "payload": template,
    }
    found = definition(fields, around)
    assert (found.type, found.zone.name, found.quiet_hours_id) == (type_, "UTC", "nights")
    assert (found.catch_up, found.retry_delay, found.timeout) == ("run_once", MINUTE, 10 * MINUTE)
    assert found.first_run == ("after_interval" if kind == "interval" else None)
    assert (found.target.kind, json.loads(found.target.spec)) == ("message", template)
    assert found.payload == "{}"


def test_a_body_with_a_spec_may_start_another_target(around: SubmissionRules) -> None:
    found = definition({"type": "interval", "spec": "60", "payload": {"a": 1}, "run": RUN}, around)
    assert (found.target.kind, found.payload, found.timeout) == ("command", '{"a": 1}', 10 * MINUTE)


def test_a_submission_can_be_created_as_it_was_read(around: SubmissionRules) -> None:
    s = manual_scheduler("2026-01-05T00:00:00Z")
    one = read_submission({"interval_seconds": 3600, "run": RUN}, "a", around)
    create_schedule(s.runtime, Submission(one.schedule_id, one.fields, one.target, group=one.group))
    stored = get_schedule(s.runtime, "a")
    assert stored.definition == one.definition
    assert stored.state.next_run_at == s.clock.now() + HOUR


BAD: dict[str, tuple[dict[str, Any], list[tuple[str, str]]]] = {
    "an unknown key": (
        {"every": "1h", "jiter": "5m", "run": RUN},
        [("jiter", 'unknown key, did you mean "jitter"?')],
    ),
    "an alias misspelled": (
        {"interval_secs": 5, "run": RUN},
        [("interval_secs", 'unknown key, did you mean "interval_seconds"?')],
    ),
    "no trigger": ({"run": RUN}, [("", "requires one of every, cron, at, or after")]),
    "two triggers": (
        {"every": "1h", "cron": "0 2 * * *", "run": RUN},
        [("", "must set exactly one of every, cron, at, or after")],
    ),
    "one trigger twice": (
        {"every": "1h", "interval_seconds": 5, "run": RUN},
        [("interval_seconds", "means the same as every; keep only one of them")],
    ),
    "no target": ({"every": "1h"}, [("", "run is required")]),
    "two targets": (
        {"every": "1h", "run": RUN, "workflow_id": 1},
        [("workflow_id", "means the same as run; keep only one of them")],
    ),
    "everything at once": (
        {"cron": "0 25 * * *", "max_retries": -1, "if_running": "wait", "run": {"http": {"url": "x"}}},
        [
            ("cron", 'Invalid cron expression "0 25 * * *" - hour must be 0-23'),
            ("if_running", '"wait" must be one of skip, queue, cancel, allow'),
            ("max_retries", "must be a whole number from 0 on, not -1"),
            ("run.http.url", '"x" must be a URL, such as https://host/path'),
        ],
    ),
    "zero seconds": (
        {"interval_seconds": 0, "workflow_id": 1},
        [("interval_seconds", "must be a whole number from 1 to 315,360,000, not 0")],
    ),
    "true is no number": (
        {"interval_seconds": True, "workflow_id": 1},
        [("interval_seconds", "must be a whole number from 1 to 315,360,000, not true")],
    ),
    "a workflow that is not there": (
        {"interval_seconds": 5, "workflow_id": 2},
        [("workflow_id", "Workflow not found. Available: 1")],
    ),
    "a trigger node alone": (
        {"every": "1h", "run": RUN, "trigger_node_id": "t1"},
        [("trigger_node_id", "is allowed only with workflow_id")],
    ),
    "a type alone": ({"type": "cron"}, [("type", "requires spec")]),
    "a spec alone": ({"spec": "5"}, [("spec", "requires type")]),
    "a spec that is no cron": (
        {"type": "cron", "spec": "* * *"},
        [("spec", 'Invalid cron expression "* * *" - expected 5 fields, got 3')],
    ),
    "a spec of no seconds": (
        {"type": "interval", "spec": "0"},
        [("spec", "Zero interval is not allowed")],
    ),
    "a message of unknown words": (
        {"type": "cron", "spec": "@daily", "payload": {"txt": 1}},
        [("payload", 'unknown key "txt", known are text, thread_id, actor, structured')],
    ),
    "a time that is past": (
        {"at": "2026-01-01T00:00:00Z", "run": RUN},
        [("at", "at is already past (it is Mon 2026-01-05 01:00:00 CET +01:00); give a time to come")],
    ),
    "a spec that is past": (
        {"type": "one_shot", "spec": "2026-01-01T00:00:00Z"},
        [("spec", "at is already past (it is Mon 2026-01-05 00:00:00 UTC); give a time to come")],
    ),
    "an end that is past": (
        {"every": "1h", "end_at": "2026-01-01T00:00:00Z", "run": RUN},
        [
            (
                "end_at",
                "end_at is already past (it is Mon 2026-01-05 01:00:00 CET +01:00); give a time to come",
            )
        ],
    ),
    "quiet hours that are not there": (
        {"every": "1h", "run": RUN, "quiet_hours_policy_id": "night"},
        [
            (
                "quiet_hours_policy_id",
                'there are no quiet hours "night", did you mean "nights"? Available: nights, over-rest',
            )
        ],
    ),
    "a plugin that is not there": (
        {"every": "1h", "run": {"plugin": {"name": "withing"}}},
        [
            (
                "run.plugin.name",
                'there is no plugin "withing" in the configuration, did you mean "withings"? Available: withings',
            )
        ],
    ),
    "jitter that is not a duration": (
        {"every": "1h", "jitter": "5x", "run": RUN},
        [("jitter", 'jitter "5x": Invalid time unit "x". Valid units are: s, m, h, d')],
    ),
    "jitter larger than the interval": (
        {"interval_seconds": 60, "jitter": "5m", "run": RUN},
        [("jitter", 'jitter "5m" must be smaller than the interval')],
    ),
    "a payload that is no object": (
        {"every": "1h", "trigger_payload": [1], "run": RUN},
        [("trigger_payload", "must be an object, not a list")],
    ),
    "a payload too large": (
        {"every": "1h", "trigger_payload": {"a": "x" * 70_000}, "run": RUN},
        [("trigger_payload", "is 70,009 bytes long; at most 65,536 are allowed")],
    ),
    "a number that JSON does not know": (
        {"every": "1h", "payload": {"a": [float("nan")]}, "run": RUN},
        [("payload.a[0]", "nan is not a JSON value")],
    ),
    "half a character": (
        {"every": "1h", "name": "\ud800", "run": RUN},
        [("name", "holds no Unicode text")],
    ),
    "a zero byte": (
        {"every": "1h", "name": "a\0b", "run": {"command": ["ls", "\0"]}},
        [("name", ZERO_BYTE), ("run.command[1]", ZERO_BYTE)],
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_all_that_is_wrong_with_a_submission_is_reported(around: SubmissionRules, name: str) -> None:
    fields, expected = BAD[name]
    assert problems(fields, around) == expected


def test_d38_d39_d40_the_manifest_is_asked_about_a_submission(around: SubmissionRules) -> None:
    def run(**plugin: Any) -> dict[str, Any]:
        return {"every": "1h", "run": {"plugin": {"name": "withings", **plugin}}}

    assert problems(run(command="handle"), around) == [
        ("run.plugin.command", 'command "handle" cannot be scheduled')
    ]
    assert problems(run(command="nothing"), around) == [
        (
            "run.plugin.command",
            'schedule "a" references unsupported command "nothing"; available: poll, token_refresh',
        )
    ]
    ((path, message),) = problems({**run(command="token_refresh"), "payload": {"source": 5}}, around)
    assert path == "payload"
    assert message.startswith('schedule "a": payload')


def test_a_target_that_is_null_is_not_given(around: SubmissionRules) -> None:
    fields = {"every": "1h", "run": {"python": None, "message": {"text": "hello"}}}
    rules = replace(around, python_fault=lambda name: f"no function {name.upper()}")
    assert definition(fields, rules).target.kind == "message"


def test_nesting_is_bounded(around: SubmissionRules) -> None:
    deep: Any = "x"
    for _ in range(5_000):
        deep = [deep]
    assert problems({"every": "1h", "payload": {"a": deep}, "run": RUN}, around) == [
        ("payload.a[0]", "is nested more than 50 levels deep")
    ]


@pytest.mark.parametrize("fields", [[], "x", None, 5])
def test_a_submission_is_an_object(around: SubmissionRules, fields: Any) -> None:
    ((path, message),) = problems(fields, around)
    assert path == ""
    assert message.startswith("a schedule is an object, not ")


@pytest.mark.parametrize("name", ["", "a.b", "ä", "-a", "a" * 101])
def test_an_id_is_a_name(around: SubmissionRules, name: str) -> None:
    with pytest.raises(TimetableError, match="is not a valid name"):
        read_submission({"every": "1h", "run": RUN}, name, around)


def test_an_edit_may_leave_alone_what_is_over(around: SubmissionRules) -> None:
    fields = {"at": "2026-01-01T00:00:00Z", "run": RUN}
    assert read_submission(fields, "a", around, may_be_past=True).definition.is_one_shot


def test_references_to_the_environment_can_be_kept_to_the_file(around: SubmissionRules) -> None:
    fields = {"every": "1h", "run": {"http": {"url": "https://x/?k=${KEY}", "headers": {"a": "${B:-c}"}}}}
    assert "${KEY}" in definition(fields, around).target.spec
    message = (
        "refers to the environment, which only the configuration file and callers that may run code may do"
    )
    assert problems(fields, replace(around, may_refer=False)) == [
        ("run.http.headers.a", message),
        ("run.http.url", message),
    ]


def test_a_submission_has_the_error_of_the_file_as_text(around: SubmissionRules) -> None:
    with pytest.raises(SubmissionError) as caught:
        read_submission({"every": "0m", "jiter": 1, "run": RUN}, "a", around)
    assert str(caught.value).splitlines() == [
        "every: Zero interval is not allowed",
        'jiter: unknown key, did you mean "jitter"?',
    ]


EVERYTHING: dict[str, dict[str, Any]] = {
    "a command": {
        "every": "1h30m",
        "jitter": "5%",
        "start_at": "2026-02-01T00:00:00Z",
        "end_at": "2027-02-01T00:00:00+01:00",
        "run": {"command": ["a", "b"], "cwd": "/x", "env": {"A": "${B}"}},
        "circuit_breaker": {"threshold": 2, "reset_after": "90s"},
        "max_outstanding": 2,
        "max_concurrent": 3,
        "expect": {"within": "26h", "grace": "1h"},
        "ping": {"url": "https://hc/1"},
        "timeout": 0,
    },
    "jitter in thousandths": {"every": "3s", "jitter": "7%", "run": RUN, "interval_from": "completion"},
    "a request": {
        "cron": "*/5 9-17 * * mon-fri",
        "timezone": "Asia/Tokyo",
        "dst": {"gap": "skip"},
        "jitter": "90s",
        "only_between": "22:00-24:00",
        "not_on": [6, 7],
        "outside_window": "defer",
        "quiet_hours": "nights",
        "misfire_grace": "1m",
        "catch_up": "run_all",
        "catch_up_limit": 5,
        "if_running": "queue",
        "queue_limit": 3,
        "payload": {"a": None, "b": [1.5]},
        "run": {"http": {"url": "https://x/y", "headers": {"A": "b"}, "redirects": True}},
    },
    "a month": {
        "every": "monthly",
        "first_run": "after_interval",
        "run": {"python": "a.b:c", "isolate": True},
    },
    "one instant": {"at": "2026-12-24T18:00:00", "run": {"message": {"text": "x", "structured": {"a": 1}}}},
    "a delay": {"after": "90m", "max_retries": 2, "retry_delay": "1s", "on_lost": "fail", "run": RUN},
    "a plugin": {"every": "1h", "run": {"plugin": {"name": "withings", "command": "poll"}}},
    "an agent": {"every": "1h", "run": {"agent": {"name": "bot", "prompt": "Hello."}}},
    "a workflow": {"interval_seconds": 300, "workflow_id": 1, "trigger_node_id": "t1", "total_repeats": 9},
    "a workflow by its text": {"every": "1h", "workflow_id": "1", "owner": "7", "queue": "slow"},
    "a template": {"type": "cron", "spec": "@daily", "payload": {"content": {"text": "x"}}},
}


@pytest.mark.parametrize("name", EVERYTHING)
def test_a_change_of_nothing_changes_nothing(around: SubmissionRules, name: str) -> None:
    current = definition(EVERYTHING[name], around)
    assert read_change({}, "a", current, around).definition == current


@pytest.mark.parametrize("name", EVERYTHING)
def test_the_words_of_a_stored_schedule_say_it_again(around: SubmissionRules, name: str) -> None:
    current = definition(EVERYTHING[name], around)
    fields = schedule_to_json(current)
    json.dumps(fields)
    assert (
        schedule_to_json(read_change(fields if name != "a template" else {}, "a", current, around).definition)
        == fields
    )


def change(fields: dict[str, Any], changes: dict[str, Any], around: SubmissionRules) -> Definition:
    return read_change(changes, "a", definition(fields, around), around).definition


def test_a_word_of_the_trigger_replaces_the_trigger(around: SubmissionRules) -> None:
    found = change({"every": "1h", "jitter": "1m", "run": RUN}, {"cron": "@daily"}, around)
    assert (found.type, found.jitter_ms) == ("cron", 60_000)


def test_null_clears_a_word(around: SubmissionRules) -> None:
    fields = {"every": "1h", "jitter": "1m", "max_retries": 3, "trigger_payload": {"a": 1}, "run": RUN}
    found = change(fields, {"jitter": None, "max_retries": None, "trigger_payload": None}, around)
    assert (found.jitter_ms, found.max_retries, found.payload) == (0, None, "{}")


def test_what_must_be_there_cannot_be_cleared(around: SubmissionRules) -> None:
    with pytest.raises(SubmissionError) as caught:
        change({"every": "1h", "run": RUN}, {"every": None, "run": None}, around)
    assert ("", "run is required") in caught.value.problems


def test_a_change_is_judged_with_what_stays(around: SubmissionRules) -> None:
    with pytest.raises(SubmissionError) as caught:
        change({"every": "1h", "jitter": "30m", "run": RUN}, {"interval_seconds": 60}, around)
    assert caught.value.problems == (("jitter", 'jitter "30m" must be smaller than the interval'),)


def test_a_change_takes_no_defaults_of_another_shape(around: SubmissionRules) -> None:
    found = change({"every": "1h", "run": RUN}, {"interval_seconds": 60}, around)
    assert (found.max_retries, found.first_run, found.timeout) == (None, None, HOUR)


def test_the_retries_of_a_body_with_seconds_follow_its_interval(around: SubmissionRules) -> None:
    found = change({"interval_seconds": 300, "workflow_id": 1}, {"interval_seconds": 60}, around)
    assert (found.retry_delay, found.max_retries) == (MINUTE, 3)


def test_a_spec_alone_keeps_its_type_and_its_payload_is_the_message(around: SubmissionRules) -> None:
    fields = {"type": "interval", "spec": "60", "payload": {"content": {"text": "x"}}}
    found = change(fields, {"spec": "120", "payload": {"content": {"text": "y"}}}, around)
    assert found.trigger.seconds == 120  # type: ignore[union-attr]
    assert (json.loads(found.target.spec), found.payload) == ({"content": {"text": "y"}}, "{}")


def test_a_delay_that_is_not_changed_means_the_instant_that_it_meant(around: SubmissionRules) -> None:
    current = definition({"after": "1h", "run": RUN}, around)
    later = replace(around, now=around.now + MINUTE)
    assert read_change({"name": "x"}, "a", current, later).definition.trigger == current.trigger
    assert read_change({"after": "1h"}, "a", current, later).definition.trigger != current.trigger


def test_an_instant_that_is_past_is_left_to_the_edit(around: SubmissionRules) -> None:
    current = definition({"at": "2026-01-06T00:00:00Z", "run": RUN}, around)
    later = replace(around, now=around.now + 48 * HOUR)
    assert read_change({"name": "x"}, "a", current, later).definition.name == "x"
