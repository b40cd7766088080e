"""Definitions made ready for work, kept by (uid, revision): parsed once, however often they fire."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterable, Sequence

from everwhen.errors import SchedulerError
from everwhen.model.schedule import Plan, QuietHoursPolicy, broken_plan
from everwhen.model.words import definition_of, policy_of

KEPT = 200_000
_PORTION = 400  # SQLite takes a bounded number of parameters


class PlanCache:
    """A bounded memory of plans. Quiet hours are part of a plan, so a changed policy empties it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._plans: dict[tuple[str, int], Plan] = {}
        self._policies: dict[str, QuietHoursPolicy] = {}
        self._policies_version: str | None = None

    @property
    def size(self) -> int:
        return len(self._plans)

    def load(
        self, connection: sqlite3.Connection, wanted: Iterable[tuple[str, int]]
    ) -> dict[tuple[str, int], Plan]:
        """The plans of those revisions; what is not remembered is read in one go."""
        keys = list(wanted)
        with self._lock:  # readers and the writer share it, and a changed policy empties it
            self._refresh_policies(connection)
            plans = self._plans
            missing = [key for key in keys if key not in plans]
            if len(plans) + len(missing) > KEPT:
                plans.clear()
                missing = keys
            for start in range(0, len(missing), _PORTION):
                self._read(connection, missing[start : start + _PORTION])
            return {key: plans.get(key) or broken_plan(key[0], "its revision is missing") for key in keys}

    def _read(self, connection: sqlite3.Connection, keys: Sequence[tuple[str, int]]) -> None:
        places = ", ".join(["(?, ?)"] * len(keys))
        query = f"""SELECT uid, revision, schedule_id, words FROM schedule_revisions
            WHERE (uid, revision) IN (VALUES {places})"""
        for uid, revision, schedule_id, words in connection.execute(query, [v for key in keys for v in key]):
            self._plans[uid, revision] = self._plan(schedule_id, words)

    def _plan(self, schedule_id: str, words: str) -> Plan:
        try:
            definition = definition_of(json.loads(words))
        except (SchedulerError, LookupError, TypeError, ValueError) as error:  # it harms nobody else (E7)
            return broken_plan(schedule_id, f"its definition cannot be read: {error}")
        quiet = self._policies.get(definition.quiet_hours_id) if definition.quiet_hours_id else None
        return Plan(schedule_id, definition, quiet)

    def _refresh_policies(self, connection: sqlite3.Connection) -> None:
        row = connection.execute("SELECT value FROM settings WHERE key = 'policies_version'").fetchone()
        version = row[0] if row else "0"
        if version == self._policies_version:
            return
        self._plans.clear()
        rows = connection.execute("SELECT policy_id, words FROM quiet_hours_policies")
        self._policies = {policy_id: policy_of(policy_id, json.loads(words)) for policy_id, words in rows}
        self._policies_version = version
