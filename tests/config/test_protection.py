"""Protection follows the target: through whichever section, call or shape a schedule comes, it is the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from everwhen.compat.body_shapes import BODY_SHAPES
from everwhen.config.submission import (
    SubmissionRules,
    read_change,
    read_submission,
    rules_of,
    with_protections,
)
from everwhen.model.declare import Declared
from everwhen.model.instants import HOUR, MINUTE, SECOND
from everwhen.model.policy import BreakerRule, Capacity, Guard
from everwhen.model.schedule import Definition
from everwhen.operations.schedules import create_declared
from everwhen.testing import manual_scheduler
from tests.config.reading import host, read

FILE = """
service: {timezone: Asia/Tokyo}
plugins:
  withings:
    config: {token_file: t}
    max_outstanding_polls: 1
    max_concurrent: 2
    timeouts: {poll: 60s}
    schedules:
      - {id: poll, every: 1h}
      - {id: refresh, every: 1h, command: token_refresh, payload: {source: x}}
agents:
  bot: {command: [x], schedules: {s: {type: interval, interval: 1h}}}
workflows:
  "1": {run: {http: {url: "http://x/run"}}, timeout: 30m, max_concurrent: 3, circuit_breaker: {threshold: 5}}
schedules:
  - {id: poll, every: 1h, run: {plugin: {name: withings}}}
  - {id: refresh, every: 1h, payload: {source: x}, run: {plugin: {name: withings, command: token_refresh}}}
  - {id: agent, every: 1h, run: {agent: {name: bot}}}
  - {id: workflow, every: 1h, run: {workflow: {id: "1"}}}
"""
POLL = {"plugin": {"name": "withings"}}
REFRESH = {"plugin": {"name": "withings", "command": "token_refresh"}}
SHAPES: dict[str, dict[str, Any]] = {
    "general": {"every": "1h"},
    "seconds": {"interval_seconds": 3600},
    "spec": {"type": "interval", "spec": "3600"},
}


@pytest.fixture
def file(tmp_path: Path) -> dict[str, Declared]:
    return {one.schedule_id: one for one in read(tmp_path, FILE).declared.schedules}


@pytest.fixture
def around(tmp_path: Path) -> SubmissionRules:
    return rules_of(read(tmp_path, FILE), host(), [], bodies=BODY_SHAPES)


def protections(definition: Definition) -> tuple[object, ...]:
    rules = (definition.guard, definition.capacity, definition.breaker)
    return (definition.group, definition.command, *rules, definition.timeout, definition.on_lost)


def made(fields: dict[str, Any], around: SubmissionRules) -> Definition:
    return read_submission(fields, "a", around).definition


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize(
    ("run", "payload", "section", "general"),
    [
        (POLL, {}, "withings.poll", "poll"),
        (REFRESH, {"source": "x"}, "withings.refresh", "refresh"),
        ({"agent": {"name": "bot"}}, {}, "bot.s", "agent"),
        ({"workflow": {"id": "1"}}, {}, None, "workflow"),
    ],
)
def test_the_same_target_has_the_same_protection_whichever_way_it_comes(
    file: dict[str, Declared],
    around: SubmissionRules,
    shape: dict[str, Any],
    run: dict[str, Any],
    payload: dict[str, Any],
    section: str | None,
    general: str,
) -> None:
    submitted = made({**shape, "payload": payload, "run": run}, around)
    expected = protections(file[section or general].definition)
    assert protections(file[general].definition) == protections(submitted) == expected


def test_a_plugin_is_guarded_and_one_that_must_not_be_repeated_is_not(around: SubmissionRules) -> None:
    poll, refresh = (
        made({"every": "1h", "run": POLL}, around),
        made({"every": "1h", "run": REFRESH, "payload": {"source": "x"}}, around),
    )
    assert poll.guard == Guard("guard:withings:poll", 1)
    assert poll.breaker == BreakerRule("withings:poll", 3, 30 * MINUTE)
    assert (poll.capacity, poll.timeout, poll.on_lost) == (Capacity("capacity:withings", 2), MINUTE, "rerun")
    assert (refresh.timeout, refresh.on_lost) == (10 * MINUTE, "fail")


def test_an_agent_has_its_hour_its_zone_and_its_completion(around: SubmissionRules) -> None:
    for fields in ({"every": "1h"}, {"interval_seconds": 3600}):
        agent = made({**fields, "run": {"agent": {"name": "bot"}}}, around)
        assert (agent.timeout, agent.zone.name, agent.is_chain) == (HOUR, "Europe/Berlin", True)
    cron = made({"cron": "0 9 * * *", "timeout": "5m", "run": {"agent": {"name": "bot"}}}, around)
    assert (cron.timeout, cron.zone.name) == (5 * MINUTE, "Europe/Berlin")


def test_a_workflows_timeout_is_applied_and_that_of_the_body_overrides_it(around: SubmissionRules) -> None:
    assert made({"workflow_id": 1, "interval_seconds": 60}, around).timeout == 30 * MINUTE
    assert (
        made({"workflow_id": 1, "interval_seconds": 60, "timeout_seconds": 5}, around).timeout == 5 * SECOND
    )


def test_three_schedules_of_one_command_fire_one_at_a_time(around: SubmissionRules) -> None:
    s = manual_scheduler("2026-01-05T00:00:00Z")
    polls = [read_submission({"every": "1h", "run": POLL}, name, around) for name in ("a", "b", "c")]
    create_declared(s.runtime, polls, source="api")
    s.tick()
    assert [job.status for job in s.jobs()] == ["queued"]
    assert [s.state(name).held_reason for name in ("b", "c")] == ["outstanding_limit"] * 2
    s.close()


# -- edits --


def test_what_was_turned_off_stays_off_and_what_is_cleared_is_the_targets_again(
    around: SubmissionRules,
) -> None:
    off = {"circuit_breaker": False, "max_outstanding": 0, "max_concurrent": 0, "timeout": 0}
    bare = made({"every": "1h", "run": POLL, **off}, around)
    edited = read_change({"name": "other"}, "a", bare, around).definition
    assert protections(edited) == protections(bare) == ("withings", "poll", None, None, None, None, "rerun")
    cleared = read_change(dict.fromkeys(off), "a", bare, around).definition
    assert protections(cleared) == protections(made({"every": "1h", "run": POLL}, around))


def test_a_schedule_that_is_to_run_something_else_takes_over_its_protection(around: SubmissionRules) -> None:
    command = made({"every": "1h", "run": {"command": ["ls"]}}, around)
    assert command.timeout == HOUR
    poll = read_change({"run": POLL}, "a", command, around).definition
    assert protections(poll) == protections(made({"every": "1h", "run": POLL}, around))
    back = read_change({"run": {"command": ["ls"]}}, "a", poll, around).definition
    assert protections(back) == protections(command)


def test_what_was_said_by_hand_stays_with_another_target(around: SubmissionRules) -> None:
    command = made({"every": "1h", "timeout": "5m", "max_outstanding": 7, "run": {"command": ["ls"]}}, around)
    poll = read_change({"run": POLL}, "a", command, around).definition
    assert (poll.timeout, poll.guard) == (5 * MINUTE, Guard("guard:withings:poll", 7))
    assert poll.breaker == BreakerRule("withings:poll", 3, 30 * MINUTE)


def test_an_agents_cron_entry_that_becomes_an_interval_is_counted_from_completion(
    around: SubmissionRules,
) -> None:
    cron = made({"cron": "0 9 * * *", "run": {"agent": {"name": "bot"}}}, around)
    assert read_change({"every": "1h"}, "a", cron, around).definition.is_chain
    slots = made({"every": "1h", "interval_from": "slot", "run": {"agent": {"name": "bot"}}}, around)
    assert not read_change({"every": "2h"}, "a", slots, around).definition.is_chain


# -- what is stored already --


def unprotected(definition: Definition, **fields: Any) -> Definition:
    """As the release before has stored it."""
    bare = replace(definition, guard=None, capacity=None, breaker=None, timeout=10 * MINUTE, on_lost="rerun")
    return replace(bare, **fields)


@pytest.mark.parametrize("run", [POLL, REFRESH, {"agent": {"name": "bot"}}, {"workflow": {"id": "1"}}])
def test_a_stored_schedule_gets_the_protection_of_its_target(
    around: SubmissionRules, run: dict[str, Any]
) -> None:
    payload = {"source": "x"}
    protected = made({"cron": "0 9 * * *", "timezone": "UTC", "payload": payload, "run": run}, around)
    assert with_protections("a", unprotected(protected), around) == protected
    assert with_protections("a", protected, around) == protected


def test_what_a_stored_schedule_says_itself_and_when_it_fires_stay(around: SubmissionRules) -> None:
    agent = made({"every": "1h", "run": {"agent": {"name": "bot"}}}, around)
    stored = unprotected(
        agent, interval_from="slot", timeout=5 * MINUTE, capacity=Capacity("capacity:bot", 4)
    )
    found = with_protections("a", stored, around)
    assert found == stored


def test_what_runs_something_that_is_not_configured_stays_as_it_is(around: SubmissionRules) -> None:
    gone = replace(around, groups={})
    assert with_protections("a", unprotected(made({"every": "1h", "run": POLL}, around)), gone) is None


SHARED = """
plugins: {withings: {owner: ada, shared: true, config: {token_file: t}, timeouts: {poll: 60s}}}
"""


@pytest.fixture
def bobs(tmp_path: Path) -> SubmissionRules:
    """What a schedule of an owner is judged by that uses somebody else's shared plugin."""
    return replace(rules_of(read(tmp_path, SHARED), host(), [], bodies=BODY_SHAPES), owner="bob")


def test_a_tenant_of_a_shared_plugin_is_protected_under_its_own_keys(bobs: SubmissionRules) -> None:
    poll = made({"every": "1h", "run": POLL}, bobs)
    assert (poll.guard, poll.timeout) == (Guard("guard:withings:poll@bob", 1), MINUTE)
    assert poll.breaker == BreakerRule("withings:poll@bob", 3, 30 * MINUTE)
    stored = unprotected(poll, guard=Guard("guard:withings:poll", 9))
    assert with_protections("a", stored, bobs) == poll


def test_a_tenant_that_names_another_command_keeps_what_it_said(bobs: SubmissionRules) -> None:
    poll = made({"every": "1h", "timeout": "5s", "run": POLL}, bobs)
    refresh = read_change({"run": REFRESH, "payload": {"source": "x"}}, "a", poll, bobs).definition
    assert (refresh.timeout, refresh.on_lost) == (5 * SECOND, "fail")
    assert refresh.guard == Guard("guard:withings:token_refresh@bob", 1)
