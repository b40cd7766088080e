"""The conditions of lists of the ledger, and the way to the jobs that are wanted."""

from __future__ import annotations

from collections.abc import Collection

from everwhen.model.queries import EventFilter, JobFilter
from everwhen.store.dialect import Queries, composed
from everwhen.store.history import COUNTED, MOST_UIDS, Way

# The uid's range in the unique key on job_id, for each of many.
_THOSE_UIDS = "unnest(:uids::texts) AS those(wanted) CROSS JOIN jobs"
_OF_THOSE = """
job_id >= 'sched-' || those.wanted || '-n' AND job_id < 'sched-' || those.wanted || '-o' AND uid = those.wanted"""


class Conditions:
    """The WHERE clause of a list, with only the conditions that were requested."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self.values: dict[str, object] = {}

    def add(self, text: str, **value: object) -> None:
        if any(one is not None for one in value.values()):
            self._texts.append(text)
            self.values |= value

    def say(self, text: str) -> None:
        """Add a condition without a value."""
        self._texts.append(text)

    def __str__(self) -> str:
        return f"WHERE {' AND '.join(self._texts)}" if self._texts else ""


def job_conditions(wanted: JobFilter) -> Conditions:
    """Return the conditions on the jobs themselves, without those on their schedules."""
    conditions = Conditions()
    conditions.add("slot_at = :slot_at::instant", slot_at=wanted.slot_at)
    conditions.add("slot_at >= :since::instant", since=wanted.since)
    conditions.add("slot_at < :until::instant", until=wanted.until)
    conditions.add("created_at >= :enqueued_since::instant", enqueued_since=wanted.enqueued_since)
    conditions.add("created_at < :enqueued_until::instant", enqueued_until=wanted.enqueued_until)
    conditions.add("status = ANY(:statuses::texts)", statuses=_any(wanted.statuses))
    conditions.add("origin = ANY(:origins::texts)", origins=_any(wanted.origins))
    return conditions


def find_schedules(tx: Queries, wanted: JobFilter) -> list[tuple[str, int]] | None:
    """Return the uids whose jobs are wanted, with how often each fired; None: any."""
    conditions = _schedule_conditions(wanted)
    if not conditions.values:
        return None
    query = f"SELECT uid, fire_count - numbers_skipped FROM schedules {conditions} LIMIT {MOST_UIDS + 1}"
    found = tx.rows(composed(query), **conditions.values)
    if found or wanted.uid is None or wanted.owner is not None or wanted.group is not None:
        return found
    return [(wanted.uid, 0)]  # perhaps deleted; its owner and group are no longer known


def _schedule_conditions(wanted: JobFilter) -> Conditions:
    conditions = Conditions()
    conditions.add("uid = :uid::text", uid=wanted.uid)
    conditions.add("owner = :owner::text", owner=wanted.owner)
    conditions.add('"group" = :group::text', group=wanted.group)
    return conditions


def find_way(wanted: JobFilter, way: Way) -> tuple[str, Conditions]:
    """Return the table to read, with the index if it is named, and the conditions."""
    conditions = job_conditions(wanted)
    if way.uids is not None:
        conditions.add(_OF_THOSE, uids=way.uids)
        return _THOSE_UIDS, conditions
    schedules = _schedule_conditions(wanted)
    if schedules.values:
        conditions.add(f"uid IN (SELECT uid FROM schedules {schedules})", **schedules.values)
    if way.by is None:
        return "jobs", conditions
    conditions.say(way.by.condition)
    return f"jobs INDEXED BY {way.by.name}", conditions  # else SQLite would scan backwards to get the order


def count_jobs(tx: Queries, table: str, conditions: Conditions, floor: int) -> int:
    """Return how many there are, counted up to a bound."""
    above = f"{conditions} {'AND' if str(conditions) else 'WHERE'} row_id >= :above"
    query = f"SELECT count(*) FROM (SELECT 1 FROM {table} {above} LIMIT {COUNTED + 1}) AS found"
    return int(tx.value(composed(query), **conditions.values, above=floor))


def event_conditions(wanted: EventFilter) -> Conditions:
    conditions = Conditions()
    conditions.add("uid = :uid::text", uid=wanted.uid)
    conditions.add("job_id = :job_id::text", job_id=wanted.job_id)
    conditions.add("owner = :owner::text", owner=wanted.owner)
    conditions.add("at >= :since::instant", since=wanted.since)
    conditions.add("at < :until::instant", until=wanted.until)
    conditions.add("slot_at < :slots_until::instant", slots_until=wanted.slots_until)
    conditions.add("type = ANY(:types::texts)", types=_any(wanted.types))
    return conditions


def _any(fields: Collection[str]) -> list[str] | None:
    return sorted(fields) if fields else None
