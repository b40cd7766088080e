"""A configuration is written whole, or not at all, and never over one that it does not know (D47, X6, X8)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from everwhen.decide.reconcile import rewrite, switch
from everwhen.errors import ConfigError, RemovalError, TimetableError, UnknownScheduleError
from everwhen.model.declare import declare
from everwhen.model.declared import Declarations, Declared
from everwhen.model.schedule import QuietHoursPolicy, Schedule, Target
from everwhen.operations.apply import apply, preview
from everwhen.operations.schedules import create_schedules
from everwhen.ports.catalogue import Reconciliation
from everwhen.ports.house import House
from everwhen.timetable.civil_time import zone
from everwhen.timetable.windows import QuietHours, QuietWindow, parse_window
from tests.conformance.tenant import Tenant, submission

COMMAND = Target("command", '{"argv":["true"]}')


def declarations(house: Tenant, digest: str = "1", *policies: QuietHoursPolicy, **words: Any) -> Declarations:
    schedules = [
        Declared(name, keys, COMMAND, declare(name, keys, target=COMMAND, now=house.now), place=f"f:{number}")
        for number, (name, keys) in enumerate(words.items(), 1)
    ]
    return Declarations(tuple(schedules), policies, digest)


def quiet(between: str) -> QuietHoursPolicy:
    return QuietHoursPolicy(
        "nights", "nights", QuietHours(zone("UTC"), (QuietWindow(parse_window(between)),))
    )


def test_schedules_and_policies_come_change_and_go_together(house: Tenant) -> None:
    every, nightly = {"every": "1h"}, {"cron": "0 * * * *", "quiet_hours": "nights"}
    first = declarations(house, "1", quiet("22:00-07:00"), a=every, b=nightly, c=every)
    assert apply(house.house, first).created == ("a", "b", "c")
    assert house.house.catalogue.config_places() == {"a": "f:1", "b": "f:2", "c": "f:3"}
    second = declarations(house, "2", quiet("20:00-07:00"), a={"every": "2h"}, b=nightly)
    applied = apply(house.house, second)
    assert (applied.changed, applied.removed) == (("a",), ("c",))
    assert house.house.catalogue.policies("config") == [quiet("20:00-07:00")]
    apply(house.house, declarations(house, "3", a={"every": "2h"}))
    assert house.house.catalogue.policies() == []
    assert house.house.catalogue.config_revision()[1] == "3"
    assert len(house.events(None, "config.reloaded")) == 3


def test_a_policy_of_the_file_stands_apart_from_those_made_by_hand(house: Tenant) -> None:
    house.house.catalogue.add_policy(house.now, quiet("22:00-07:00"))
    apply(house.house, declarations(house, a={"every": "1h"}))
    assert len(house.house.catalogue.policies()) == 1
    assert house.house.catalogue.policies("config") == []


def test_a_program_and_the_file_remove_what_is_their_own(house: Tenant) -> None:
    apply(house.house, declarations(house, a={"every": "1h"}))
    apply(house.house, declarations(house, shop={"every": "1h"}), source="python:shop")
    apply(house.house, declarations(house, office={"every": "1h"}), source="python:office")
    assert apply(house.house, declarations(house), source="python:shop").removed == ("shop",)
    assert house.house.catalogue.config_revision("python:shop") > house.house.catalogue.config_revision()
    assert house.house.catalogue.config_places() == {"a": "f:1"}
    assert apply(house.house, declarations(house, "2"), source="config").removed == ("a",)
    assert house.house.catalogue.get("office") is not None


def test_a_program_may_name_quiet_hours_that_are_there_and_no_others(house: Tenant) -> None:
    house.house.catalogue.add_policy(house.now, quiet("22:00-07:00"))
    nightly = declarations(house, a={"every": "1h", "quiet_hours": "nights"})
    assert apply(house.house, nightly, source="python:shop").created == ("a",)
    strange = declarations(house, "2", b={"every": "1h", "quiet_hours": "days"})
    with pytest.raises(TimetableError, match='there are no "days"'):
        apply(house.house, strange, source="python:shop")
    assert house.house.catalogue.get("a") is not None


def test_what_fails_half_way_leaves_nothing_not_even_in_memory(house: Tenant) -> None:
    apply(house.house, declarations(house, a={"every": "1h"}))
    before = (house.state("a"), house.events(None))
    (change,) = preview(house.house, declarations(house, "2", a={"every": "2h"})).changed
    edit = partial(rewrite, change.after, None)
    written = Reconciliation(
        based_on=house.house.catalogue.config_revision()[0],
        digest="2",
        changed=[("a", edit), ("a", partial(switch, False)), ("nobody", edit)],
    )
    with pytest.raises(UnknownScheduleError):
        house.house.catalogue.reconcile(house.now, written)
    assert (house.state("a"), house.events(None)) == before
    apply(house.house, declarations(house, "3", a={"every": "3h"}))
    schedule = house.house.catalogue.get("a")
    assert schedule is not None
    assert (schedule.state.revision, schedule.definition.trigger.text) == (2, "3h")  # type: ignore[union-attr]


def test_one_that_was_worked_out_before_another_came_is_not_written(house: Tenant) -> None:
    catalogue = house.house.catalogue
    apply(house.house, declarations(house, a={"every": "1h"}))
    stale = Reconciliation(based_on=catalogue.config_revision()[0] - 1, digest="x")
    assert catalogue.reconcile(house.now, stale) is False
    assert catalogue.config_revision()[1] == "1"


class Overtaken:
    """The catalogue of a process that is overtaken by another while it works out what to change."""

    def __init__(self, house: House, other: Callable[[], object]) -> None:
        self._catalogue, self._other = house.catalogue, other

    def of_source(self, source: str) -> list[Schedule]:
        seen = self._catalogue.of_source(source)
        other, self._other = self._other, lambda: None
        other()
        return seen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._catalogue, name)


def test_two_processes_that_start_with_one_file_on_an_empty_database_both_start(house: Tenant) -> None:
    """The slower finds schedules that it did not see a moment ago: they are its own, and no stranger's."""
    file = declarations(house, a={"every": "1h"}, b={"every": "2h"})
    slower = replace(house.house, catalogue=Overtaken(house.house, lambda: apply(house.house, file)))
    assert not apply(slower, file)
    assert len(house.events(None, "config.reloaded")) == 1


def test_an_id_that_came_another_way_meanwhile_is_not_taken_over(house: Tenant) -> None:
    stranger = submission("a", every="1h")
    other = Overtaken(house.house, lambda: create_schedules(house.house, [stranger]))
    slower = replace(house.house, catalogue=other)
    with pytest.raises(ConfigError, match=r"f:1: .* was created over REST"):
        apply(slower, declarations(house, a={"every": "1h"}))


def test_removing_most_of_many_changes_nothing_unless_it_is_meant(house: Tenant) -> None:
    names: dict[str, Any] = {f"s{number}": {"every": "1h"} for number in range(10)}
    apply(house.house, declarations(house, **names))
    before = house.everything()
    with pytest.raises(RemovalError):
        apply(house.house, declarations(house, "2", s0={"every": "1h"}))
    assert house.everything() == before
