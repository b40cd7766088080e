"""Deliveries of events to webhooks: one node at a time reads the feed and sends, off the way of every slot.

The node holds a cursor of its own, whose lease fences what it writes; each webhook has its position. A round reads what
follows each position (those at the same place share one read), writes what webhooks want as one delivery each, and
sends what is due on threads. A webhook whose delivery has not arrived is not read for: a receiver that hangs costs one
attempt at a time, and its webhook stays where it is.

Receivers that fail may have half of the threads at the most, and so may those of one owner, so that the others get
theirs in time; the next thread is for the owner with the fewest.

A node that may not reach an address leaves the webhooks to another scheduler for a while: a program with its own
scheduler reaches public addresses only, and a node beside it may be allowed others.
"""

from __future__ import annotations

import json
import logging
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from everwhen.clock import Clock
from everwhen.engine.loop import CommitSleep, Wake, low_priority
from everwhen.errors import StoreError
from everwhen.model.alerts import Sent, pause_after_attempt
from everwhen.model.event_cursor import EventCursor
from everwhen.model.events import Event
from everwhen.model.node import HOLD, SILENT
from everwhen.model.webhooks import (
    MOST_BYTES,
    MOST_EVENTS,
    OFF_AFTER,
    OffReason,
    Webhook,
    WebhookDelivery,
    WebhookMove,
    rule_of_webhook,
    types_of,
)
from everwhen.operations.event_feed import FeedEntry, facts_of, names_of_events
from everwhen.operations.listening import FeedPosition, FeedStep, outstanding_jobs, position_of, steps_after
from everwhen.operations.webhooks import HEARD, follows
from everwhen.runtime import Changes, Runtime
from everwhen.store.opened import store_of
from everwhen.views.record import event_to_json
from everwhen.views.shape import Object
from everwhen.views.webhooks import delivery_text

CURSOR = "everwhen:webhooks"  # no listener of a program can have this name
PORTION = 1_000  # entries of the feed per round
RENEW_EVERY = 20.0  # seconds
WRITE_EVERY = 5.0  # seconds after which positions that have moved are written
TAKE_EVERY = 2.0
LOOK_EVERY = 1.0
SHORTEST_REST, LONGEST_REST = 0.05, 0.25  # seconds between two rounds: at most half of the time is spent here
LONGEST_READ = 0.05  # seconds of one round
MOST_AT_ONCE = 16  # deliveries under way
MOST_STARTED = 2  # of them per round: those that hang do not all end at the same moment either
MOST_FAILING = 8  # of them to receivers that failed before
MOST_OF_OWNER = 8  # of them to receivers of one owner
GIVE_WAY_FOR = 60.0
LONGEST_ERROR = 500
LAST_DELIVERIES = 1.0  # seconds
LONGEST_SHARED = 1_000  # open jobs of a position that is compared with others

log = logging.getLogger("everwhen")

Post = Callable[[WebhookDelivery, int], Sent]
"""Send a delivery, signed with this time; it blocks for ten seconds at the most."""


@dataclass(slots=True)
class _WebhookReader:
    """How far a webhook has been read for, and what it wants."""

    on: str
    types: frozenset[str]
    position: FeedPosition
    has_moved: bool = False


class WebhookSender:
    """The webhooks of one node. `step` and `release` are for one thread.

    `is_threaded`: deliveries are sent on threads; a test sends them itself.
    """

    def __init__(
        self,
        runtime: Runtime,
        post: Post,
        *,
        node: Callable[[], str] = lambda: "",
        is_threaded: bool = True,
        changes: Changes | None = None,
    ) -> None:
        self._runtime, self._post, self.node = runtime, post, node
        self._clock: Clock = runtime.clock
        self._is_threaded = is_threaded
        self._cursor: EventCursor | None = None  # while this node holds it
        self._readers: dict[str, _WebhookReader] = {}
        self._failing: set[str] = set()  # of those under way
        self._under_way: dict[str, str | None] = {}  # the owner of each webhook that is sent to
        self._turns: dict[str, int] = {}  # by webhook: when it was read for last
        self._turn = 0
        self._written = self._asked = self._rests_until = float("-inf")
        self._was_forbidden = False  # an address, since the last round
        self._is_idle = False  # the last step found no webhook
        self.wake = Wake()
        self._sleep = CommitSleep(self.wake, changes)
        self._rest = threading.Event()

    def serve(self) -> None:
        """Do one round, and rest."""
        began = self._clock.monotonic()
        self._sleep.begin()
        if not self.step():
            self._sleep.sleep(LOOK_EVERY, is_idle=self._is_idle)
            return
        self._rest.wait(min(max(SHORTEST_REST, self._clock.monotonic() - began), LONGEST_REST))

    def step(self) -> bool:
        """Read, write deliveries, and send what is due; return True when there may be more to read."""
        try:
            return self._step()
        except BaseException:
            self._lose()  # positions in memory may be ahead of those on record
            raise

    def _step(self) -> bool:
        self._is_idle = False
        if self._was_forbidden:
            self._was_forbidden = False
            self._give_way()
        cursor = self._cursor or self._take()
        if cursor is None:
            return False
        store, now = store_of(self._runtime), self._clock.now()
        active = store.webhooks.active(now)
        for one in active:
            if not one.is_permitted:
                self._switch_off(one.webhook, "token", "its token was revoked, or has expired")
        webhooks = [one.webhook for one in active if one.is_permitted]
        self._forget({webhook.webhook_id for webhook in webhooks})
        with low_priority():
            has_more = self._read(cursor, webhooks)
        if self._cursor is not None:
            due = webhooks if not has_more else [one.webhook for one in store.webhooks.active(now)]
            has_more |= self._send_due(due)
        return has_more

    def release(self) -> None:
        """Give the cursor up: another node may continue at once. What is under way gets a moment to be recorded."""
        deadline = self._clock.monotonic() + LAST_DELIVERIES
        while self._under_way and (left := deadline - self._clock.monotonic()) > 0:
            self.wake.wait(left)
        if self._cursor is not None:
            over = self._cursor._replace(node=None, held_until=None)
            self._keep(over, [self._move(key, one) for key, one in self._readers.items() if one.has_moved])
        self._lose()

    # -- the lease --

    def _take(self) -> EventCursor | None:
        moment = self._clock.monotonic()
        if moment - self._asked < TAKE_EVERY or moment < self._rests_until:
            return None
        self._asked = moment
        store, now = store_of(self._runtime), self._clock.now()
        if not store.webhooks.has_any():
            self._is_idle = True
            return None
        if store.event_cursors.find(CURSOR) is None:
            store.event_cursors.create(now, EventCursor(CURSOR, 0, 0))
        self._readers.clear()
        self._cursor = store.event_cursors.take(now, CURSOR, node=self.node(), held_until=now + HOLD)
        self._written = moment
        return self._cursor

    def _give_way(self) -> None:
        """Give the cursor up for a while, if there is another scheduler that may take it."""
        now = self._clock.now()
        others = (one for one in store_of(self._runtime).upkeep.nodes() if one.node != self.node())
        if any(one.is_scheduler and one.is_alive and now - one.heartbeat_at < SILENT for one in others):
            self.release()
            self._rests_until = self._clock.monotonic() + GIVE_WAY_FOR

    def _keep(self, cursor: EventCursor, moves: Sequence[WebhookMove]) -> bool:
        """Write the lease and the moves; return False when another node has the lease."""
        self._cursor = store_of(self._runtime).webhooks.advance(self._clock.now(), cursor, moves)
        self._written = self._clock.monotonic()
        if self._cursor is None:
            self._lose()
        return self._cursor is not None

    def _lose(self) -> None:
        self._cursor = None
        self._readers.clear()

    # -- reading --

    def _read(self, cursor: EventCursor, webhooks: Sequence[Webhook]) -> bool:
        """Read for the webhooks that have no delivery; return True when there may be more."""
        has_more = False
        shared: dict[object, list[FeedStep]] = {}
        moves: list[WebhookMove] = []
        began = self._clock.monotonic()
        waiting = [webhook for webhook in webhooks if webhook.delivery_id is None]
        # The one that was read for last comes last: a round may end before all had their turn.
        for webhook in sorted(waiting, key=lambda one: self._turns.get(one.webhook_id, 0)):
            if self._clock.monotonic() - began > LONGEST_READ:
                has_more = True
                break
            self._turn += 1
            self._turns[webhook.webhook_id] = self._turn
            reader = self._reader_of(webhook)
            steps = self._steps(reader.position, shared)
            body, passed = _taken(self._runtime, webhook, reader.types, steps)
            for step in steps[:passed]:
                reader.position.move_behind(step)
            reader.has_moved |= passed > 0
            has_more |= passed > 0 and (passed < len(steps) or len(steps) >= PORTION or bool(body))
            if body:
                moves.append(self._move(webhook.webhook_id, reader, body))
        age = self._clock.monotonic() - self._written
        if moves or age >= (WRITE_EVERY if self._has_moved else RENEW_EVERY):
            written = {move.webhook_id for move in moves}
            others = [
                (key, one) for key, one in self._readers.items() if one.has_moved and key not in written
            ]
            moves += [self._move(key, one) for key, one in others]
            if not self._keep(cursor._replace(held_until=self._clock.now() + HOLD), moves):
                return False
            for move in moves:
                self._readers[move.webhook_id].has_moved = False
        return has_more

    @property
    def _has_moved(self) -> bool:
        return any(reader.has_moved for reader in self._readers.values())

    def _reader_of(self, webhook: Webhook) -> _WebhookReader:
        found = self._readers.get(webhook.webhook_id)
        if found is not None and found.on == webhook.types:
            return found
        is_following = follows(webhook.on)
        if found is None:
            at = EventCursor(CURSOR, webhook.event_row, webhook.job_row, webhook.open_jobs)
            position = position_of(self._runtime, at, follows=is_following)
        else:  # other types are wanted from here on
            position = found.position
            if not is_following:
                position.open_jobs = None
            elif position.open_jobs is None:
                position.open_jobs = outstanding_jobs(self._runtime, position.job_row)
        found = _WebhookReader(webhook.types, types_of(webhook.on, HEARD), position)
        self._readers[webhook.webhook_id] = found
        return found

    def _steps(self, position: FeedPosition, shared: dict[object, list[FeedStep]]) -> list[FeedStep]:
        jobs = position.open_jobs
        if jobs is not None and len(jobs) > LONGEST_SHARED:
            return steps_after(self._runtime, position, limit=PORTION)
        key = (position.event_row, position.job_row, None if jobs is None else frozenset(jobs.items()))
        if key not in shared:
            shared[key] = steps_after(self._runtime, position, limit=PORTION)
        return shared[key]

    def _move(self, webhook_id: str, reader: _WebhookReader, body: Sequence[Object] = ()) -> WebhookMove:
        position = reader.position
        move = WebhookMove(webhook_id, position.event_row, position.job_row, position.jobs_text)
        if not body:
            return move
        delivery_id = str(uuid.uuid4())
        return move._replace(delivery_id=delivery_id, body=delivery_text(webhook_id, delivery_id, body))

    def _forget(self, known: set[str]) -> None:
        for webhook_id in self._readers.keys() - known:
            del self._readers[webhook_id]
        for webhook_id in self._turns.keys() - known:
            del self._turns[webhook_id]

    # -- sending --

    def _send_due(self, webhooks: Sequence[Webhook]) -> bool:
        """Begin to send some of the deliveries that are due; return True when there are more."""
        now, started = self._clock.now(), 0
        due = [
            one
            for one in webhooks
            if one.delivery_id is not None
            and (one.next_at is None or one.next_at <= now)
            and one.webhook_id not in self._under_way
        ]
        for webhook in self._in_turn(due):
            is_failing = webhook.failing_since is not None
            if len(self._under_way) >= MOST_AT_ONCE or (is_failing and len(self._failing) >= MOST_FAILING):
                return False  # the end of one of them wakes this loop
            if not self._is_threaded:
                self._send(webhook)
                continue
            if started == MOST_STARTED:
                return True
            started += 1
            self._under_way[webhook.webhook_id] = webhook.owner
            if is_failing:
                self._failing.add(webhook.webhook_id)
            # Daemons: a receiver that hangs does not keep a process from its end.
            threading.Thread(
                target=self._send_on_thread, args=(webhook,), name="everwhen-webhook", daemon=True
            ).start()
        return False

    def _in_turn(self, due: Sequence[Webhook]) -> Iterator[Webhook]:
        """Yield those that may be sent to: of the owner with the fewest under way, and those that fail last.

        Of equals the one that was read for longest ago comes first: others are due again as soon as they were sent to.
        """
        waiting = sorted(due, key=lambda one: (one.next_at or 0, self._turns.get(one.webhook_id, 0)))
        while waiting:
            running = Counter(list(self._under_way.values()))
            eligible = [one for one in waiting if one.owner is None or running[one.owner] < MOST_OF_OWNER]
            if not eligible:
                return
            chosen = min(eligible, key=lambda one: (one.failing_since is not None, running[one.owner]))
            waiting.remove(chosen)
            yield chosen

    def _send_on_thread(self, webhook: Webhook) -> None:
        try:
            self._send(webhook)
        except Exception as error:  # the top of this thread; the delivery is sent again
            text = "a delivery to webhook %s is not on record as sent: %s"
            log.error(text, webhook.webhook_id, error, exc_info=not isinstance(error, StoreError))
        finally:
            self._failing.discard(webhook.webhook_id)
            self._under_way.pop(webhook.webhook_id, None)
            self.wake.set()

    def _send(self, webhook: Webhook) -> None:
        webhooks = store_of(self._runtime).webhooks
        delivery = webhooks.delivery(webhook.webhook_id)
        if delivery is None:
            return
        began = self._clock.now()
        try:
            sent = self._post(delivery, began)
        except Exception as error:  # of the client
            sent = Sent(False, f"{type(error).__name__}: {error}")
        now = self._clock.now()
        if sent.is_delivered:
            webhooks.confirm(now, delivery)
            return
        self._was_forbidden |= sent.is_forbidden
        error_text = sent.answer[:LONGEST_ERROR]
        since = began if delivery.failing_since is None else delivery.failing_since
        if now - since >= OFF_AFTER:
            self._switch_off(webhook, "failures", error_text, delivery)
            return
        pause = max(pause_after_attempt(delivery.attempts + 1), sent.retry_after or 0)
        next_at = min(now + pause, since + OFF_AFTER)
        webhooks.postpone(delivery, failing_since=since, next_at=next_at, error=error_text)

    def _switch_off(
        self, webhook: Webhook, reason: OffReason, error: str, delivery: WebhookDelivery | None = None
    ) -> None:
        """Switch a webhook off; after failures with an alert."""
        now, about = self._clock.now(), {"webhook": webhook.webhook_id, "error": error}
        events = [Event("webhook.disabled", now, owner=webhook.owner, reason=reason, detail=about)]
        if delivery is not None:
            detail = {
                "rule": rule_of_webhook(webhook.webhook_id),
                "kind": "events",
                "delivery": delivery.delivery_id,
                "attempts": delivery.attempts + 1,
                "error": error,
            }
            events.append(Event("alert.failed", now, owner=webhook.owner, detail=detail))
        if store_of(self._runtime).webhooks.switch_off(now, webhook.webhook_id, reason, error, events):
            log.error("webhook %s is switched off: %s", webhook.webhook_id, error)


def _taken(
    runtime: Runtime, webhook: Webhook, types: frozenset[str], steps: Sequence[FeedStep]
) -> tuple[list[Object], int]:
    """Return what of the feed goes into one delivery, and how many entries that passes."""
    matching = {
        number: step.entry
        for number, step in enumerate(steps)
        if step.entry is not None and _is_for(webhook, types, step.entry)
    }
    names = names_of_events(runtime, matching.values())
    found: list[Object] = []
    size = 0
    for number, entry in matching.items():
        fields = event_to_json(entry, names)
        size += len(json.dumps(fields, ensure_ascii=False).encode(errors="replace"))
        if found and (size > MOST_BYTES or len(found) >= MOST_EVENTS):
            return found, number
        found.append(fields)
    return found, len(steps)


def _is_for(webhook: Webhook, types: frozenset[str], entry: FeedEntry) -> bool:
    facts = facts_of(entry)
    return facts.type in types and webhook.owner in (None, facts.owner)
