"""How schedules are called, their zones, and who paused them: from their rows, and from the record of deleted ones.

A schedule's revisions and the events that say when it was active stay until retention removes all that is on record of
it. So what is on record can always be named.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from everwhen.model.changes import Decision
from everwhen.model.events import Event
from everwhen.model.pause import Pause, actor_in, began_by, pause_of
from everwhen.model.queries import ScheduleLabel
from everwhen.model.schedule import State
from everwhen.store.dialect import Queries, Statement
from everwhen.store.schedule_filters import lowered
from everwhen.store.transaction import Snapshot, StorePart

# The unique key on uid.
_LABELS = Statement("SELECT uid, name, key, timezone FROM schedules WHERE uid = ANY(:uids::texts)")
# The primary key of schedule_revisions.
_LAST_REVISIONS = Statement("""
SELECT uid, words FROM schedule_revisions
WHERE (uid, revision) IN
    (SELECT uid, max(revision) FROM schedule_revisions WHERE uid = ANY(:uids::texts) GROUP BY uid)""")
# idx_audit_schedule: events without a slot are at one end of the part of each schedule.
_DELETIONS = Statement("""
SELECT uid, CAST(detail AS text) FROM audit_events
WHERE uid = ANY(:uids::texts) AND slot_at IS NULL AND type = 'schedule.deleted'""")
_PAUSE = "uid, at, reason, actor, CAST(detail AS text)"
_PAUSES = Statement(f"""
SELECT {_PAUSE} FROM audit_events WHERE id IN (
    SELECT max(id) FROM audit_events
    WHERE uid = ANY(:uids::texts) AND slot_at IS NULL AND type = 'schedule.paused' GROUP BY uid)""")
# The same for events of no schedule.
_SYSTEM_PAUSE = Statement(f"""
SELECT {_PAUSE} FROM audit_events WHERE uid IS NULL AND type = 'system.paused' ORDER BY id DESC LIMIT 1""")
# The primary key of tokens.
_TOKENS = Statement("SELECT token_id, name FROM tokens WHERE token_id = ANY(:ids::texts)")
# A pass over schedules, and two over revisions, with idx_audit_schedule: a person asks for them.
_NAMED = Statement("""
SELECT uid FROM schedules WHERE strpos(lower(name || '
' || schedule_id || '
' || coalesce(key, '')), :text::text) > 0 AND (:owner::text IS NULL OR owner = :owner::text) LIMIT :limit""")
_DELETED = Statement("""
SELECT uid, schedule_id, words FROM schedule_revisions
WHERE (strpos(lower(words), :json::text) > 0 OR strpos(lower(schedule_id), :text::text) > 0)
    AND uid NOT IN (SELECT uid FROM schedules) ORDER BY uid, revision""")
_DELETED_KEYS = Statement("""
SELECT e.uid, CAST(e.detail AS text) FROM schedule_revisions r
JOIN audit_events e ON e.uid = r.uid AND e.slot_at IS NULL AND e.type = 'schedule.deleted'
WHERE r.revision = 1 AND r.uid NOT IN (SELECT uid FROM schedules)
    AND (:owner::text IS NULL OR e.owner = :owner::text) AND (strpos(lower(CAST(e.detail AS text)), :json::text) > 0
    OR strpos(lower(CAST(e.detail AS text)), :text::text) > 0)""")
# The primary key of schedules.
_KEY_OF = Statement("SELECT key FROM schedules WHERE row_id = :row_id")


class Labels(StorePart):
    """Names, zones and pauses of schedules, on one database."""

    def of(self, uids: Collection[str]) -> dict[str, ScheduleLabel]:
        """Return how these schedules are called, by uid; of deleted ones as long as they are on record."""
        if not uids:
            return {}
        with self._store.read() as tx:
            labels = {row[0]: ScheduleLabel(*row) for row in tx.rows(_LABELS, uids=list(uids))}
            missing = [uid for uid in uids if uid not in labels]
            return labels | labels_on_record(tx, missing)

    def named(self, text: str, *, owner: str | None = None, limit: int) -> list[str]:
        """Return the uids of schedules, also deleted ones, whose id, key or name contains a text; so many at most.

        `owner`: only of this owner.
        """
        lower = lowered(text)
        with self._store.read() as tx:
            uids = dict.fromkeys(tx.column(_NAMED, text=lower, owner=owner, limit=limit))
            if len(uids) < limit:
                uids |= dict.fromkeys(_deleted_with(tx, lower, owner))
        return list(uids)[:limit]

    def pause(self, state: State) -> Pause | None:
        """Return the pause of a schedule; None: it is not paused."""
        with self._store.read() as tx:
            return pauses_of(tx, [state]).get(state.uid)

    def system_pause(self) -> Pause | None:
        """Return the last pause of the system, which may be over; None: it was never paused."""
        with self._store.read() as tx:
            event = tx.one(_pause, _SYSTEM_PAUSE)
            return None if event is None else began_by(event, _names(tx, [event]))

    def begun_by(self, event: Event) -> Pause:
        """Return the pause that an event began."""
        with self._store.read() as tx:
            return began_by(event, _names(tx, [event]))


def pauses_of(tx: Queries, states: Iterable[State]) -> dict[str, Pause]:
    """Return the pauses of those of these schedules that are paused, by uid."""
    paused = {state.uid: state for state in states if state.status == "paused"}
    if not paused:
        return {}
    events = {str(event.uid): event for event in tx.many(_pause, _PAUSES, uids=list(paused))}
    names = _names(tx, events.values())
    return {uid: pause_of(state, events.get(uid), names) for uid, state in paused.items()}


def begun_pauses(tx: Queries, uids: Collection[str]) -> dict[str, Pause]:
    """Return the last pause of each of these schedules, which may be over, by uid."""
    events = tx.many(_pause, _PAUSES, uids=list(uids)) if uids else []
    names = _names(tx, events)
    return {str(event.uid): began_by(event, names) for event in events}


def _names(tx: Queries, events: Iterable[Event]) -> dict[str, str]:
    """Return the names of the tokens that did this, by what is recorded of them."""
    actors = {actor for event in events if (actor := actor_in(event)) is not None}
    ids = [actor.removeprefix("token:") for actor in actors if actor.startswith("token:")]
    return {f"token:{token_id}": name for token_id, name in tx.rows(_TOKENS, ids=ids)} if ids else {}


def keeping_names(tx: Queries, decision: Decision) -> Decision:
    """Return the decision to delete a schedule, whose event keeps the name and the key: the row goes."""
    label = ScheduleLabel(
        decision.after.uid,
        decision.plan.definition.name,
        tx.text(_KEY_OF, row_id=decision.after.row_id),
        decision.plan.definition.zone.name,
    )
    names = {word: name for word, name in (("name", label.name), ("key", label.own_key)) if name}
    events = [
        event._replace(detail={**event.detail, **names}) if event.type == "schedule.deleted" else event
        for event in decision.events
    ]
    return decision._replace(events=events)


def labels_on_record(tx: Queries, uids: Collection[str]) -> dict[str, ScheduleLabel]:
    """Return how deleted schedules were called, by uid."""
    if not uids:
        return {}
    deletions = {uid: json.loads(detail) for uid, detail in tx.rows(_DELETIONS, uids=list(uids))}
    labels = {}
    for uid, words in tx.rows(_LAST_REVISIONS, uids=list(uids)):
        definition, kept = json.loads(words), deletions.get(uid, {})
        name = kept.get("name") or definition.get("name") or ""
        labels[uid] = ScheduleLabel(uid, name, kept.get("key"), definition.get("timezone") or "UTC")
    return labels


def _deleted_with(tx: Snapshot, lower: str, owner: str | None) -> list[str]:
    """Return the uids of deleted schedules: their last name or id, or the key that the deletion kept, has the text."""
    in_json = json.dumps(lower)[1:-1]  # as revisions hold it
    last = {
        uid: (schedule_id, words) for uid, schedule_id, words in tx.rows(_DELETED, text=lower, json=in_json)
    }
    found = []
    for uid, (schedule_id, words) in last.items():
        definition = json.loads(words)
        is_visible = owner is None or definition.get("owner") == owner
        if is_visible and lower in lowered(f"{definition.get('name') or ''}\n{schedule_id}"):
            found.append(uid)
    for uid, detail in tx.rows(_DELETED_KEYS, text=lower, json=in_json, owner=owner):
        kept = json.loads(detail)
        if lower in lowered(f"{kept.get('name') or ''}\n{kept.get('key') or ''}"):
            found.append(uid)
    return found


def _pause(row: Sequence[Any]) -> Event:
    uid, at, reason, actor, detail = row
    return Event("schedule.paused", at, uid=uid, reason=reason, actor=actor, detail=json.loads(detail))
