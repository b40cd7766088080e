"""A configuration is written as a whole or not at all, and never overwrites one that it does not know (D47, X6, X8)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from everwhen.decide.reconcile import rewrite, switch
from everwhen.errors import ConfigError, RemovalError, TimetableError, UnknownScheduleError
from everwhen.model.changes import Reconciliation
from everwhen.model.declare import Declarations, Declared, declare
from everwhen.model.schedule import QuietHoursPolicy, Schedule, Target
from everwhen.operations.apply import apply, preview
from everwhen.store.opened import OpenStore
from everwhen.timetable.civil_time import zone
from everwhen.timetable.windows import QuietHours, QuietWindow, parse_window
from tests.conformance.tenant import Tenant, submission
from tests.submissions import create_schedules

COMMAND = Target("command", '{"argv":["true"]}')


def declarations(
    runtime: Tenant, digest: str = "1", *policies: QuietHoursPolicy, **fields: Any
) -> Declarations:
    schedules = [
        Declared(
            name, keys, COMMAND, declare(name, keys, target=COMMAND, now=runtime.now), place=f"f:{number}"
        )
        for number, (name, keys) in enumerate(fields.items(), 1)
    ]
    return Declarations(tuple(schedules), policies, digest)


def quiet(between: str) -> QuietHoursPolicy:
    return QuietHoursPolicy(
        "nights", "nights", QuietHours(zone("UTC"), (QuietWindow(parse_window(between)),))
    )


def test_schedules_and_policies_come_change_and_go_together(runtime: Tenant) -> None:
    every, nightly = {"every": "1h"}, {"cron": "0 * * * *", "quiet_hours": "nights"}
    first = declarations(runtime, "1", quiet("22:00-07:00"), a=every, b=nightly, c=every)
    assert apply(runtime.runtime, first).created == ("a", "b", "c")
    assert runtime.runtime.catalogue.config_places() == {"a": "f:1", "b": "f:2", "c": "f:3"}
    second = declarations(runtime, "2", quiet("20:00-07:00"), a={"every": "2h"}, b=nightly)
    applied = apply(runtime.runtime, second)
    assert (applied.changed, applied.removed) == (("a",), ("c",))
    assert runtime.runtime.catalogue.policies("config") == [quiet("20:00-07:00")]
    apply(runtime.runtime, declarations(runtime, "3", a={"every": "2h"}))
    assert runtime.runtime.catalogue.policies() == []
    assert runtime.runtime.catalogue.config_revision()[1] == "3"
    assert len(runtime.events(None, "config.reloaded")) == 3


def test_a_policy_of_the_file_stands_apart_from_those_made_by_hand(runtime: Tenant) -> None:
    runtime.runtime.catalogue.add_policy(runtime.now, quiet("22:00-07:00"))
    apply(runtime.runtime, declarations(runtime, a={"every": "1h"}))
    assert len(runtime.runtime.catalogue.policies()) == 1
    assert runtime.runtime.catalogue.policies("config") == []


def test_a_program_and_the_file_remove_what_is_their_own(runtime: Tenant) -> None:
    apply(runtime.runtime, declarations(runtime, a={"every": "1h"}))
    apply(runtime.runtime, declarations(runtime, shop={"every": "1h"}), source="python:shop")
    apply(runtime.runtime, declarations(runtime, office={"every": "1h"}), source="python:office")
    assert apply(runtime.runtime, declarations(runtime), source="python:shop").removed == ("shop",)
    assert (
        runtime.runtime.catalogue.config_revision("python:shop") > runtime.runtime.catalogue.config_revision()
    )
    assert runtime.runtime.catalogue.config_places() == {"a": "f:1"}
    assert apply(runtime.runtime, declarations(runtime, "2"), source="config").removed == ("a",)
    assert runtime.runtime.catalogue.get("office") is not None


def test_a_program_may_name_quiet_hours_that_are_there_and_no_others(runtime: Tenant) -> None:
    runtime.runtime.catalogue.add_policy(runtime.now, quiet("22:00-07:00"))
    nightly = declarations(runtime, a={"every": "1h", "quiet_hours": "nights"})
    assert apply(runtime.runtime, nightly, source="python:shop").created == ("a",)
    strange = declarations(runtime, "2", b={"every": "1h", "quiet_hours": "days"})
    with pytest.raises(TimetableError, match='there are no quiet hours "days"'):
        apply(runtime.runtime, strange, source="python:shop")
    assert runtime.runtime.catalogue.get("a") is not None


def test_what_fails_half_way_leaves_nothing_not_even_in_memory(runtime: Tenant) -> None:
    apply(runtime.runtime, declarations(runtime, a={"every": "1h"}))
    before = (runtime.state("a"), runtime.events(None))
    (change,) = preview(runtime.runtime, declarations(runtime, "2", a={"every": "2h"})).changed
    edit = partial(rewrite, change.after, None)
    written = Reconciliation(
        based_on=runtime.runtime.catalogue.config_revision()[0],
        digest="2",
        changed=[("a", edit), ("a", partial(switch, False)), ("nobody", edit)],
    )
    with pytest.raises(UnknownScheduleError):
        runtime.runtime.catalogue.reconcile(runtime.now, written)
    assert (runtime.state("a"), runtime.events(None)) == before
    apply(runtime.runtime, declarations(runtime, "3", a={"every": "3h"}))
    schedule = runtime.runtime.catalogue.get("a")
    assert schedule is not None
    assert (schedule.state.revision, schedule.definition.trigger.text) == (2, "3h")  # type: ignore[union-attr]


def test_one_that_was_worked_out_before_another_came_is_not_written(runtime: Tenant) -> None:
    catalogue = runtime.runtime.catalogue
    apply(runtime.runtime, declarations(runtime, a={"every": "1h"}))
    stale = Reconciliation(based_on=catalogue.config_revision()[0] - 1, digest="x")
    assert catalogue.reconcile(runtime.now, stale) is False
    assert catalogue.config_revision()[1] == "1"


class Overtaken:
    """The catalogue of a process that another overtakes while it computes its changes."""

    def __init__(self, runtime: OpenStore, other: Callable[[], object]) -> None:
        self._catalogue, self._other = runtime.catalogue, other

    def of_source(self, source: str) -> list[Schedule]:
        seen = self._catalogue.of_source(source)
        other, self._other = self._other, lambda: None
        other()
        return seen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._catalogue, name)


def test_two_processes_that_start_with_one_file_on_an_empty_database_both_start(runtime: Tenant) -> None:
    """The slower process finds schedules that it did not see a moment ago: they are its own, not another source's."""
    file = declarations(runtime, a={"every": "1h"}, b={"every": "2h"})
    slower = replace(
        runtime.runtime,
        catalogue=Overtaken(runtime.runtime, lambda: apply(runtime.runtime, file)),  # type: ignore[arg-type]
    )
    assert not apply(slower, file)
    assert len(runtime.events(None, "config.reloaded")) == 1


def test_an_id_that_came_another_way_meanwhile_is_not_taken_over(runtime: Tenant) -> None:
    stranger = submission("a", every="1h")
    other = Overtaken(runtime.runtime, lambda: create_schedules(runtime.runtime, [stranger]))
    slower = replace(runtime.runtime, catalogue=other)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"f:1: .* was created over REST"):
        apply(slower, declarations(runtime, a={"every": "1h"}))


def test_removing_most_of_many_changes_nothing_unless_it_is_meant(runtime: Tenant) -> None:
    names: dict[str, Any] = {f"s{number}": {"every": "1h"} for number in range(10)}
    apply(runtime.runtime, declarations(runtime, **names))
    before = runtime.everything()
    with pytest.raises(RemovalError):
        apply(runtime.runtime, declarations(runtime, "2", s0={"every": "1h"}))
    assert runtime.everything() == before
