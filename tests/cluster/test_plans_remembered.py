"""A transaction that is run again leaves nothing of its first attempt in memory: every remembered plan is on record."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from everwhen.decide import edit, status
from everwhen.model.changes import Change, Decision, Reconciliation
from everwhen.model.declare import declare
from everwhen.model.limits import Shared
from everwhen.model.schedule import Plan, Schedule
from everwhen.store.postgres.database import Overtaken
from tests.cluster.conftest import until_waiting
from tests.conformance.tenant import TRUE, Tenant


class Rival:
    """Another node that edits the same schedule while this one holds its row, and gets it when this one is undone."""

    def __init__(self, runtime: Tenant, other: Tenant) -> None:
        self._runtime, self._other = runtime, other
        self._threads = ThreadPoolExecutor()
        self._edit: Future[Any] | None = None

    def overtake(self, schedule: Schedule, now: int, shared: Shared) -> Decision:
        """As a decision: at the first attempt the other one stands in line, and this one is undone."""
        if self._edit is None:
            self._edit = self._threads.submit(self._other.edit, "a", every="20m")
            until_waiting(self._runtime, self._edit)
            raise Overtaken
        assert self._edit.result(30).revision == 2
        return status.pause(schedule, now, shared, by="token")


def to_an_hour(runtime: Tenant) -> Change:
    fields = {"every": "1h"}
    definition = declare("a", fields, target=TRUE, now=runtime.now, timezone="UTC", group=None)
    return lambda s, now, shared: edit.edit(s, Plan("a", definition, None), now, shared)


def test_a_change_that_is_run_again_decides_by_what_the_other_node_wrote(
    runtime: Tenant, other: Tenant
) -> None:
    runtime.add("a", every="10m")
    rival = Rival(runtime, other)
    runtime.runtime.catalogue.change(runtime.now, "a", to_an_hour(runtime), rival.overtake)
    assert runtime.plans_not_on_record() == other.plans_not_on_record() == []
    assert runtime.state("a").revision == 3


def test_a_reload_that_is_run_again_decides_by_what_the_other_node_wrote(
    runtime: Tenant, other: Tenant
) -> None:
    runtime.add("a", every="10m")
    changed = [("a", to_an_hour(runtime)), ("a", Rival(runtime, other).overtake)]
    assert runtime.runtime.catalogue.reconcile(runtime.now, Reconciliation(0, "digest", changed=changed))
    assert runtime.plans_not_on_record() == other.plans_not_on_record() == []


def test_the_checker_does_not_believe_what_is_remembered(runtime: Tenant) -> None:
    """It reads every definition from the record, so a memory that is wrong shows."""
    runtime.add("a", every="10m")
    runtime.step()
    state = runtime.state("a")
    hourly = declare("a", {"every": "1h"}, target=TRUE, now=runtime.now, timezone="UTC", group=None)
    runtime.stack.plans.remember({(state.uid, 1): Plan("a", hourly, None)})
    assert runtime.plans_not_on_record() == [f"revision 1 of {state.uid} is remembered, and not on record"]
    with runtime.runtime.ledger.history() as record:
        (history,) = record.histories
        assert history.revisions[0].plan.definition.trigger != hourly.trigger
    runtime.stack.plans.remember({(state.uid, 1): history.revisions[0].plan})
