"""Schedules and their revisions, as users and files declare them; quiet-hours policies; the system switch.

The flows that write are imported when they are used: a command that only reads needs none of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from everwhen.errors import UnknownScheduleError
from everwhen.model.changes import Change, Decision, Filling, Insertion, Reconciliation, Remember, Terms
from everwhen.model.events import Hold
from everwhen.model.limits import Shared
from everwhen.model.policy import Budget
from everwhen.model.queries import (
    ComingRow,
    Entry,
    Facet,
    GatheredSkips,
    ScheduleFilter,
    ScheduleNames,
    ScheduleOrder,
)
from everwhen.model.schedule import QuietHoursPolicy, Schedule, State
from everwhen.model.serialize import BEFORE_TIMES, BEHIND_TIMES, policy_of
from everwhen.model.spending import Spending, spending_of
from everwhen.store.dialect import Statement, composed
from everwhen.store.labels import pauses_of
from everwhen.store.lanes import Lane
from everwhen.store.load import add_shared, load_schedule, schedules_of, system_paused_at
from everwhen.store.schedule_facets import facet_query
from everwhen.store.schedule_filters import filtered, given_columns, ordered
from everwhen.store.schedule_rows import BY_ID, STATE
from everwhen.store.system_rows import SPENDINGS
from everwhen.store.transaction import Snapshot, StorePart, Transaction

# The unique key on key.
_ID_OF_KEY = Statement("SELECT schedule_id FROM schedules WHERE key = :key::text")
# idx_schedules_token
COUNT_OF_TOKEN = Statement("""
SELECT count(*) FROM schedules WHERE token_id = :token_id::text AND status NOT IN ('done', 'dead')""")
_COUNTS_OF_TOKENS = Statement("""
SELECT token_id, count(*) FROM schedules WHERE token_id = ANY(:ids::texts) AND status NOT IN ('done', 'dead')
GROUP BY token_id""")
_RELEASE_KEY = Statement("""
UPDATE schedules SET key = NULL WHERE key = :key::text AND status IN ('done', 'dead')""")
# idx_schedules_resume and idx_budgets_refill, each from its front.
_DUE_TO_RESUME = Statement("""
SELECT schedule_id, NULL FROM schedules
WHERE resume_at IS NOT NULL AND resume_at <= :now::instant AND status = 'paused'
UNION ALL SELECT NULL, key FROM budgets WHERE refill_at IS NOT NULL AND refill_at <= :now::instant""")
# idx_schedules_waiting; idx_audit_schedule for the last request of each. Where retention has removed it, the row was
# last written when it began to wait, or later.
_WAITING_SINCE = Statement("""
SELECT schedule_id, since FROM (
    SELECT s.schedule_id, coalesce((
        SELECT max(e.at) FROM audit_events e WHERE e.uid = s.uid AND e.type = 'schedule.approval_requested'
    ), s.updated_at) AS since
    FROM schedules s WHERE s.paused_by = 'approval') AS waiting
WHERE since <= :before::instant LIMIT :limit""")
# idx_schedules_over
_OVER = Statement(f"""
SELECT {STATE} FROM schedules WHERE token_id IS NOT NULL AND status IN ('done', 'dead') AND token_id > ''
    AND row_id > :after AND updated_at <= :before::instant
    AND (last_slot_at IS NULL OR last_slot_at <= :before::instant)
    AND (last_completed_at IS NULL OR last_completed_at <= :before::instant) ORDER BY row_id LIMIT :limit""")
# The unique key on uid.
_OF_UIDS = Statement(f"SELECT {STATE} FROM schedules WHERE uid = ANY(:uids::texts) ORDER BY row_id")
_OF_SOURCE = Statement(f"SELECT {STATE} FROM schedules WHERE source = :source::text ORDER BY uid")
# idx_revisions_before, and the unique key on uid.
_FROM_BEFORE = Statement(f"""
SELECT {", ".join(f"s.{name}" for name in State._fields)} FROM schedule_revisions r
JOIN schedules s ON s.uid = r.uid AND s.revision = r.revision
WHERE r.cause IS NULL AND s.source = :source::text AND (s."group" IS NOT NULL OR NOT :only_groups)
ORDER BY s.row_id""")
# idx_schedules_local: one search for each of the queues, however many schedules each has.
_LOCAL_QUEUES = Statement("""
WITH RECURSIVE queues(queue) AS (
    SELECT min(local_queue) FROM schedules WHERE local_queue IS NOT NULL
    UNION ALL
    SELECT (SELECT min(local_queue) FROM schedules WHERE local_queue > queues.queue)
    FROM queues WHERE queues.queue IS NOT NULL)
SELECT queue, EXISTS (SELECT 1 FROM schedules WHERE local_queue = queue AND enabled)
FROM queues WHERE queue IS NOT NULL""")
# idx_schedules_local
_ACTIVE_IN_LOCAL = Statement("""
SELECT schedule_id FROM schedules WHERE local_queue = ANY(:queues::texts) AND enabled LIMIT :limit""")
_ENTRY = f"{STATE}, source, key, token_id, created_at, updated_at"
_ENTRY_BY_ID = Statement(f"SELECT {_ENTRY} {BY_ID}")
_NAMES = ", ".join(ScheduleNames._fields)
# The unique keys on schedule_id and uid.
_NAMES_OF_ID = Statement(f"SELECT {_NAMES} {BY_ID}")
# Scans of all rows: a person asks for them, with a text that is not an id, or while a shell completes one.
_CALLED = Statement(f"""
SELECT {_NAMES} FROM schedules
WHERE (:owner::text IS NULL OR owner = :owner::text) AND (:maker::text IS NULL OR token_id = :maker::text)
    AND (name = :name::text OR key = :own::text
    OR (:owner::text IS NULL AND substr(key, length(key) - length(:tail::text) + 1) = :tail::text))
ORDER BY CASE WHEN key = :own::text THEN 0 WHEN key IS NULL THEN 2 ELSE 1 END, row_id DESC LIMIT :limit""")
_BEGINNING = Statement(f"""
SELECT {_NAMES} FROM schedules
WHERE (:owner::text IS NULL OR owner = :owner::text) AND (:maker::text IS NULL OR token_id = :maker::text)
    AND (substr(schedule_id, 1, length(:start::text)) = :start::text OR strpos(key, :key::text) > 0)
ORDER BY row_id DESC LIMIT :limit""")
# The primary key.
_ENTRIES_BY_ROW = Statement(f"SELECT {_ENTRY} FROM schedules WHERE row_id = ANY(:row_ids::integers)")
# The unique key on schedule_id.
_ENTRIES_OF = Statement(f"SELECT {_ENTRY} FROM schedules WHERE schedule_id = ANY(:ids::texts)")
# The unique key on uid.
_ENTRIES_OF_UIDS = Statement(f"SELECT {_ENTRY} FROM schedules WHERE uid = ANY(:uids::texts)")
# The primary key, from its end.
_CONFIG_PLACES = Statement("""
SELECT places FROM config_revisions WHERE source = 'config' ORDER BY id DESC LIMIT 1""")
_CONFIG_SECTIONS = Statement("""
SELECT sections FROM config_revisions WHERE source = 'config' ORDER BY id DESC LIMIT 1""")
# The primary key of schedule_revisions.
_PUT_CAUSES = Statement("""
UPDATE schedule_revisions AS r SET cause = v.cause FROM batch AS v(cause, uid, revision)
WHERE r.uid = v.uid AND r.revision = v.revision AND r.cause IS NULL""")

# The times of a definition, an object by themselves; of one that release 0.2 wrote, the whole of it.
_TIMES = f"""
CASE WHEN substr(r.words, 1, {len(BEFORE_TIMES)}) = '{BEFORE_TIMES}'
    THEN substr(r.words, 1, strpos(r.words, '{BEHIND_TIMES}') - 1) || '}}' ELSE r.words END"""
COMING_AT_ONCE = 20_000
_HOLD = """
row_id, uid, schedule_id, owner, held_slot_at, coalesce(held_due_at, held_slot_at), held_reason, held_since, held_key"""
# idx_schedules_held and idx_schedules_release: a held slot waits for a key or for an instant, or for both.
_HOLDS_SLOT = """held_slot_at IS NOT NULL AND row_id IN (
    SELECT row_id FROM schedules WHERE held_key IS NOT NULL
    UNION ALL SELECT row_id FROM schedules WHERE release_at IS NOT NULL)"""
_HAS_SKIPS = "skip_count > 0 AND skip_last_at >= :since::instant AND skip_first_at < :until::instant"
_ANY = ScheduleFilter()
T = TypeVar("T")


class Catalogue(StorePart):
    """The declared schedules and policies; each method is one transaction."""

    def create(self, now: int, schedules: Sequence[Insertion], terms: Terms | None = None) -> list[State]:
        """Write new schedules, all or none; refuse an id that exists."""
        from everwhen.store.change import create_schedules

        return self._write(lambda tx: create_schedules(tx, now, schedules, terms))

    def _write(self, work: Callable[[Transaction], T]) -> T:
        return self._store.write(Lane.API, work, is_change=True)

    def change(
        self,
        now: int,
        schedule_id: str,
        decide: Change,
        *further: Change,
        remember: Remember | None = None,
        budget: Budget | None = None,
        terms: Terms | None = None,
    ) -> Decision:
        """Decide about one schedule and write the decision, with a new revision if its plan changed.

        Further decisions are made on the state that the previous one left, all in one transaction; the last one is
        returned. `remember` stores the answer to the request in the same transaction: a repeated request changes
        nothing and is refused. `budget` is that of the caller's token, where the first decision needs it. `terms`: a
        schedule that was over and starts anew must fit into what that token may have.
        """
        from everwhen.store.change import change_schedule, refuse_revival_beyond

        def work(tx: Transaction) -> Decision:
            first = change_schedule(tx, now, schedule_id, decide, remember, budget=budget, terms=terms)
            decisions = [first]
            decisions += [change_schedule(tx, now, schedule_id, each) for each in further]
            if terms is not None:
                refuse_revival_beyond(terms, tx, decisions)
            return decisions[-1]

        return self._write(work)

    def local_queues(self) -> dict[str, bool]:
        """Return the queues of schedules whose function only one process has, each with whether one is active."""
        with self._store.look() as tx:
            return {queue: bool(is_active) for queue, is_active in tx.rows(_LOCAL_QUEUES)}

    def change_local(self, now: int, queues: Collection[str], decide: Change, *, limit: int) -> int:
        """Change active schedules of such queues, at most `limit`, in one transaction; return how many there were."""
        from everwhen.store.change import change_schedule

        def work(tx: Transaction) -> int:
            found = sorted(tx.column(_ACTIVE_IN_LOCAL, queues=sorted(queues), limit=limit))
            for schedule_id in found:
                with suppress(UnknownScheduleError):  # deleted a moment ago
                    change_schedule(tx, now, schedule_id, decide)
            return len(found)

        return self._write(work)

    def backfill(
        self,
        now: int,
        schedule_id: str,
        slots: Sequence[int],
        decide: Filling,
        *,
        budget: Budget | None = None,
        terms: Terms | None = None,
    ) -> Decision:
        """Decide about the slots that have no job yet, and write it; another caller may fill some of them first."""
        from everwhen.store.change import change_schedule, without_filled

        def fill(tx: Transaction) -> Decision:
            fill_free = without_filled(tx, slots, decide)
            return change_schedule(tx, now, schedule_id, fill_free, budget=budget, terms=terms)

        return self._write(fill)

    def cancel_orphan(self, now: int, job_id: str) -> None:
        """Cancel an outstanding job whose schedule is deleted."""
        from everwhen.store.change import cancel_job_of_nobody

        self._store.write(Lane.API, lambda tx: cancel_job_of_nobody(tx, now, job_id))

    def delete(self, now: int, schedule_id: str, decide: Change) -> None:
        """Decide the end of a schedule and remove its row; the ledger stays."""
        from everwhen.store.change import delete_schedule

        self._write(lambda tx: delete_schedule(tx, now, schedule_id, decide))

    def get(self, schedule_id: str) -> Schedule | None:
        """Return one schedule as it is now."""
        with self._store.read() as tx:
            return load_schedule(tx, schedule_id)

    def entry(self, schedule_id: str) -> Entry | None:
        """Return one schedule as listings show it."""
        with self._store.read() as tx:
            found = _entries(tx, tx.rows(_ENTRY_BY_ID, id=schedule_id))
            return found[0] if found else None

    def id_of_key(self, key: str) -> str | None:
        """Return the id of the schedule that was created under a caller's own key."""
        with self._store.read() as tx:
            return tx.text(_ID_OF_KEY, key=key)

    def names_of(self, schedule_id: str) -> ScheduleNames | None:
        """Return the names of the schedule with this id or uid."""
        with self._store.read() as tx:
            found = tx.many(ScheduleNames._make, _NAMES_OF_ID, id=schedule_id)
            return found[0] if found else None

    def called(
        self, name: str, own_key: str, *, owner: str | None, maker: str | None, limit: int
    ) -> list[ScheduleNames]:
        """Return the schedules with this name or key, those with the caller's own key first.

        `owner` and `maker` (the token that created a schedule) restrict them; None: all.
        """
        with self._store.read() as tx:
            given = {"name": name, "own": own_key, "tail": f"/{name}", "owner": owner, "maker": maker}
            return tx.many(ScheduleNames._make, _CALLED, limit=limit, **given)

    def beginning(
        self, start: str, *, owner: str | None, maker: str | None, limit: int
    ) -> list[ScheduleNames]:
        """Return schedules whose id or key begins with a text, newest first."""
        with self._store.read() as tx:
            given = {"start": start, "key": f"/{start}", "owner": owner, "maker": maker, "limit": limit}
            return tx.many(ScheduleNames._make, _BEGINNING, **given)

    def count_of_token(self, token_id: str) -> int:
        """Return how many schedules of a token are neither done nor dead."""
        with self._store.read() as tx:
            return int(tx.value(COUNT_OF_TOKEN, token_id=token_id))

    def counts_of_tokens(self, token_ids: Sequence[str]) -> dict[str, int]:
        """Return the same for several tokens, by token; one without a schedule is left out."""
        with self._store.read() as tx:
            return dict(tx.rows(_COUNTS_OF_TOKENS, ids=list(token_ids))) if token_ids else {}

    def release_key(self, key: str) -> bool:
        """Take the key from a schedule that is over, so that another may have it; False when none has to give it."""
        return self._store.write(Lane.API, lambda tx: tx.run(_RELEASE_KEY, key=key) > 0)

    def entries(
        self, wanted: ScheduleFilter, *, limit: int, before: int | None = None, offset: int = 0
    ) -> list[Entry]:
        """Return schedules, newest first; `before` is the row_id of the last entry of the previous page."""
        where, values = filtered(wanted)
        if before is not None:
            where, values = f"{where} AND row_id < :before", {**values, "before": before}
        # The primary key backwards; of an owner, a group or a status idx_schedules_owner, _group, _status.
        query = f"""
SELECT {_ENTRY} FROM schedules WHERE {where} ORDER BY row_id DESC LIMIT :limit OFFSET :offset"""
        with self._store.read() as tx:
            return _entries(tx, tx.rows(composed(query), **values, limit=limit, offset=offset))

    def ordered_entries(
        self,
        wanted: ScheduleFilter,
        order: ScheduleOrder,
        *,
        is_descending: bool = False,
        limit: int,
        offset: int = 0,
    ) -> list[Entry]:
        """Return schedules in another order than that of their creation."""
        where, values = filtered(wanted)
        # A pass over schedules, of which the database keeps the first ones while it reads. Whole rows would be copied
        # while they are compared, which takes longer than the pass: they are read when it is known which are shown.
        query = f"""
SELECT row_id FROM schedules WHERE {where}
ORDER BY {ordered(order, is_descending=is_descending)} LIMIT :limit OFFSET :offset"""
        with self._store.read() as tx:
            row_ids = tx.column(composed(query), **values, limit=limit, offset=offset)
            found = _entries(tx, tx.rows(_ENTRIES_BY_ROW, row_ids=row_ids)) if row_ids else []
        by_row = {entry.schedule.state.row_id: entry for entry in found}
        return [by_row[row_id] for row_id in row_ids]

    def entries_of(self, schedule_ids: Sequence[str]) -> list[Entry]:
        """Return those of these schedules that exist."""
        with self._store.read() as tx:
            return _entries(tx, tx.rows(_ENTRIES_OF, ids=list(schedule_ids)))

    def entries_of_uids(self, uids: Sequence[str]) -> list[Entry]:
        """Return those of these schedules that exist, in this order."""
        with self._store.read() as tx:
            entries = _entries(tx, tx.rows(_ENTRIES_OF_UIDS, uids=list(uids))) if uids else []
        by_uid = {entry.schedule.state.uid: entry for entry in entries}
        return [by_uid[uid] for uid in uids if uid in by_uid]

    def needing_attention(self, wanted: ScheduleFilter, *, most: int) -> set[str]:
        """Return the uids of matching schedules that run, hold a slot or whose last slot failed, so many at most."""
        where, values = filtered(wanted)
        # A pass over schedules.
        query = f"""
SELECT uid FROM schedules WHERE {where} AND (failed_slots > 0 OR running_jobs > 0 OR held_slot_at IS NOT NULL)
LIMIT :most"""
        with self._store.read() as tx:
            return set(tx.column(composed(query), **values, most=most))

    def uids(self, wanted: ScheduleFilter, *, most: int) -> set[str]:
        """Return the uids of the schedules that match, so many at most."""
        where, values = filtered(wanted)
        query = f"SELECT uid FROM schedules WHERE {where} LIMIT :most"
        with self._store.read() as tx:
            return set(tx.column(composed(query), **values, most=most))

    def facets(
        self, wanted: ScheduleFilter, facets: Sequence[Facet], *, most: int
    ) -> dict[Facet, dict[str, int]]:
        """Count the matching schedules by the values of each of these columns, the most frequent first.

        Null is empty text. Beside the status of schedules stands how many fail, run a job, and hold a slot.
        """
        where, values = filtered(wanted)
        query = facet_query(where, facets)  # a pass over schedules
        with self._store.read() as tx:
            rows = tx.rows(composed(query), **values, most=most)
        found: dict[Facet, dict[str, int]] = {facet: {} for facet in facets}
        for facet, value, number in rows:
            found[facet][value] = number
        return found

    def holds(self, wanted: ScheduleFilter, *, limit: int) -> list[Hold]:
        """Return the slots that matching schedules hold, those of the schedules that are due soonest."""
        where, values = filtered(wanted)
        query = f"""
SELECT {_HOLD} FROM schedules WHERE {where} AND {_HOLDS_SLOT}
ORDER BY {ordered("next_run_at", is_descending=False)} LIMIT :limit"""
        with self._store.read() as tx:
            return tx.many(Hold._make, composed(query), **values, limit=limit)

    def hold_number(self, wanted: ScheduleFilter, *, due_before: int) -> int:
        """Return how many matching schedules hold a slot that was due by then."""
        where, values = filtered(wanted)
        query = f"""
SELECT count(*) FROM schedules WHERE {where} AND {_HOLDS_SLOT}
    AND coalesce(held_due_at, held_slot_at) < :before::instant"""
        with self._store.read() as tx:
            return int(tx.value(composed(query), **values, before=due_before))

    def gathered_skips(
        self, wanted: ScheduleFilter, since: int, until: int, *, limit: int
    ) -> list[GatheredSkips]:
        """Return the skips that are counted on the rows of matching schedules, where some lie in the span."""
        where, values = filtered(wanted)
        # A pass over schedules.
        query = f"""
SELECT {", ".join(GatheredSkips._fields)} FROM schedules WHERE {where} AND {_HAS_SKIPS} LIMIT :limit"""
        with self._store.read() as tx:
            return tx.many(
                GatheredSkips._make, composed(query), **values, since=since, until=until, limit=limit
            )

    def gathered_number(self, wanted: ScheduleFilter, since: int, until: int) -> int:
        """Return how many schedules `gathered_skips` is about."""
        where, values = filtered(wanted)
        query = f"SELECT count(*) FROM schedules WHERE {where} AND {_HAS_SKIPS}"
        with self._store.read() as tx:
            return int(tx.value(composed(query), **values, since=since, until=until))

    def count(self, wanted: ScheduleFilter, *, most: int) -> int:
        """Return how many schedules match; counting stops at `most`."""
        where, values = filtered(wanted)
        query = f"SELECT count(*) FROM (SELECT 1 FROM schedules WHERE {where} LIMIT :most) AS found"
        with self._store.read() as tx:
            return int(tx.value(composed(query), **values, most=most))

    def soonest(
        self, count: int, wanted: ScheduleFilter = _ANY, *, before: int | None = None
    ) -> list[Schedule]:
        """Return the schedules that are due soonest, of those that match; `before`: only those that are due by then."""
        where, values = filtered(wanted)
        if before is not None:
            where, values = f"next_run_at < :before::instant AND {where}", {**values, "before": before}
        # idx_schedules_next_run, from its front.
        query = f"""
SELECT {STATE} FROM schedules WHERE enabled AND next_run_at IS NOT NULL AND {where}
ORDER BY next_run_at LIMIT :limit"""
        with self._store.read() as tx:
            return schedules_of(tx, tx.many(State._make, composed(query), **values, limit=count))

    def coming(
        self, wanted: ScheduleFilter = _ANY, *, before: int, at_once: int = COMING_AT_ONCE
    ) -> Iterator[list[ComingRow]]:
        """Yield the schedules that are due before an instant, of those that match, in portions, in one snapshot."""
        where, values = filtered(wanted)
        # The primary key, in portions; then that of schedule_revisions, once for each.
        query = composed(f"""
SELECT s.row_id, s.uid, s.schedule_id, s.anchor_at, s.next_slot_at, s.next_run_at, {_TIMES} FROM (
    SELECT row_id, uid, schedule_id, anchor_at, next_slot_at, next_run_at, revision FROM schedules
    WHERE enabled AND next_run_at < :before::instant AND {where} AND row_id > :after
    ORDER BY row_id LIMIT :limit) AS s
JOIN schedule_revisions r ON r.uid = s.uid AND r.revision = s.revision""")
        after = 0
        with self._store.read() as tx:
            while True:
                rows: list[ComingRow] = tx.rows(query, **values, before=before, after=after, limit=at_once)
                yield rows
                if len(rows) < at_once:
                    return
                after = max(row_id for row_id, _, _, _, _, _, _ in rows)

    def fired_since(self, wanted: ScheduleFilter, since: int, *, before: int) -> list[tuple[str, str]]:
        """Return the matching schedules, by uid and id, that fired since an instant and are not due before another."""
        where, values = filtered(wanted)
        # A pass over schedules.
        query = f"""
SELECT uid, schedule_id FROM schedules
WHERE {where} AND last_fired_at >= :since::instant
    AND (NOT enabled OR next_run_at IS NULL OR next_run_at >= :before::instant)"""
        with self._store.read() as tx:
            return tx.rows(composed(query), **values, since=since, before=before)

    def resuming(
        self, wanted: ScheduleFilter = _ANY, *, before: int, at_once: int = COMING_AT_ONCE
    ) -> Iterator[list[Schedule]]:
        """Yield the matching schedules that are paused, and go on by themselves before an instant, in portions."""
        where, values = filtered(wanted)
        # idx_schedules_resume, from its front, once for each portion.
        query = composed(f"""
SELECT {STATE} FROM schedules WHERE resume_at IS NOT NULL AND resume_at < :before::instant AND status = 'paused'
    AND {where} AND row_id > :after ORDER BY row_id LIMIT :limit""")
        after = 0
        with self._store.read() as tx:
            while True:
                states = tx.many(State._make, query, **values, before=before, after=after, limit=at_once)
                yield schedules_of(tx, states)
                if len(states) < at_once:
                    return
                after = states[-1].row_id

    def of_uids(self, uids: Collection[str]) -> list[Schedule]:
        """Return those of these schedules that exist."""
        if not uids:
            return []
        with self._store.read() as tx:
            return schedules_of(tx, tx.many(State._make, _OF_UIDS, uids=uids))

    def of_source(self, source: str) -> list[Schedule]:
        """Return the schedules of a source: `config`, `api`, `python` (added), `python:{name}` (declared)."""
        with self._store.read() as tx:
            return schedules_of(tx, tx.many(State._make, _OF_SOURCE, source=source))

    def from_before(self, source: str, *, only_groups: bool = False) -> list[Schedule]:
        """Return schedules of a source, or its group schedules only, whose newest revision an earlier release wrote."""
        with self._store.read() as tx:
            states = tx.many(State._make, _FROM_BEFORE, source=source, only_groups=only_groups)
            return schedules_of(tx, states)

    def keep_as_they_are(self, schedules: Sequence[Schedule]) -> None:
        """Mark the newest revisions of these schedules as up to date: `from_before` no longer returns them."""
        states = [schedule.state for schedule in schedules]
        causes = [("created" if s.revision == 1 else "edited", s.uid, s.revision) for s in states]
        self._store.write(Lane.API, lambda tx: tx.run(_PUT_CAUSES, batch=causes))

    def waiting_since(self, before: int, *, limit: int) -> list[tuple[str, int]]:
        """Return the schedules that have waited for approval since an instant or longer, each with since when."""
        with self._store.read() as tx:
            return tx.many(lambda row: (row[0], row[1]), _WAITING_SINCE, before=before, limit=limit)

    def over_since(self, before: int, *, after: int, limit: int) -> list[Schedule]:
        """Return schedules of tokens that are done or dead since then or longer, from behind the row `after` on."""
        with self._store.read() as tx:
            return schedules_of(tx, tx.many(State._make, _OVER, before=before, after=after, limit=limit))

    def due_to_end(self, now: int) -> tuple[list[str], list[str]]:
        """Return the ids of paused schedules whose pause ends by now, and the keys of budgets that refill by now."""
        with self._store.look() as tx:
            rows = tx.rows(_DUE_TO_RESUME, now=now)
        return [row[0] for row in rows if row[0] is not None], [row[1] for row in rows if row[1] is not None]

    def refill_budget(self, now: int, key: str) -> None:
        """Record the windows of a budget that are over and that were announced."""
        from everwhen.store.system import refill_budget

        self._store.write(Lane.SETTLE, lambda tx: refill_budget(tx, now, key))

    def give_back_leftovers(self, now: int) -> int:
        """Give back what jobs have reserved that a process of release 0.1 ended; return how many budgets changed."""
        from everwhen.store import reservations

        with self._store.read() as tx:
            keys = reservations.budgets_with_leftovers(tx)
            job_ids = reservations.jobs_not_settled(tx) if keys else []
        if not keys:
            return 0
        return self._store.write(
            Lane.RETENTION, lambda tx: reservations.give_back_leftovers(tx, now, keys, job_ids)
        )

    def shared_of(self, *schedules: Schedule) -> Shared:
        """Return the current limits and breakers of these schedules."""
        shared = Shared()
        with self._store.read() as tx:
            add_shared(tx, shared, schedules)
        return shared

    def shared_by(self, keys: Sequence[str]) -> Shared:
        """Return the counts of budgets."""
        with self._store.read() as tx:
            return Shared(tx.limits(keys), spendings=tx.spendings(keys)) if keys else Shared()

    def forget_last_firings(self, now: int) -> int:
        """Delete the records that keep nothing from firing any more; return how many there were."""
        from everwhen.store.places import forget_over

        return self._store.write(Lane.RETENTION, lambda tx: forget_over(tx, now))

    def spendings(self) -> list[Spending]:
        """Return the sums of all budgets that were ever charged."""
        return self._many(spending_of, SPENDINGS)

    def states(self, wanted: ScheduleFilter, *, limit: int, after: str | None = None) -> list[State]:
        """Return the states of schedules in order of id, starting behind `after`."""
        with self._store.read() as tx:
            return tx.list_states(given_columns(wanted), limit=limit, after=after or "")

    def reset_breaker(self, now: int, key: str, actor: str | None = None) -> bool:
        """Close a breaker on request; False when it was closed already."""
        from everwhen.store.system import close_breaker

        return self._store.write(Lane.API, lambda tx: close_breaker(tx, now, key, actor))

    def policies(self, source: str | None = None) -> list[QuietHoursPolicy]:
        """Return every quiet-hours policy, or those of a source."""
        with self._store.read() as tx:
            return [policy_of(policy_id, json.loads(fields)) for policy_id, fields in tx.policies(source)]

    def config_revision(self, source: str = "config") -> tuple[int, str]:
        """Return the number and the digest of the last revision of a source; 0 and an empty string when it has none."""
        with self._store.read() as tx:
            return tx.config_revision(source)

    def config_places(self) -> dict[str, str]:
        """Return where each schedule of the current configuration is declared: file and line by id."""
        with self._store.read() as tx:
            return dict(json.loads(tx.text(_CONFIG_PLACES) or "{}"))

    def config_sections(self) -> dict[str, str] | None:
        """Return the entries of the current configuration that declare no schedules; None where none is recorded."""
        with self._store.read() as tx:
            found = tx.text(_CONFIG_SECTIONS)
        return None if found is None else dict(json.loads(found))

    def reconcile(self, now: int, changes: Reconciliation) -> bool:
        """Write a configuration, all of it or nothing; False when another one was written since `based_on`."""
        from everwhen.store.change import reconcile

        is_written = self._write(lambda tx: reconcile(tx, now, changes))
        if is_written:
            new = [each for each in changes.created if each.plan.quiet is None]
            self._store.plans.remember(
                {(each.creation.state.uid, each.creation.state.revision): each.plan for each in new}
            )
        return is_written

    def add_policy(self, now: int, policy: QuietHoursPolicy) -> None:
        """Write a new policy; refuse an id that is taken."""
        from everwhen.store.system import add_policy

        self._store.write(Lane.API, lambda tx: add_policy(tx, now, policy))

    def change_policy(
        self, now: int, policy_id: str, change: Callable[[QuietHoursPolicy], QuietHoursPolicy]
    ) -> QuietHoursPolicy:
        """Replace a policy that the API made by the result of `change`; refuse one of the configuration file."""
        from everwhen.store.system import change_policy

        return self._store.write(Lane.API, lambda tx: change_policy(tx, now, policy_id, change))

    def delete_own_policy(self, policy_id: str) -> None:
        """Remove a policy that the API made and that no schedule uses."""
        from everwhen.store.system import remove_own_policy

        self._store.write(Lane.API, lambda tx: remove_own_policy(tx, policy_id))

    def system_paused_at(self) -> int | None:
        """Return since when the system is paused; None when it is not."""
        with self._store.read() as tx:
            return system_paused_at(tx)

    def plugin_state(self, plugin: str) -> dict[str, Any]:
        """Return everything that a plugin has stored; empty when it never stored anything."""
        with self._store.read() as tx:
            return dict(json.loads(tx.plugin_states([plugin]).get(plugin, "{}")))

    def set_system_paused(self, now: int, is_paused: bool, actor: str | None = None) -> None:
        """Set the stored system switch: nothing fires or is claimed while the system is paused."""
        from everwhen.store.system import switch_system

        self._store.write(Lane.API, lambda tx: switch_system(tx, now, is_paused, actor))


def _entries(tx: Snapshot, rows: Sequence[tuple[Any, ...]]) -> list[Entry]:
    size = len(State._fields)
    states = [State._make(row[:size]) for row in rows]
    pauses = pauses_of(tx, states)
    return [
        Entry(schedule, *row[size:])._replace(pause=pauses.get(schedule.state.uid))
        for schedule, row in zip(schedules_of(tx, states), rows, strict=True)
    ]
