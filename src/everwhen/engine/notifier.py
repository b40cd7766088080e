"""The notifier: reads committed events by a cursor, opens and closes alerts, and sends their messages.

One node at a time does this: it holds the cursor, as the listeners of a program do (docs/decisions/listeners.md).
Nothing here is on the way of a slot: events are read after their commits, and a channel that hangs delays its own
messages only. Without rules and pings it reads an empty index after commits, at most once a second.
"""

from __future__ import annotations

import json
import logging
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from everwhen.clock import Clock
from everwhen.decide.alert_messages import AlertMessage, is_concerned
from everwhen.decide.alert_text import Facts, delivery_of, with_addresses
from everwhen.decide.pings import PING_FOR
from everwhen.engine.loop import CommitSleep, Wake
from everwhen.engine.pinger import Pinger
from everwhen.engine.sender_threads import SenderThreads
from everwhen.model.alerts import (
    GIVE_UP_AFTER,
    Alert,
    AlertDelivery,
    AlertRule,
    Channel,
    ChannelKind,
    DeliveryKind,
    Sent,
    pause_after_attempt,
)
from everwhen.model.event_cursor import EventCursor
from everwhen.model.events import Event, EventType
from everwhen.model.instants import MINUTE
from everwhen.model.node import HOLD
from everwhen.operations.alerts import attempt
from everwhen.operations.listening import position_now
from everwhen.runtime import Changes, Runtime
from everwhen.store.alert_round import Round
from everwhen.store.opened import store_of

CURSOR = "everwhen:notifier"  # no listener of a program can have this name
PORTION = 500
WRITE_EVERY = 5.0  # seconds after which a cursor that has moved is written
RENEW_EVERY = 20.0
TAKE_EVERY = 1.0
LOOK_EVERY = 1.0
AWAY = 5 * MINUTE  # a notifier that was away for longer tells what is open in a digest
MOST_AT_ONCE = 8  # messages
MOST_OF_OWNER = 4  # pings
LONGEST_ERROR = 1_000

log = logging.getLogger("everwhen")

Rules = Callable[[], Sequence[AlertRule]]


class Notifier:
    """The notifier of one node. `step` is for one thread.

    `rules` returns those of the configuration in force. `is_threaded`: messages are sent by threads, one message of a
    rule at a time; a test sends them itself.
    """

    def __init__(
        self,
        runtime: Runtime,
        rules: Rules,
        channels: Mapping[ChannelKind, Channel],
        *,
        node: Callable[[], str] = lambda: "",
        is_threaded: bool = True,
        public_url: Callable[[], str | None] = lambda: None,
        changes: Changes | None = None,
    ) -> None:
        self._runtime = runtime
        self._clock: Clock = runtime.clock
        self._rules = rules
        self.node = node
        self._cursor: EventCursor | None = None  # while this node holds it
        self._is_late = False
        self._has_moved = False
        self._written = self._asked = float("-inf")
        self.wake = Wake()
        self._sleep = CommitSleep(self.wake, changes)
        wake = self.wake if is_threaded else None
        self._outbox = AlertOutbox(runtime, rules, channels, wake, public_url=public_url)
        self._pinger = Pinger(runtime, self._node)

    def _node(self) -> str:
        return self.node()  # which is known when the service is built

    @property
    def is_wanted(self) -> bool:
        return bool(self._rules())

    def begin(self) -> None:
        """Create the cursors, where there is a rule or a ping: from now on nothing is missed."""
        self._pinger.begin()
        cursors = store_of(self._runtime).event_cursors
        if self.is_wanted and cursors.find(CURSOR) is None:
            position = position_now(self._runtime, follows=False)
            cursors.create(self._clock.now(), position.stored_in(EventCursor(CURSOR, 0, 0)))

    def serve(self) -> None:
        """Do one step, and rest."""
        self._sleep.begin()
        if not self.step():
            self._sleep.sleep(LOOK_EVERY, is_idle=not self.is_wanted and self._pinger.is_idle)

    def step(self) -> bool:
        """Do one round, and send what is due; return True when there may be more to read."""
        has_more = self._pinger.step()
        if self.is_wanted:
            has_more |= self._step()
        if self._cursor is not None or self._pinger.is_held:
            self._outbox.send_due(alerts=self._cursor is not None, pings=self._pinger.is_held)
        return has_more

    def _step(self) -> bool:
        cursor = self._cursor or self._take()
        if cursor is None:
            return False
        store, now = store_of(self._runtime), self._clock.now()
        entries = store.ledger.events_after(cursor.event_row, limit=PORTION)
        round_ = Round(
            now,
            self._rules(),
            self._runtime.timezone,
            # The feed is in the order of transactions. Of one schedule, or one breaker, the numbers are in the order of
            # its changes: the one that closes it may have begun before the one that opened it, and waited for its row.
            entries=sorted(entries, key=lambda entry: entry.id),
            is_late=self._is_late,
            feed_delay=store.feed_delays.look(),
        )
        # What is read counts when the round is on record: one that fails is done again, with the same events.
        moved = cursor._replace(event_row=entries[-1].id) if entries else cursor
        is_full = len(entries) >= PORTION
        if store.alerts.is_idle(round_):
            self._cursor, self._has_moved = moved, self._has_moved or bool(entries)
            self._write_in_time(moved)
        else:
            self._keep(store.alerts.take_in(self._held(moved), round_))
        self._is_late &= is_full
        return is_full and self._cursor is not None

    def tell_alone(self, reason: str | None) -> None:
        """Send `scheduler.stalled`, or with None its end, without the database, by every rule that reports it.

        It is tried once, on threads of its own: the heartbeat that calls this does not wait for them.
        """
        alert = Alert.about("scheduler.stalled", self.node(), self._clock.now())
        alert = alert._replace(evidence=json.dumps({"node": self.node(), "reason": reason or ""}))
        if reason is None:
            over = json.dumps({"how": "ready again"})
            alert = alert._replace(state="resolved", resolved_at=self._clock.now(), evidence=over)
        kind: DeliveryKind = "opened" if reason is not None else "resolved"
        for rule in self._rules():
            if is_concerned(rule, alert) and (reason is not None or rule.tells_resolved):
                self._outbox.send_alone(rule, AlertMessage(kind, "scheduler.stalled", (alert,)))

    def release(self) -> None:
        """Give the cursor up: another node may continue at once."""
        self._outbox.close()
        self._pinger.release()
        if self._cursor is not None:
            now = self._clock.now()
            over = self._cursor._replace(node=None, held_until=now)  # when it was last looked at
            store_of(self._runtime).event_cursors.save(now, over)
            self._cursor = None

    def _take(self) -> EventCursor | None:
        moment = self._clock.monotonic()
        if moment - self._asked < TAKE_EVERY:
            return None
        self._asked = moment
        now, cursors = self._clock.now(), store_of(self._runtime).event_cursors
        before = cursors.find(CURSOR)
        if before is None:
            self.begin()
            return None
        self._cursor = cursors.take(now, CURSOR, node=self.node(), held_until=now + HOLD)
        if self._cursor is not None:
            self._is_late = before.held_until is not None and now - before.held_until > AWAY
            self._written = moment
        return self._cursor

    def _held(self, cursor: EventCursor) -> EventCursor:
        return cursor._replace(held_until=self._clock.now() + HOLD)

    def _write_in_time(self, cursor: EventCursor) -> None:
        age = self._clock.monotonic() - self._written
        if age >= (WRITE_EVERY if self._has_moved else RENEW_EVERY):
            self._keep(store_of(self._runtime).event_cursors.save(self._clock.now(), self._held(cursor)))

    def _keep(self, cursor: EventCursor | None) -> None:
        self._cursor = cursor
        self._written, self._has_moved = self._clock.monotonic(), False


class AlertOutbox:
    """Sends the messages of the outbox: in order per rule, rules side by side."""

    def __init__(
        self,
        runtime: Runtime,
        rules: Rules,
        channels: Mapping[ChannelKind, Channel],
        wake: Wake | None,
        *,
        public_url: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._runtime, self._clock = runtime, runtime.clock
        self._rules, self._channels, self._wake = rules, channels, wake
        self._public_url = public_url
        self._under_way: set[str] = set()  # rules
        # Pings have threads of their own: a watcher that hangs, with many schedules, must not delay alerts.
        self._alert_threads, self._ping_threads = (
            SenderThreads(name, threads=MOST_AT_ONCE, most_of_owner=MOST_OF_OWNER)
            for name in ("everwhen-alert", "everwhen-ping")
        )

    def send_due(self, *, alerts: bool = True, pings: bool = True) -> None:
        """Send the first message of each rule that is due, and has none under way.

        The two kinds may belong to different nodes: two senders would send a message twice, and out of order.
        """
        now = self._clock.now()
        for delivery in store_of(self._runtime).alerts.pending():
            is_due = delivery.next_at is not None and delivery.next_at <= now
            if not is_due or delivery.rule in self._under_way:
                continue
            if not (pings if delivery.kind == "ping" else alerts):
                continue  # another node sends these
            if self._wake is None:
                self._send(delivery)
                continue
            self._under_way.add(delivery.rule)
            is_ping = delivery.kind == "ping"
            threads = self._ping_threads if is_ping else self._alert_threads
            # Rules are the operator's, whoever it is that an alert is about.
            threads.submit(
                delivery.owner if is_ping else None,
                partial(self._send_on_thread, delivery),
                partial(self._end, delivery.rule),
            )

    def send_alone(self, rule: AlertRule, message: AlertMessage) -> None:
        """Send a message that no database knows of."""
        now, delivery_id = self._clock.now(), str(uuid.uuid4())
        facts = Facts({}, self._runtime.timezone)
        delivery = delivery_of(rule, message, facts, delivery_id=delivery_id, now=now)

        def send() -> None:
            sent = self._attempt(rule, delivery)
            if not sent.is_delivered:
                log.error("a message of %s is not delivered: %s", rule.name, sent.answer)

        if self._wake is None:
            send()
        else:
            threading.Thread(target=send, name="everwhen-alert-alone", daemon=True).start()

    def close(self) -> None:
        self._alert_threads.close()
        self._ping_threads.close()

    def _send_on_thread(self, delivery: AlertDelivery) -> None:
        try:
            self._send(delivery)
        except Exception as error:  # the top of this thread; the message is sent again
            log.error("a message of %s is not on record as sent: %s", delivery.rule, error)

    def _end(self, rule: str) -> None:
        self._under_way.discard(rule)
        if self._wake is not None:
            self._wake.set()

    def _send(self, delivery: AlertDelivery) -> None:
        alerts = store_of(self._runtime).alerts
        if delivery.kind == "ping":
            rule: AlertRule | None = AlertRule(delivery.rule, "ping", "{}", frozenset())
        else:
            rule = next((one for one in self._rules() if one.name == delivery.rule), None)
        if rule is None:
            alerts.give_up(self._clock.now(), delivery, "the rule is gone", ())
            return
        settle_delivery(self._runtime, delivery, self._attempt(rule, delivery))

    def _attempt(self, rule: AlertRule, delivery: AlertDelivery) -> Sent:
        base = self._public_url()
        if base is not None and delivery.kind != "ping":
            delivery = delivery._replace(body=with_addresses(delivery.body, base))
        return attempt(self._channels.get(rule.channel), rule, delivery)


def settle_delivery(runtime: Runtime, delivery: AlertDelivery, sent: Sent) -> None:
    """Record an attempt: delivered, to be repeated, or given up."""
    alerts, now = store_of(runtime).alerts, runtime.clock.now()
    if sent.is_delivered:
        is_ping = delivery.kind == "ping"  # nobody wants to read of each
        alerts.confirm(now, delivery, () if is_ping else [_event("alert.sent", now, delivery)])
        return
    error = sent.answer[:LONGEST_ERROR]
    pause = max(pause_after_attempt(delivery.attempts + 1), sent.retry_after or 0)
    is_ping = delivery.kind == "ping"
    until = delivery.created_at + (PING_FOR if is_ping else GIVE_UP_AFTER)
    if sent.is_final or now >= until:
        log.error("a message of %s is given up: %s", delivery.rule, error)
        kind: EventType = "ping.dropped" if is_ping else "alert.failed"
        alerts.give_up(now, delivery, error, [_event(kind, now, delivery, error=error)])
    else:
        next_at = min(now + pause, until)
        alerts.postpone(delivery, next_at=next_at, error=error)


def _event(kind: EventType, now: int, delivery: AlertDelivery, **more: object) -> Event:
    about: dict[str, object] = {
        "rule": delivery.rule,
        "kind": delivery.kind,
        "delivery": delivery.delivery_id,
        "attempts": delivery.attempts + 1,
    }
    if delivery.class_ is not None:
        about["class"] = delivery.class_
    return Event(kind, now, detail={**about, **more})
