"""Pings: starts and ends of jobs become messages of the outbox, for schedules with `ping`.

They are read from the event feed, by a cursor of their own that one node holds, and written in the transaction that
moves it. A ping never delays a job, and never fails one.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable

from everwhen.decide.pings import is_lost_for_good, is_pinged, next_retry_of, ping_of
from everwhen.errors import SchedulerError
from everwhen.model.alerts import AlertDelivery
from everwhen.model.event_cursor import EventCursor
from everwhen.model.events import Derived, Event
from everwhen.model.node import HOLD
from everwhen.model.schedule import Definition
from everwhen.model.serialize import definition_in
from everwhen.operations.event_feed import facts_of
from everwhen.operations.listening import FeedPosition, position_now, position_of, steps_after
from everwhen.runtime import Runtime
from everwhen.store.opened import store_of

CURSOR = "everwhen:pings"
PORTION = 200
RENEW_EVERY = 20.0  # seconds
TAKE_EVERY = 2.0


class Pinger:
    """The pings of one node. `step` is for one thread."""

    def __init__(self, runtime: Runtime, node: Callable[[], str]) -> None:
        self._runtime, self._clock, self._node = runtime, runtime.clock, node
        self._cursor: EventCursor | None = None
        self._position = FeedPosition(0, 0, None)
        self._written = self._asked = float("-inf")
        self._may_be_left = True  # a cursor of earlier pings
        self.is_idle = False  # the last step found that no schedule has a watcher

    @property
    def is_wanted(self) -> bool:
        return store_of(self._runtime).alerts.has_pings()

    @property
    def is_held(self) -> bool:
        """Return whether this node holds the cursor, and so sends pings."""
        return self._cursor is not None

    def begin(self) -> None:
        """Create the cursor, where a schedule has a watcher: from now on nothing is missed."""
        cursors = store_of(self._runtime).event_cursors
        if self.is_wanted and cursors.find(CURSOR) is None:
            position = position_now(self._runtime, follows=True)
            cursors.create(self._clock.now(), position.stored_in(EventCursor(CURSOR, 0, 0)))

    def step(self) -> bool:
        """Write the pings of one portion of the feed; return True when there may be more."""
        self.is_idle = False
        try:
            return self._step()
        except BaseException:
            self._cursor = None  # the position in memory may be ahead of the one on record
            raise

    def _step(self) -> bool:
        cursor = self._cursor or self._take()
        if cursor is None:
            return False
        steps = steps_after(self._runtime, self._position, limit=PORTION)
        deliveries = self._deliveries([facts_of(step.entry) for step in steps if step.entry is not None])
        for step in steps:
            self._position.move_behind(step)
        if steps or self._clock.monotonic() - self._written > RENEW_EVERY:
            now = self._clock.now()
            moved = self._position.stored_in(cursor)._replace(held_until=now + HOLD)
            self._cursor = store_of(self._runtime).alerts.take_pings(now, moved, deliveries)
            self._written = self._clock.monotonic()
        return len(steps) >= PORTION and self._cursor is not None

    def release(self) -> None:
        if self._cursor is not None:
            now = self._clock.now()
            over = self._position.stored_in(self._cursor)._replace(node=None, held_until=None)
            store_of(self._runtime).event_cursors.save(now, over)
            self._cursor = None

    def _take(self) -> EventCursor | None:
        moment, cursors = self._clock.monotonic(), store_of(self._runtime).event_cursors
        if moment - self._asked < TAKE_EVERY:
            return None
        self._asked, now = moment, self._clock.now()
        if not self.is_wanted:  # one look at an empty index
            self._forget()
            self.is_idle = not self._may_be_left
            return None
        if cursors.find(CURSOR) is None:
            self.begin()
        self._cursor = cursors.take(now, CURSOR, node=self._node(), held_until=now + HOLD)
        if self._cursor is not None:
            self._position = position_of(self._runtime, self._cursor, follows=True)
            self._may_be_left = True
        return self._cursor

    def _forget(self) -> None:
        """Delete the cursor of pings that are gone: those to come report no run of the time between."""
        if not self._may_be_left:
            return
        cursors, now = store_of(self._runtime).event_cursors, self._clock.now()
        is_left = cursors.find(CURSOR) is not None
        self._may_be_left = is_left and cursors.forget(now, CURSOR) is not None  # its node still moves it

    def _deliveries(self, heard: list[Event | Derived]) -> list[AlertDelivery]:
        wanted = [facts for facts in heard if is_pinged(facts)]
        watched = store_of(self._runtime).alerts.pinged({str(facts.uid) for facts in wanted})
        found: list[AlertDelivery] = []
        for facts in wanted:
            source, words = watched.get(str(facts.uid), ("", ""))
            definition = _definition(words)
            if definition is not None and definition.ping_url is not None:
                found += self._delivery(facts, definition, source)
        return found

    def _delivery(self, facts: Event | Derived, definition: Definition, source: str) -> list[AlertDelivery]:
        ledger, job_id = store_of(self._runtime).ledger, facts.job_id
        lost = ledger.job(str(job_id)) if facts.type == "job.lost" else None
        if facts.type == "job.lost" and (lost is None or not lost.is_own):
            return []
        is_over = job_id is not None and facts.type != "job.started"
        is_retried = is_over and ledger.job(next_retry_of(str(job_id))) is not None
        output = b"".join(piece.data for piece in ledger.output(str(job_id))) if is_over else b""
        if lost is not None:
            is_retried |= not is_lost_for_good(facts, lost)
            facts = facts._replace(detail={"error": lost.error, **facts.detail})
        ping = ping_of(facts, definition, is_retried=is_retried, output=output)
        if ping is None:
            return []
        body = {
            "url": definition.ping_url,
            "source": source,
            "path": ping.path,
            "query": ping.query,
            "text": ping.text,
            "json": ping.json,
            "title": f"ping {ping.path or ping.query.get('status') or 'success'} of {facts.schedule_id}",
        }
        now = self._clock.now()
        return [
            AlertDelivery(
                0,
                str(uuid.uuid4()),
                f"ping:{facts.uid}",
                "ping",
                None,
                owner=facts.owner,
                body=json.dumps(body),
                created_at=now,
                next_at=now,
            )
        ]


def _definition(words: str) -> Definition | None:
    if not words:
        return None
    try:
        return definition_in(words)
    except (SchedulerError, LookupError, TypeError, ValueError):  # of another release
        return None
