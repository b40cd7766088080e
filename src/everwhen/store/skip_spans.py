"""The slots of a span that did not fire, by the events about them: listed, counted by schedule, and by bucket.

Events are recorded when slots are decided, after an outage long after them, and have no index by slot over all
schedules: each of these is a pass over the audit. One event may be about a range of slots.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from everwhen.model.queries import ScheduleFilter, SkipCount, SlotsNotFired
from everwhen.store.dialect import Queries, Statement, composed
from everwhen.store.schedule_filters import filtered

_NOT_FIRED = ", ".join(
    {"first_at": "number_in(detail, 'first')", "last_at": "number_in(detail, 'last')"}.get(name, name)
    for name in SlotsNotFired._fields
)
# A range is stored at its first slot, one that was caught up at its last.
_IN_SPAN = """
type IN ('schedule.skipped', 'schedule.missed', 'schedule.caught_up') AND at >= :since::instant
    AND (slot_at < :until::instant OR number_in(detail, 'first') < :before)
    AND (slot_at >= :since::instant OR number_in(detail, 'last') >= :from)"""


@dataclass(frozen=True, slots=True)
class SkipSpan:
    """The events about slots in [since, until), of the schedules that match."""

    since: int
    until: int
    wanted: ScheduleFilter

    def events(self, tx: Queries, *, limit: int) -> list[SlotsNotFired]:
        """Return them, the earliest recorded first, so many at most."""
        first, where, values = self._filter
        query = (
            f"{first} SELECT {_NOT_FIRED} FROM audit_events WHERE {_IN_SPAN} {where} ORDER BY id LIMIT :limit"
        )
        return tx.many(SlotsNotFired._make, composed(query), **values, limit=limit)

    def ranges(self, tx: Queries, *, limit: int, behind: int) -> list[SlotsNotFired]:
        """Return those about several slots, the earliest recorded first, so many at most behind the first ones."""
        first, where, values = self._filter
        query = f"""
{first} SELECT {_NOT_FIRED} FROM audit_events WHERE {_IN_SPAN} AND slot_count > 1 {where}
ORDER BY id LIMIT :limit OFFSET :behind"""
        return tx.many(SlotsNotFired._make, composed(query), **values, limit=limit, behind=behind)

    def range_number(self, tx: Queries) -> int:
        """Return how many there are about several slots."""
        first, where, values = self._filter
        query = f"{first} SELECT count(*) FROM audit_events WHERE {_IN_SPAN} AND slot_count > 1 {where}"
        return int(tx.value(composed(query), **values))

    def numbers(self, tx: Queries) -> dict[str, int]:
        """Return how many events there are of each schedule, by uid."""
        first, where, values = self._filter
        query = f"{first} SELECT uid, count(*) FROM audit_events WHERE {_IN_SPAN} {where} GROUP BY uid"
        return dict(tx.rows(composed(query), **values))

    def counts(self, tx: Queries, *, width: int, by_schedule: bool) -> list[SkipCount]:
        """Return the number of slots with events of their own, by type and bucket; without a schedule, uid is empty."""
        first, where, values = self._filter
        statement = _counts_of("uid" if by_schedule else "''", first, where)
        return [
            SkipCount(uid, type_, (at - self.since) // width, number)
            for uid, type_, at, number in tx.rows(statement, **values, width=width)
        ]

    @property
    def _filter(self) -> tuple[str, str, dict[str, object]]:
        """Return the schedules that match, the condition on events, and the values of both."""
        span: dict[str, object] = {
            "since": self.since,
            "until": self.until,
            "from": self.since,
            "before": self.until,
        }
        if self.wanted == ScheduleFilter(
            owner=self.wanted.owner
        ):  # whom every event names, also of what was deleted
            if self.wanted.owner is None:
                return "", "", span
            return "", "AND owner = :owner::text", {**span, "owner": self.wanted.owner}
        if self.wanted == ScheduleFilter(
            uids=self.wanted.uids
        ):  # idx_audit_schedule, also of what was deleted
            return "", "AND uid = ANY(:uids::texts)", {**span, "uids": self.wanted.uids}
        where, values = filtered(self.wanted)
        those = f"WITH those AS MATERIALIZED (SELECT uid FROM schedules WHERE {where})"
        return those, "AND uid IN (SELECT uid FROM those)", {**span, **values}


@lru_cache(maxsize=128)
def _counts_of(uid: str, first: str, where: str) -> Statement:
    events = f"FROM audit_events WHERE {_IN_SPAN} AND slot_count = 1 AND type <> 'schedule.caught_up' {where}"
    return Statement(
        sqlite=f"""
{first} SELECT {uid}, type, :since + (slot_at - :since) / :width * :width, count(*) {events} GROUP BY 1, 2, 3""",
        postgres=f"""
{first} SELECT {uid}, type, date_bin(:width * interval '1 microsecond', slot_at, :since::instant), count(*)
{events} GROUP BY 1, 2, 3""",
    )
