"""Messages reach their subscribers in order and at least once, whatever subscribers do."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from everwhen.engine.delivery import PORTION, Deliveries, SubscriberDelivery
from everwhen.model.message import message_target
from everwhen.store.opened import store_of
from everwhen.targets.subscribers import CallbackSubscriber
from everwhen.testing import ManualScheduler, manual_scheduler

PRESENTS = message_target({"text": "Presents!"})
PATIENCE = 60


@pytest.fixture
def scheduler() -> Iterator[ManualScheduler]:
    found = manual_scheduler("2026-01-05T08:00:00Z")
    yield found
    assert found.check().is_clean
    found.stack.close()


class Inbox:
    """A subscriber that keeps what it gets, and refuses what it is told to."""

    subscriber_id = "inbox"

    def __init__(self) -> None:
        self.got: list[str] = []
        self.refuses = 0

    def deliver(self, event: dict[str, Any]) -> None:
        if self.refuses:
            self.refuses -= 1
            raise ConnectionError("nobody is home")
        self.got.append(event["source"]["message_id"].rpartition("-rc")[0].rpartition("-")[2])


def delivery(s: ManualScheduler, inbox: Any, node: str = "node-1") -> SubscriberDelivery:
    found = SubscriberDelivery(store_of(s.runtime).messages, s.clock, inbox, node=node)
    found.subscribe()
    return found


def test_messages_come_in_order_and_once(scheduler: ManualScheduler) -> None:
    inbox = Inbox()
    to_inbox = delivery(scheduler, inbox)
    scheduler.add("reminder", every="1m", target=PRESENTS)
    scheduler.advance("2m")
    assert to_inbox.step() is False
    assert to_inbox.step() is False
    assert inbox.got == ["n1", "n2", "n3"]


def test_a_refused_message_comes_again_after_a_pause_that_doubles(scheduler: ManualScheduler) -> None:
    inbox = Inbox()
    to_inbox = delivery(scheduler, inbox)
    scheduler.add("reminder", every="1m", target=PRESENTS)
    scheduler.advance("1m")
    inbox.refuses = 3
    waits: list[int] = []
    while not inbox.got:
        to_inbox.step()
        (subscription,) = store_of(scheduler.runtime).messages.subscriptions()
        if subscription.next_attempt_at is not None:
            waits.append((subscription.next_attempt_at - scheduler.clock.now()) // 1_000_000)
            assert subscription.last_error == "ConnectionError: nobody is home"
            scheduler.clock.advance(waits[-1] - 1)
            to_inbox.step()
            assert inbox.got == []  # not before its time
            scheduler.clock.advance(1)
    assert waits == [1, 2, 4]
    assert inbox.got == ["n1", "n2"]


def test_what_was_delivered_before_a_refusal_does_not_come_again(scheduler: ManualScheduler) -> None:
    inbox = Inbox()
    to_inbox = delivery(scheduler, inbox)
    scheduler.add("reminder", every="1m", target=PRESENTS)
    scheduler.advance("2m")
    deliver = inbox.deliver

    def refuse_the_second(event: dict[str, Any]) -> None:
        if len(inbox.got) == 1 and not inbox.refuses:
            inbox.refuses = 1
        deliver(event)

    picky = CallbackSubscriber("inbox", refuse_the_second)
    delivery(scheduler, picky).step()
    assert inbox.got == ["n1"]
    scheduler.clock.advance(1)
    to_inbox.step()
    assert inbox.got == ["n1", "n2", "n3"]


def test_a_node_that_dies_over_a_delivery_leaves_it_to_another(scheduler: ManualScheduler) -> None:
    inbox = Inbox()
    scheduler.add("reminder", every="1h", target=PRESENTS)

    def die(_event: dict[str, Any]) -> None:
        raise KeyboardInterrupt  # as near to kill -9 as one process gets: nothing is written

    dying = delivery(scheduler, CallbackSubscriber("inbox", die), "node-1")
    other = delivery(scheduler, inbox, "node-2")
    scheduler.step()
    with pytest.raises(KeyboardInterrupt):
        dying.step()
    other.step()
    assert inbox.got == []  # it is held
    scheduler.clock.advance("61s")
    other.step()
    assert inbox.got == ["n1"]


def test_a_slow_subscriber_keeps_its_hold(scheduler: ManualScheduler) -> None:
    inbox = Inbox()
    other = delivery(scheduler, inbox, "node-2")

    def slowly(event: dict[str, Any]) -> None:
        scheduler.clock.advance("20s")
        other.step()
        inbox.deliver(event)

    slow = delivery(scheduler, CallbackSubscriber("inbox", slowly), "node-1")
    scheduler.add("reminder", every="1m", target=PRESENTS)
    scheduler.advance("9m")
    scheduler.pause("reminder")
    slow.step()
    assert inbox.got == [f"n{n}" for n in range(1, 11)]


def test_more_than_a_portion_comes_in_several_steps(scheduler: ManualScheduler) -> None:
    inbox = Inbox()
    to_inbox = delivery(scheduler, inbox)
    scheduler.add("reminder", every="1s", target=PRESENTS)
    scheduler.advance(PORTION)
    assert to_inbox.step() is True
    assert len(inbox.got) == PORTION
    assert to_inbox.step() is False
    assert len(inbox.got) == PORTION + 1


def test_an_async_callback_is_awaited(scheduler: ManualScheduler) -> None:
    got: list[str] = []

    async def callback(event: dict[str, Any]) -> None:
        got.append(event["content"]["text"])

    to_callback = delivery(scheduler, CallbackSubscriber("async", callback))
    scheduler.add("reminder", every="1h", target=PRESENTS)
    scheduler.step()
    to_callback.step()
    assert got == ["Presents!"]


def test_a_subscriber_that_hangs_keeps_no_other_waiting(scheduler: ManualScheduler) -> None:
    gate, arrived = threading.Event(), threading.Event()
    stuck = CallbackSubscriber("stuck", lambda _event: gate.wait(PATIENCE))
    quick = CallbackSubscriber("quick", lambda _event: arrived.set())
    deliveries = Deliveries(store_of(scheduler.runtime).messages, scheduler.clock, [stuck, quick])
    deliveries.start("node-1")
    scheduler.add("reminder", every="1h", target=PRESENTS)
    scheduler.step()
    deliveries.wake()
    assert arrived.wait(PATIENCE)
    gate.set()
    deliveries.stop()


def test_a_stop_lets_the_message_in_hand_be_the_last(scheduler: ManualScheduler) -> None:
    inbox = Inbox()
    over = threading.Event()

    def deliver(event: dict[str, Any]) -> None:
        inbox.deliver(event)
        over.set()

    to_inbox = delivery(scheduler, CallbackSubscriber("inbox", deliver))
    scheduler.add("reminder", every="1m", target=PRESENTS)
    scheduler.advance("1m")
    to_inbox.step(over)
    assert inbox.got == ["n1"]
    delivery(scheduler, inbox, "node-2").step()
    assert inbox.got == ["n1", "n2"]
