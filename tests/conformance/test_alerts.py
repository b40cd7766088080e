"""Alerts on every store: opened, told and resolved in the transaction that moves the cursor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from everwhen.config.sections.notify import rules_in
from everwhen.engine.notifier import CURSOR, Notifier
from everwhen.engine.slow_runs import SlowWatch
from everwhen.model.alerts import AlertDelivery, Sent
from everwhen.model.event_cursor import EventCursor
from everwhen.store.alert_round import Round
from tests.conformance.tenant import FAILED, Tenant

RULES = rules_in([{"http": {"url": "http://a"}, "group_wait": 0}, {"command": ["b"], "on": ["breaker.*"]}])


class Heard:
    """A channel that keeps what it gets."""

    def __init__(self) -> None:
        self.kinds: list[tuple[str, str | None]] = []

    def send(self, spec: Mapping[str, Any], delivery: AlertDelivery) -> Sent:
        self.kinds.append((delivery.kind, delivery.class_))
        return Sent(True)


def notifier_of(runtime: Tenant, heard: Heard) -> Notifier:
    notifier = Notifier(
        runtime.runtime, lambda: RULES, {"http": heard}, node=lambda: runtime.node, is_threaded=False
    )
    notifier.begin()
    return notifier


def test_an_alert_is_opened_reported_and_resolved(runtime: Tenant) -> None:
    heard = Heard()
    notifier = notifier_of(runtime, heard)
    runtime.add("s", every="1h")
    runtime.step()
    (job,) = runtime.claim()
    runtime.settle(job, outcome=FAILED)
    runtime.wait("1s")
    for _ in range(3):
        notifier.step()
    assert heard.kinds == [("opened", "schedule.failing")]
    runtime.wait_and_step("1h")
    (job,) = runtime.claim()
    runtime.settle(job)
    runtime.wait("1s")
    for _ in range(3):
        notifier.step()
    assert heard.kinds == [("opened", "schedule.failing"), ("resolved", "schedule.failing")]
    notifier.release()


def test_a_node_that_lost_the_cursor_writes_no_alert(runtime: Tenant) -> None:
    cursors, alerts = runtime.runtime.event_cursors, runtime.runtime.alerts
    cursors.create(runtime.now, EventCursor(CURSOR, 0, 0))
    held = cursors.take(runtime.now, CURSOR, node="n1", held_until=runtime.now + 1)
    assert held is not None
    runtime.wait("1m")
    assert cursors.take(runtime.now, CURSOR, node="n2", held_until=runtime.now + 1) is not None
    runtime.add("s", every="1h")
    runtime.step()
    (job,) = runtime.claim()
    runtime.settle(job, outcome=FAILED)
    entries = runtime.runtime.ledger.events_after(0, limit=100)
    round_ = Round(runtime.now, RULES, "UTC", entries)
    assert not alerts.is_idle(round_)
    assert alerts.take_in(held, round_) is None
    assert alerts.pending() == []


def test_a_run_that_takes_much_longer_than_usual_is_reported_until_it_ends(runtime: Tenant) -> None:
    heard = Heard()
    rules = rules_in([{"http": {"url": "http://a"}, "group_wait": 0, "on": ["schedule.slow"]}])
    notifier = Notifier(
        runtime.runtime, lambda: rules, {"http": heard}, node=lambda: runtime.node, is_threaded=False
    )
    notifier.begin()
    runtime.add("s", every="10m")
    watch = SlowWatch(runtime.runtime)
    for _ in range(20):
        runtime.step()
        (job,) = runtime.claim()
        runtime.wait("1s")
        runtime.settle(job)
        runtime.wait("599s")
    runtime.step()
    (job,) = runtime.claim()
    runtime.wait("64s")
    watch.step(runtime.node)
    for _ in range(3):
        notifier.step()
    assert heard.kinds == [("opened", "schedule.slow")]
    runtime.settle(job)
    for _ in range(3):
        notifier.step()
    assert heard.kinds == [("opened", "schedule.slow"), ("resolved", "schedule.slow")]
    notifier.release()
