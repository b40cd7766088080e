"""A schedule that names quiet hours while another node deletes or changes them: it never names what is gone (E4)."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from everwhen.decide import edit
from everwhen.errors import MissingQuietHoursError, PolicyInUseError
from everwhen.model.changes import Insertion
from everwhen.model.schedule import Plan, QuietHoursPolicy
from everwhen.store.change import create_schedules
from everwhen.store.lanes import Lane
from everwhen.store.postgres.transaction import PostgresStore
from everwhen.store.system import remove_policy, write_policy
from everwhen.store.transaction import Transaction
from everwhen.timetable.civil_time import zone
from everwhen.timetable.windows import QuietHours, QuietWindow, parse_window
from tests.cluster.conftest import until_waiting
from tests.conformance.tenant import Tenant, at, submission
from tests.submissions import define


def meanwhile(
    runtime: Tenant, write: Callable[[Transaction], object], action: Callable[[], Any]
) -> Future[Any]:
    """The action of another node, begun before this one commits what it wrote, and held up by it."""
    threads = ThreadPoolExecutor()

    def work(tx: Transaction) -> Future[Any]:
        write(tx)
        begun = threads.submit(action)
        until_waiting(runtime, begun)
        return begun

    return PostgresStore(runtime.stack.database).write(Lane.API, work)


def new_schedule(runtime: Tenant) -> Insertion:
    (policy,) = runtime.runtime.catalogue.policies()
    wanted = submission("a", every="10m", quiet_hours="nights")
    plan = Plan("a", define(runtime.runtime, wanted, runtime.now), policy)
    return Insertion(edit.create(plan, "0123456789ab", runtime.now), plan, "api")


def test_a_policy_that_a_schedule_has_just_named_is_in_use(runtime: Tenant, other: Tenant) -> None:
    runtime.put_quiet_hours("08:00-09:00", "skip")
    deleting = meanwhile(
        runtime,
        lambda tx: create_schedules(tx, runtime.now, [new_schedule(runtime)]),
        lambda: other.runtime.catalogue.delete_own_policy("nights"),
    )
    with pytest.raises(PolicyInUseError):
        deleting.result(30)
    runtime.step()
    assert runtime.reasons("a") == ["quiet_hours"]


@pytest.mark.parametrize("is_new", [True, False], ids=["a new schedule", "an edit"])
def test_a_policy_that_is_being_deleted_is_not_named(runtime: Tenant, other: Tenant, is_new: bool) -> None:
    runtime.put_quiet_hours("08:00-09:00", "skip")
    if not is_new:
        runtime.add("a", every="10m")
    name = other.add if is_new else other.edit
    naming = meanwhile(
        runtime,
        lambda tx: remove_policy(tx, "nights"),
        lambda: name("a", every="10m", quiet_hours="nights"),
    )
    with pytest.raises(MissingQuietHoursError, match='there are no quiet hours "nights"'):
        naming.result(30)
    assert [one.state.revision for one in runtime.runtime.catalogue.soonest(1)] == ([] if is_new else [1])


def test_an_edit_goes_by_the_policy_that_another_node_has_just_changed(
    runtime: Tenant, other: Tenant
) -> None:
    """The slot that is held until the opening waits for the new one."""
    runtime.put_quiet_hours("08:00-09:00")
    runtime.add("a", every="24h", quiet_hours="nights", if_running="skip")
    runtime.step()
    hours = QuietHours(zone("UTC"), (QuietWindow(parse_window("08:00-10:30")),))
    later = QuietHoursPolicy("nights", "nights", hours, "defer")
    runtime.put_quiet_hours("20:00-21:00", policy_id="evenings")
    runtime.edit(
        "a",
        every="24h",
        quiet_hours="evenings",
        if_running="skip",
        only_between="11:00-12:00",
        outside_window="defer",
    )
    editing = meanwhile(
        runtime,
        lambda tx: write_policy(tx, runtime.now, later),
        lambda: other.edit("a", every="24h", quiet_hours="nights", if_running="queue"),
    )
    assert editing.result(30).release_at == at("10:30:00")
