"""The plans that a process has cached are the stored ones: none was rolled back, none is of another commit."""

from __future__ import annotations

from everwhen.model.schedule import Plan
from everwhen.store.load import Key
from everwhen.store.opened import store_of
from everwhen.wiring import Stack


class PlansOnRecord:
    """Compares the plans that a stack has cached with the revisions in its database, each once."""

    def __init__(self) -> None:
        self._proven: dict[Key, Plan] = {}

    def faults(self, stack: Stack) -> list[str]:
        """Return the cached plans that are not stored. A history that retention deleted is not a fault: uids are not
        reused."""
        store_of(stack.runtime).catalogue.soonest(1)  # the next reader reloads policies that others changed
        remembered = stack.plans.remembered()
        new = {key: plan for key, plan in remembered.items() if self._proven.get(key) is not plan}
        with store_of(stack.runtime).ledger.history(sorted({uid for uid, _ in new})) as record:
            histories = {
                history.uid: {r.revision: r.plan for r in history.revisions} for history in record.histories
            }
        wrong = [
            key
            for key, plan in new.items()
            if histories[key[0]] and not _is(plan, histories[key[0]].get(key[1]))
        ]
        self._proven = remembered
        return [f"revision {revision} of {uid} is remembered, and not on record" for uid, revision in wrong]


def _is(plan: Plan, recorded: Plan | None) -> bool:
    return recorded is not None and (plan.definition, plan.quiet) == (recorded.definition, recorded.quiet)
