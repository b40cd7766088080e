"""A process with everything that watches a database: alerts, webhooks, listeners, subscribers and `expect`.

Its receivers are records of what arrived, which outlive the process: what was sent before it died has arrived.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from everwhen.config.sections.notify import rules_in
from everwhen.engine.delivery import SubscriberDelivery
from everwhen.engine.listeners import EventListener, NamedListener
from everwhen.engine.notifier import Notifier
from everwhen.engine.watches import ExpectWatch
from everwhen.engine.webhooks import WebhookSender
from everwhen.model.alerts import AlertDelivery, Sent
from everwhen.model.webhooks import WebhookDelivery
from everwhen.operations.event_feed import FeedEntry, facts_of
from everwhen.testing.manual import ManualClock
from tests.conformance.stores import Capabilities, Site
from tests.conformance.tenant import LEASE, Tenant

CAPABILITIES = Capabilities(several_processes=True)
RULES = rules_in([{"name": "problems", "http": {"url": "http://receiver"}, "group_wait": 0}])
LISTENER, SUBSCRIBER = "recorder", "inbox"
LISTENED = frozenset({"schedule.created", "job.succeeded", "job.failed"})
BUSY = Sent(False, "busy")
ROUNDS = 4  # of all watchers: what one sends may be an event for another


class RefusedError(Exception):
    """The receiver does not take what it gets."""


@dataclass
class Arrivals:
    """What has arrived at the receivers. The next `refusals` are refused, with `answer` where there are answers."""

    alerts: list[AlertDelivery] = field(default_factory=list)
    deliveries: list[WebhookDelivery] = field(default_factory=list)
    entries: list[tuple[str, str | None]] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    refusals: int = 0
    answer: Sent = BUSY
    subscriber_id: str = SUBSCRIBER

    def send(self, _spec: Mapping[str, Any], delivery: AlertDelivery) -> Sent:
        return self._received(delivery, self.alerts)

    def post(self, delivery: WebhookDelivery, _now: int) -> Sent:
        return self._received(delivery, self.deliveries)

    def note_entry(self, entry: FeedEntry) -> None:
        facts = facts_of(entry)
        if not self._received((facts.type, facts.job_id or facts.schedule_id), self.entries).is_delivered:
            raise RefusedError

    def deliver(self, event: Any) -> None:
        if not self._received(event["event_id"], self.messages).is_delivered:
            raise RefusedError

    def copy(self) -> Arrivals:
        return copy.deepcopy(self)

    def _received(self, what: Any, arrived: list[Any]) -> Sent:
        if self.refusals:
            self.refusals -= 1
            return self.answer
        arrived.append(what)
        return Sent(True, "received")


class Process(Tenant):
    """One node, and all watchers that a node has; they begin when a flow says so."""

    def __init__(
        self, site: Site, clock: ManualClock, node: str = "node-1", arrivals: Arrivals | None = None
    ) -> None:
        super().__init__(site, CAPABILITIES, clock, node)
        self.arrivals = arrivals or Arrivals()
        self.notifier = Notifier(
            self.runtime,
            lambda: RULES,
            {"http": self.arrivals, "ping": self.arrivals},
            node=self._name,
            is_threaded=False,
        )
        self.sender = WebhookSender(self.runtime, self.arrivals.post, node=self._name, is_threaded=False)
        listener = EventListener(self.arrivals.note_entry, LISTENED, "a recorder", LISTENER)
        self.listener = NamedListener(self.runtime, listener, self._name)
        self.subscription = SubscriberDelivery(self.runtime.messages, clock, self.arrivals, node=node)
        self.expectations = ExpectWatch(self.runtime, lease=LEASE)

    def other(self, node: str) -> Process:
        """Return another process whose receivers are the same; who asks for it closes it."""
        return Process(self.site, self.clock, node, self.arrivals)

    def listen(self) -> bool:
        return self.listener.step(lambda: False)

    def watch(self) -> None:
        """Let every watcher work until nothing is left to do at this instant."""
        watchers: tuple[Callable[[], bool], ...] = (
            self.notifier.step,
            self.sender.step,
            self.listen,
            self.subscription.step,
        )
        for step in watchers * ROUNDS:
            while step():
                pass

    def _name(self) -> str:
        return self.node
