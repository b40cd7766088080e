"""What the release before has written, seen by this one: its schedules, its revisions, its counts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from everwhen.model.history import Cause
from everwhen.model.policy import Guard
from everwhen.model.schedule import Definition
from everwhen.operations.upgrade import protect_schedules
from tests.conformance.tenant import FAILED, Tenant


def run(house: Tenant, script: str) -> None:
    house.stack.database.build(lambda builder: builder.run(script))


def age(house: Tenant) -> None:
    run(house, "UPDATE schedule_revisions SET cause = NULL; UPDATE nodes SET migration = NULL")


def causes(house: Tenant, name: str) -> list[Cause | None]:
    with house.house.ledger.history([house.state(name).uid]) as history:
        (life,) = history.lives
        return [revision.cause for revision in life.revisions]


def guarded(_schedule_id: str, definition: Definition) -> Definition | None:
    return None if definition.group == "gone" else replace(definition, guard=Guard("guard:g", 1))


def test_revisions_say_why_they_were_written(house: Tenant) -> None:
    house.add("a", every="1h")
    house.edit("a", every="2h")
    assert causes(house, "a") == ["created", "edited"]


def test_schedules_of_groups_from_before_are_upgraded_once(house: Tenant) -> None:
    house.add("new", every="1h", group="g", source="api")
    house.add("edited", every="1h", group="g", source="api")
    house.edit("edited", every="2h", group="g")
    house.add("added", every="1h", group="g", source="python")
    house.add("alone", every="1h", source="api")
    house.add("gone", every="1h", group="gone", source="api")
    house.add("file", every="1h", group="g", source="config")
    age(house)
    house.add("since", every="1h", group="g", source="api")

    assert protect_schedules(house.house, guarded) == ["new", "edited", "added"]
    assert protect_schedules(house.house, guarded) == []
    assert causes(house, "new") == causes(house, "added") == [None, "upgraded"]
    assert causes(house, "edited") == [None, None, "upgraded"]
    assert causes(house, "since") == ["created"]
    assert causes(house, "alone") == causes(house, "gone") == causes(house, "file") == [None]
    (event,) = house.events("new", "schedule.updated")
    assert (event.actor, event.detail) == ("upgrade", {"revision": 2, "cause": "upgraded"})


def test_what_is_as_it_should_be_gets_no_revision_and_is_not_looked_at_again(house: Tenant) -> None:
    house.add("a", every="1h", group="g", source="api")
    age(house)
    revision = house.state("a").revision
    assert protect_schedules(house.house, lambda _id, definition: definition) == []
    assert (house.state("a").revision, causes(house, "a")) == (revision, ["created"])
    assert house.house.catalogue.from_before("api", only_groups=True) == []


@pytest.mark.parametrize(("is_from_before", "faults"), [(True, 0), (False, 2)])
def test_counts_of_a_process_from_before_are_not_held_against_the_rules_of_now(
    house: Tenant, is_from_before: bool, faults: int
) -> None:
    """It counted failures in a row where there are no retries, and knew no failed slots."""
    house.add("a", every="1h")
    house.step()
    house.run(FAILED)
    house.wait("1m")
    house.beat()
    run(house, "UPDATE schedules SET current_retry = 1, failed_slots = 0")
    if is_from_before:
        run(house, "UPDATE nodes SET migration = NULL")
    assert house.check().fault_count == faults
    run(house, "UPDATE schedules SET current_retry = 0, failed_slots = 1")
    assert house.check().is_clean
