"""Quiet hours that were there when a schedule was planned, and are not when it is written (E4)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from everwhen.decide import edit
from everwhen.errors import MissingQuietHoursError, QuietHoursChangedError
from everwhen.model.decision import Decision
from everwhen.model.schedule import Plan, Schedule
from everwhen.model.shared import Shared
from everwhen.operations.schedules import define
from everwhen.ports.catalogue import Change, NewSchedule, Reconciliation
from tests.conformance.tenant import Tenant, submission

Write = Callable[[Tenant, Plan], object]


def planned(house: Tenant) -> Plan:
    """By the policy as it is now."""
    (policy,) = house.house.catalogue.policies()
    wanted = submission("a", every="10m", quiet_hours="nights")
    return Plan("a", define(house.house, wanted, house.now), policy)


def creation(house: Tenant, plan: Plan) -> NewSchedule:
    return NewSchedule(edit.create(plan, "0123456789ab", house.now), plan, "api")


def edited(plan: Plan) -> Change:
    def change(schedule: Schedule, now: int, shared: Shared) -> Decision:
        return edit.edit(schedule, plan, now, shared)

    return change


def create(house: Tenant, plan: Plan) -> None:
    house.house.catalogue.create(house.now, [creation(house, plan)])


def change(house: Tenant, plan: Plan) -> None:
    house.add("a", every="10m")
    house.house.catalogue.change(house.now, "a", edited(plan))


def create_by_reload(house: Tenant, plan: Plan) -> None:
    house.house.catalogue.reconcile(house.now, Reconciliation(0, "d", created=[creation(house, plan)]))


def change_by_reload(house: Tenant, plan: Plan) -> None:
    house.add("a", every="10m")
    house.house.catalogue.reconcile(house.now, Reconciliation(0, "d", changed=[("a", edited(plan))]))


@pytest.mark.parametrize("write", [create, change, create_by_reload, change_by_reload])
def test_a_schedule_never_names_quiet_hours_that_were_deleted_meanwhile(house: Tenant, write: Write) -> None:
    house.put_quiet_hours("08:00-09:00", "skip")
    plan = planned(house)
    house.house.catalogue.delete_own_policy("nights")
    with pytest.raises(MissingQuietHoursError, match='quiet_hours: there are no "nights"'):
        write(house, plan)
    assert all(one.definition.quiet_hours_id is None for one in house.house.catalogue.soonest(5))


@pytest.mark.parametrize("write", [change, change_by_reload])
def test_an_edit_by_quiet_hours_that_were_changed_meanwhile_is_not_written(
    house: Tenant, write: Write
) -> None:
    house.put_quiet_hours("08:00-09:00", "skip")
    plan = planned(house)
    house.put_quiet_hours("08:00-10:00", "skip")
    with pytest.raises(QuietHoursChangedError, match="try again"):
        write(house, plan)
    assert house.state("a").revision == 1


def test_a_reload_may_name_the_quiet_hours_that_it_brings(house: Tenant) -> None:
    house.put_quiet_hours("08:00-09:00", "skip")
    plan = planned(house)
    assert plan.quiet is not None
    house.house.catalogue.delete_own_policy("nights")
    changes = Reconciliation(0, "d", created=[creation(house, plan)], policies=[plan.quiet])
    assert house.house.catalogue.reconcile(house.now, changes)
    house.step()
    assert house.reasons("a") == ["quiet_hours"]
