"""Quiet hours that existed when a schedule was planned, and do not when it is written (E4)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from everwhen.decide import edit
from everwhen.errors import MissingQuietHoursError, QuietHoursChangedError
from everwhen.model.changes import Change, Decision, Insertion, Reconciliation
from everwhen.model.limits import Shared
from everwhen.model.schedule import Plan, Schedule
from tests.conformance.tenant import Tenant, submission
from tests.submissions import define

Write = Callable[[Tenant, Plan], object]


def planned(runtime: Tenant) -> Plan:
    """Plan a schedule by the policy as it is now."""
    (policy,) = runtime.runtime.catalogue.policies()
    wanted = submission("a", every="10m", quiet_hours="nights")
    return Plan("a", define(runtime.runtime, wanted, runtime.now), policy)


def creation(runtime: Tenant, plan: Plan) -> Insertion:
    return Insertion(edit.create(plan, "0123456789ab", runtime.now), plan, "api")


def edited(plan: Plan) -> Change:
    def change(schedule: Schedule, now: int, shared: Shared) -> Decision:
        return edit.edit(schedule, plan, now, shared)

    return change


def create(runtime: Tenant, plan: Plan) -> None:
    runtime.runtime.catalogue.create(runtime.now, [creation(runtime, plan)])


def change(runtime: Tenant, plan: Plan) -> None:
    runtime.add("a", every="10m")
    runtime.runtime.catalogue.change(runtime.now, "a", edited(plan))


def create_by_reload(runtime: Tenant, plan: Plan) -> None:
    runtime.runtime.catalogue.reconcile(
        runtime.now, Reconciliation(0, "d", created=[creation(runtime, plan)])
    )


def change_by_reload(runtime: Tenant, plan: Plan) -> None:
    runtime.add("a", every="10m")
    runtime.runtime.catalogue.reconcile(runtime.now, Reconciliation(0, "d", changed=[("a", edited(plan))]))


@pytest.mark.parametrize("write", [create, change, create_by_reload, change_by_reload])
def test_a_schedule_never_names_quiet_hours_that_were_deleted_meanwhile(
    runtime: Tenant, write: Write
) -> None:
    runtime.put_quiet_hours("08:00-09:00", "skip")
    plan = planned(runtime)
    runtime.runtime.catalogue.delete_own_policy("nights")
    with pytest.raises(MissingQuietHoursError, match='quiet_hours: there are no quiet hours "nights"'):
        write(runtime, plan)
    assert all(one.definition.quiet_hours_id is None for one in runtime.runtime.catalogue.soonest(5))


@pytest.mark.parametrize("write", [change, change_by_reload])
def test_an_edit_by_quiet_hours_that_were_changed_meanwhile_is_not_written(
    runtime: Tenant, write: Write
) -> None:
    runtime.put_quiet_hours("08:00-09:00", "skip")
    plan = planned(runtime)
    runtime.put_quiet_hours("08:00-10:00", "skip")
    with pytest.raises(QuietHoursChangedError, match="try again"):
        write(runtime, plan)
    assert runtime.state("a").revision == 1


def test_a_reload_may_name_the_quiet_hours_that_it_brings(runtime: Tenant) -> None:
    runtime.put_quiet_hours("08:00-09:00", "skip")
    plan = planned(runtime)
    assert plan.quiet is not None
    runtime.runtime.catalogue.delete_own_policy("nights")
    changes = Reconciliation(0, "d", created=[creation(runtime, plan)], policies=[plan.quiet])
    assert runtime.runtime.catalogue.reconcile(runtime.now, changes)
    runtime.step()
    assert runtime.reasons("a") == ["quiet_hours"]
