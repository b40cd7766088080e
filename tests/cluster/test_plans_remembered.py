"""A transaction that is run again leaves nothing of its first attempt in memory: every remembered plan is on record."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from everwhen.decide import edit, status
from everwhen.model.decision import Decision
from everwhen.model.declare import declare
from everwhen.model.schedule import Plan, Schedule
from everwhen.model.shared import Shared
from everwhen.ports.catalogue import Change, Reconciliation
from everwhen.stores.postgres_database import Overtaken
from tests.cluster.conftest import until_waiting
from tests.conformance.tenant import TRUE, Tenant


class Rival:
    """Another node that edits the same schedule while this one holds its row, and gets it when this one is undone."""

    def __init__(self, house: Tenant, other: Tenant) -> None:
        self._house, self._other = house, other
        self._threads = ThreadPoolExecutor()
        self._edit: Future[Any] | None = None

    def overtake(self, schedule: Schedule, now: int, shared: Shared) -> Decision:
        """As a decision: at the first attempt the other one stands in line, and this one is undone."""
        if self._edit is None:
            self._edit = self._threads.submit(self._other.edit, "a", every="20m")
            until_waiting(self._house, self._edit)
            raise Overtaken
        assert self._edit.result(30).revision == 2
        return status.pause(schedule, now, shared, by="token")


def to_an_hour(house: Tenant) -> Change:
    words = {"every": "1h"}
    definition = declare("a", words, target=TRUE, now=house.now, timezone="UTC", group=None)
    return lambda s, now, shared: edit.edit(s, Plan("a", definition, None), now, shared)


def test_a_change_that_is_run_again_decides_by_what_the_other_node_wrote(
    house: Tenant, other: Tenant
) -> None:
    house.add("a", every="10m")
    rival = Rival(house, other)
    house.house.catalogue.change(house.now, "a", to_an_hour(house), rival.overtake)
    assert house.plans_not_on_record() == other.plans_not_on_record() == []
    assert house.state("a").revision == 3


def test_a_reload_that_is_run_again_decides_by_what_the_other_node_wrote(
    house: Tenant, other: Tenant
) -> None:
    house.add("a", every="10m")
    changed = [("a", to_an_hour(house)), ("a", Rival(house, other).overtake)]
    assert house.house.catalogue.reconcile(house.now, Reconciliation(0, "digest", changed=changed))
    assert house.plans_not_on_record() == other.plans_not_on_record() == []


def test_the_checker_does_not_believe_what_is_remembered(house: Tenant) -> None:
    """It reads every definition from the record, so a memory that is wrong shows."""
    house.add("a", every="10m")
    house.step()
    state = house.state("a")
    hourly = declare("a", {"every": "1h"}, target=TRUE, now=house.now, timezone="UTC", group=None)
    house.stack.plans.remember({(state.uid, 1): Plan("a", hourly, None)})
    assert house.plans_not_on_record() == [f"revision 1 of {state.uid} is remembered, and not on record"]
    with house.house.ledger.history() as history:
        (life,) = history.lives
        assert life.revisions[0].plan.definition.trigger != hourly.trigger
    house.stack.plans.remember({(state.uid, 1): life.revisions[0].plan})
