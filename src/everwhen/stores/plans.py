"""Definitions prepared for use, cached by (uid, revision): parsed once, however often they fire.

Only committed revisions are cached. A transaction that reads a revision of its own gets its plan without caching it:
when the transaction is rolled back or runs again, another node may have committed the same number with another
definition.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Mapping, Sequence

from everwhen.errors import SchedulerError
from everwhen.model.schedule import Plan, QuietHoursPolicy, broken_plan
from everwhen.model.serialize import definition_in, policy_of
from everwhen.stores.transaction import Snapshot

KEPT = 200_000
NUMBERS_SKIPPED = "numbers_skipped"  # the setting that is higher after every restore

Key = tuple[str, int]  # uid and revision
Policies = Mapping[str, QuietHoursPolicy]


class PlanCache:
    """A bounded cache of plans. Quiet hours are part of a plan, so a changed policy evicts the plans that name one.

    A restored backup evicts them all: the same number of a revision may stand for another definition now.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._plans: dict[Key, Plan] = {}
        self._policies: dict[str, QuietHoursPolicy] = {}
        self._policies_version: str | None = None
        self._numbers_skipped: str | None = None

    @property
    def size(self) -> int:
        return len(self._plans)

    def load(self, tx: Snapshot, wanted: Iterable[Key]) -> dict[Key, Plan]:
        """Return the plans of those revisions; those that are not cached are read in one query."""
        keys = list(wanted)
        with self._lock:  # readers and the writer share the cache, and a changed policy empties it
            self._refresh_policies(tx)
            plans = self._plans
            missing = [key for key in keys if key not in plans]
            if len(plans) + len(missing) > KEPT:
                plans.clear()
                missing = keys
            found = read_plans(tx, missing, self._policies)
            own = tx.own_revisions
            plans.update({key: plan for key, plan in found.items() if key not in own} if own else found)
            return {key: plans.get(key) or found.get(key) or _missing(key) for key in keys}

    def remember(self, plans: Mapping[Key, Plan]) -> None:
        """Cache plans that were just committed, so that their writer need not read them again."""
        with self._lock:
            if len(self._plans) + len(plans) <= KEPT:
                self._plans.update(plans)

    def remembered(self) -> dict[Key, Plan]:
        """Return the cached plans; all of them are committed."""
        with self._lock:
            return dict(self._plans)

    def _refresh_policies(self, tx: Snapshot) -> None:
        settings = tx.settings()
        skipped = settings.get(NUMBERS_SKIPPED, "0")
        if skipped != self._numbers_skipped:
            self._plans = {}
            self._policies_version, self._numbers_skipped = None, skipped
        version = settings.get("policies_version", "0")
        if version == self._policies_version:
            return
        self._plans = {
            key: plan for key, plan in self._plans.items() if plan.definition.quiet_hours_id is None
        }
        self._policies = read_policies(tx)
        self._policies_version = version


class RecordedPlans:
    """Plans as recorded, of one snapshot: for the checker, which must not trust a cache of what it checks."""

    def __init__(self, tx: Snapshot) -> None:
        self._tx = tx
        self._policies = read_policies(tx)

    def load(self, wanted: Iterable[Key]) -> dict[Key, Plan]:
        keys = list(wanted)
        found = read_plans(self._tx, keys, self._policies)
        return {key: found.get(key) or _missing(key) for key in keys}


def read_plans(tx: Snapshot, keys: Sequence[Key], policies: Policies) -> dict[Key, Plan]:
    """Return the plans of those revisions, without those that are not recorded."""
    return {
        (uid, revision): _plan(schedule_id, fields, policies)
        for uid, revision, schedule_id, fields in (tx.revisions(keys) if keys else ())
    }


def read_policies(tx: Snapshot) -> dict[str, QuietHoursPolicy]:
    return {policy_id: policy_of(policy_id, json.loads(fields)) for policy_id, fields in tx.policies()}


def _plan(schedule_id: str, fields: str, policies: Policies) -> Plan:
    try:
        definition = definition_in(fields)
    except (SchedulerError, LookupError, TypeError, ValueError) as error:  # it affects no other schedule (E7)
        return broken_plan(schedule_id, f"its definition cannot be read: {error}")
    quiet = policies.get(definition.quiet_hours_id) if definition.quiet_hours_id else None
    return Plan(schedule_id, definition, quiet)


def _missing(key: Key) -> Plan:
    return broken_plan(key[0], "its revision is missing")
