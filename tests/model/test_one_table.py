"""One table of keys: what is generated from it is up to date, and every surface has the same keys."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import get_type_hints

import pytest

from everwhen.api.openapi import body_schemas
from everwhen.api.payloads import model_of
from everwhen.config.schema import AGENT_SCHEDULE, PLUGIN_SCHEDULE, SCHEDULE
from everwhen.errors import SchedulerError, TimetableError
from everwhen.model.declare import declare
from everwhen.model.fields import FIELDS, GENERAL, Definition
from everwhen.model.target_kinds import Target
from everwhen.scheduler.schedule_options import ScheduleOptions, TriggerOptions
from everwhen.views.schedules import Schedule

ROOT = Path(__file__).parents[2]


def test_files_bodies_answers_and_python_have_the_same_keys() -> None:
    assert set(SCHEDULE.keys) == {"id", *GENERAL}
    assert set(GENERAL) <= set(body_schemas()["ScheduleBody"]["properties"])
    assert set(GENERAL) <= set(model_of(Schedule).model_fields)
    assert set(get_type_hints(TriggerOptions)) == set(GENERAL)
    assert set(FIELDS) == {*SCHEDULE.keys, *PLUGIN_SCHEDULE.keys, *AGENT_SCHEDULE.keys} - {"id"}


def test_every_attribute_of_a_row_is_one_of_the_definition() -> None:
    known = {one.name for one in fields(Definition)}
    assert {row.attribute for row in FIELDS.values() if row.attribute} <= known


def test_a_default_of_the_table_is_the_default_of_the_definition() -> None:
    defaults = {one.name: one.default for one in fields(Definition)}
    converted = {
        row.attribute: row.default if row.reader is None else row.reader(row.default)
        for name, row in FIELDS.items()
        if row.attribute and row.default is not None and name not in ("command", "first_run")
    }
    assert converted == {name: defaults[name] for name in converted}


def test_the_schema_of_a_section_has_the_defaults_that_hold_there() -> None:
    of_agents = AGENT_SCHEDULE.schema()["properties"]
    assert (of_agents["interval_from"]["default"], of_agents["timeout"]["default"]) == ("completion", "1h")
    assert SCHEDULE.schema()["properties"]["interval_from"]["default"] == "slot"
    assert PLUGIN_SCHEDULE.schema()["properties"]["max_outstanding"]["default"] == 1


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"if_runing": "queue"}, 'if_runing: unknown key, did you mean "if_running"?'),
        ({"catch_up_limit": 500_000}, "catch_up_limit must be a whole number from 1 to 100,000, not 500000"),
        ({"retry_delay": 10**10}, "Intervals longer than 3650d are not supported"),
        ({"circuit_breaker": {"treshold": 1}}, 'unknown key, did you mean "threshold"?'),
        ({"dst": {"gap": "jump"}}, 'dst.gap: "jump" must be one of shift, skip'),
    ],
)
def test_the_function_that_makes_definitions_checks_by_the_table(
    given: dict[str, object], message: str
) -> None:
    with pytest.raises(SchedulerError) as caught:
        declare("a", {"every": "5m", **given}, target=Target("command"), now=0)
    assert message in str(caught.value)


def test_a_mistake_names_its_key() -> None:
    with pytest.raises(TimetableError) as caught:
        declare("a", {"every": "5m", "dst": {"gap": "jump"}}, target=Target("command"), now=0)
    assert caught.value.key == "dst.gap"


def test_python_may_turn_a_breaker_off_and_count_seconds() -> None:
    hints = get_type_hints(ScheduleOptions)
    assert "False" in str(hints["circuit_breaker"]) and "int" in str(hints["retry_delay"])
