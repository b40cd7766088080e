"""Definitions made ready for work, kept by (uid, revision): parsed once, however often they fire."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Mapping, Sequence

from everwhen.errors import SchedulerError
from everwhen.model.schedule import Plan, QuietHoursPolicy, broken_plan
from everwhen.model.words import definition_in, policy_of
from everwhen.stores.transaction import Snapshot

KEPT = 200_000


class PlanCache:
    """A bounded memory of plans. Quiet hours are part of a plan, so a changed policy ends those that name one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._plans: dict[tuple[str, int], Plan] = {}
        self._policies: dict[str, QuietHoursPolicy] = {}
        self._policies_version: str | None = None

    @property
    def size(self) -> int:
        return len(self._plans)

    def load(self, tx: Snapshot, wanted: Iterable[tuple[str, int]]) -> dict[tuple[str, int], Plan]:
        """The plans of those revisions; what is not remembered is read in one go."""
        keys = list(wanted)
        with self._lock:  # readers and the writer share it, and a changed policy empties it
            self._refresh_policies(tx)
            plans = self._plans
            missing = [key for key in keys if key not in plans]
            if len(plans) + len(missing) > KEPT:
                plans.clear()
                missing = keys
            if missing:
                self._read(tx, missing)
            return {key: plans.get(key) or broken_plan(key[0], "its revision is missing") for key in keys}

    def remember(self, plans: Mapping[tuple[str, int], Plan]) -> None:
        """Plans that were committed just now: what wrote them need not read them again."""
        with self._lock:
            if len(self._plans) + len(plans) <= KEPT:
                self._plans.update(plans)

    def forget(self) -> None:
        """Forget every plan: a transaction that read its own revisions was undone, and their numbers come again."""
        with self._lock:
            self._plans.clear()
            self._policies_version = None

    def _read(self, tx: Snapshot, keys: Sequence[tuple[str, int]]) -> None:
        for uid, revision, schedule_id, words in tx.revisions(keys):
            self._plans[uid, revision] = self._plan(schedule_id, words)

    def _plan(self, schedule_id: str, words: str) -> Plan:
        try:
            definition = definition_in(words)
        except (SchedulerError, LookupError, TypeError, ValueError) as error:  # it harms nobody else (E7)
            return broken_plan(schedule_id, f"its definition cannot be read: {error}")
        quiet = self._policies.get(definition.quiet_hours_id) if definition.quiet_hours_id else None
        return Plan(schedule_id, definition, quiet)

    def _refresh_policies(self, tx: Snapshot) -> None:
        version = tx.settings().get("policies_version", "0")
        if version == self._policies_version:
            return
        self._plans = {
            key: plan for key, plan in self._plans.items() if plan.definition.quiet_hours_id is None
        }
        self._policies = {
            policy_id: policy_of(policy_id, json.loads(words)) for policy_id, words in tx.policies()
        }
        self._policies_version = version
