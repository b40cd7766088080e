"""The places of a token's schedules: `max_schedules` of them, and with `min_interval` one firing of each in that time.

A schedule that is done, dead or deleted leaves its place at once, and its last firing keeps it from being used again
too soon: what is created or armed anew in its place takes the record over. A run of an agent replaces whatever ended
last; other tokens do so only where no place was free all the time.

All of it happens under the lock of the `limits` row of the token's budget, which also keeps two requests at once from
taking the same place. Runs have no row of their own in `tokens` that could be locked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from everwhen.errors import QuotaError
from everwhen.model.changes import Terms
from everwhen.model.limits import LastFiring
from everwhen.model.schedule import Schedule
from everwhen.store.catalogue import COUNT_OF_TOKEN
from everwhen.store.commit import PUT_LAST_FIRINGS
from everwhen.store.dialect import Statement
from everwhen.store.transaction import Transaction

OVER = ("done", "dead")
# idx_last_firings_free from its end; the unique key on schedules' uid.
_LEFT = Statement(f"""
SELECT {", ".join(f"f.{name}" for name in LastFiring._fields)}
FROM last_firings f LEFT JOIN schedules s ON s.uid = f.uid
WHERE f.key = :key::text AND f.free_at > :now::instant AND NOT f.is_replaced
    AND (s.uid IS NULL OR s.status IN ('done', 'dead'))
ORDER BY f.free_at DESC LIMIT :limit""")
# idx_last_firings_over
_FORGET_OVER = Statement("DELETE FROM last_firings WHERE free_at <= :now::instant")
_MOST_LEFT = 1_000


def take_places(tx: Transaction, terms: Terms, uids: Sequence[str], now: int) -> Mapping[str, int]:
    """Give new schedules their places; return until when those may not fire that replace others. Raise QuotaError."""
    live = _refuse_beyond_quota(tx, terms, len(uids))
    return _take_over(tx, terms, uids, live, now) if terms.is_spaced else {}


def take_place_again(tx: Transaction, terms: Terms, schedule: Schedule, now: int) -> None:
    """Give a schedule that is over a place before it fires again, whether it is armed anew or triggered."""
    uid = schedule.state.uid
    if not terms.is_spaced or schedule.state.status not in OVER:
        return
    live = int(tx.value(COUNT_OF_TOKEN, token_id=terms.token_id))
    own = tx.last_firings([terms.key], [uid]).get((terms.key, uid))
    if own is not None and own.free_at > now and not own.is_replaced:
        return
    is_in_place = bool(_take_over(tx, terms, [uid], live, now))
    if terms.is_of_run and not is_in_place:
        _refuse_beyond_quota(tx, terms, 1)


def refuse_beyond_quota(tx: Transaction, terms: Terms) -> None:
    """Refuse a schedule that is counted already, and was not before."""
    _refuse_beyond_quota(tx, terms, 0)


def _refuse_beyond_quota(tx: Transaction, terms: Terms, count: int) -> int:
    if terms.max_schedules is None:
        return 0
    live = int(tx.value(COUNT_OF_TOKEN, token_id=terms.token_id))
    if live + count > terms.max_schedules:
        raise QuotaError(terms.max_schedules)
    return live


def _take_over(tx: Transaction, terms: Terms, uids: Sequence[str], live: int, now: int) -> Mapping[str, int]:
    if terms.max_schedules is None and not terms.is_of_run:
        return {}
    left = tx.many(LastFiring._make, _LEFT, key=terms.key, now=now, limit=_MOST_LEFT)
    left = [one for one in left if one.uid not in uids]
    if not terms.is_of_run:
        free = (terms.max_schedules or 0) - live - len(left)
        uids = uids[max(free, 0) :]
    taken = list(zip(left, uids, strict=False))
    if not taken:
        return {}
    known = tx.last_firings([terms.key], uids)
    until = {uid: max(one.free_at, known.get((terms.key, uid), one).free_at) for one, uid in taken}
    rows = [one._replace(is_replaced=True) for one, _ in taken]
    tx.insert(PUT_LAST_FIRINGS, rows + [LastFiring(terms.key, uid, at) for uid, at in until.items()])
    return until


def forget_over(tx: Transaction, now: int) -> int:
    """Delete the records that keep nothing from firing any more."""
    return tx.run(_FORGET_OVER, now=now)
