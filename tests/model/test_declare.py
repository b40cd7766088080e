"""Schedules that are declared alike share one definition; what sets them apart keeps them apart."""

from __future__ import annotations

from typing import Any

import pytest

from everwhen.errors import TimetableError
from everwhen.model.declare import declare
from everwhen.model.schedule import Definition, Target
from tests.decide.builders import at

TARGET = Target("command")
NOW = at("09:00")


def declared(
    schedule_id: str = "a", *, now: int = NOW, group: str | None = None, **fields: Any
) -> Definition:
    return declare(schedule_id, fields, target=TARGET, now=now, group=group)


def test_schedules_declared_alike_share_one_definition() -> None:
    assert declared("a", every="5m", if_running="queue") is declared("b", every="5m", if_running="queue")
    assert declared("a", cron="0 9 * * *") is declared("b", cron="0 9 * * *")


@pytest.mark.parametrize(
    "fields", [{"every": "6m"}, {"every": "5m", "name": "x"}, {"every": "5m", "owner": "me"}]
)
def test_another_word_is_another_definition(fields: dict[str, Any]) -> None:
    assert declared(**fields) != declared(every="5m")


def test_another_target_zone_or_group_is_another_definition() -> None:
    plain = declared(every="5m")
    assert declare("a", {"every": "5m"}, target=Target("http"), now=NOW) != plain
    assert declare("a", {"every": "5m"}, target=TARGET, now=NOW, timezone="Europe/Paris") != plain
    assert declared(every="5m", group="g") != plain


def test_a_number_is_not_taken_for_the_truth_value_that_equals_it() -> None:
    assert declared(every="5m", max_retries=1).max_retries == 1
    with pytest.raises(TimetableError, match="max_retries must be a whole number"):
        declared(every="5m", max_retries=True)
    with pytest.raises(TimetableError, match="max_retries must be a whole number"):
        declared(every="5m", max_retries=1.0)


def test_a_delay_counts_from_each_declaration() -> None:
    first, second = declared(after="5m"), declared(after="5m", now=at("10:00"))
    assert first.trigger != second.trigger


def test_limits_without_a_group_are_named_after_each_schedule() -> None:
    first, second = declared("a", every="5m", max_outstanding=1), declared("b", every="5m", max_outstanding=1)
    assert first.guard is not None and second.guard is not None
    assert (first.guard.key, second.guard.key) == ("guard:a", "guard:b")


def test_payloads_that_look_alike_stay_apart() -> None:
    first, second = declared(every="5m", payload={"n": 1}), declared(every="5m", payload={"n": True})
    assert (first.payload, second.payload) == ('{"n": 1}', '{"n": true}')


def test_a_mistake_is_an_error_each_time() -> None:
    for _ in range(2):
        with pytest.raises(TimetableError, match="if_running"):
            declared(every="5m", if_running="sometimes")
