"""Messages: written in the transaction that fires their slot, then had by every subscriber, in order."""

from __future__ import annotations

import json
from typing import Any

import pytest

from everwhen.errors import StoreError
from everwhen.model.instants import DAY
from everwhen.model.message import message_target
from everwhen.model.retention import Retention
from everwhen.operations.retention import prune
from everwhen.ports.messages import Message
from tests.conformance.tenant import MANY, Tenant, clock_of

PRESENTS = message_target({"text": "Presents!", "thread_id": "family"})
HOLD = 60_000_000


def said(house: Tenant) -> list[dict[str, Any]]:
    return [json.loads(message.body) for message in house.house.messages.after(0, limit=MANY)]


def texts(messages: list[Message]) -> list[str]:
    return [json.loads(message.body)["content"]["text"] for message in messages]


def take(house: Tenant, subscriber: str = "inbox", limit: int = 100) -> list[Message]:
    return list(
        house.house.messages.take(
            house.now, subscriber, node=house.node, limit=limit, held_until=house.now + HOLD
        )
    )


def advance(house: Tenant, cursor: int, subscriber: str = "inbox") -> bool:
    return house.house.messages.advance(
        house.now, subscriber, node=house.node, cursor=cursor, held_until=None
    )


def subscribe(house: Tenant, subscriber: str = "inbox") -> int:
    return house.house.messages.subscribe(house.now, subscriber).cursor


# -- firing --


def test_the_firing_transaction_writes_the_message_and_settles_its_job(house: Tenant) -> None:
    house.add("reminder", every="1h", target=PRESENTS, timezone="Europe/Paris", payload={"n": 1})
    assert house.tick().fired == 1
    (job,) = house.jobs("reminder")
    assert (job.status, job.attempt, job.started_at, job.ended_at) == ("succeeded", 1, house.now, house.now)
    (event,) = said(house)
    assert event["source"] == {
        "channel": "scheduler",
        "connector_id": "reminder",
        "thread_id": "family",
        "message_id": job.job_id,
    }
    assert event["schema_version"] == "1.0"
    assert event["occurred_at"] == "2026-01-05T08:00:00Z"
    assert event["content"] == {"text": "Presents!", "structured": {"n": 1}}
    assert event["context"] == {"timezone": "Europe/Paris"}
    assert event["correlation"]["dedupe_key"] == f"{job.uid}:n1"
    state = house.state("reminder")
    assert (state.run_count, state.outstanding, state.running_jobs) == (1, 0, 0)
    assert (state.last_run_at, state.last_success_job_id) == (house.now, job.job_id)
    assert house.claim() == []
    assert house.check().is_clean


def test_every_slot_says_its_own(house: Tenant) -> None:
    house.add("reminder", every="1m", target=PRESENTS)
    house.step()
    for _ in range(3):
        house.wait_and_step("1m")
    events = said(house)
    assert len({event["event_id"] for event in events}) == len(events) == 4
    assert len({event["correlation"]["dedupe_key"] for event in events}) == 4
    assert house.check().is_clean


def test_a_missed_window_is_said_in_order_and_at_once(house: Tenant) -> None:
    house.add("reminder", every="1m", target=PRESENTS, catch_up="run_all")
    house.step()
    house.wait("10m30s")
    house.beat()
    house.step()
    ids = [event["source"]["message_id"] for event in said(house)]
    assert [clock_of(house.job(job_id).slot_at) for job_id in ids] == house.slots("reminder")
    assert set(house.statuses("reminder")) == {"succeeded"}
    assert len(ids) == 11
    assert house.check().is_clean


def test_a_message_that_has_to_wait_is_said_when_it_is_claimed(house: Tenant) -> None:
    house.put_quiet_hours("08:30-09:00", "skip")
    house.add(
        "reminder", every="10m", target=PRESENTS, quiet_hours="nights", catch_up="run_once", max_outstanding=1
    )
    house.step()
    house.wait_and_step("45m")  # its catch-up has to wait for the opening
    assert len(said(house)) == 1
    house.wait_and_step("15m")
    assert house.claim() == []
    assert set(house.statuses("reminder")) == {"succeeded"}
    assert house.state("reminder").outstanding == 0
    assert house.check().is_clean


def test_a_message_by_hand_is_said_beside_the_slots(house: Tenant) -> None:
    house.add("reminder", every="1h", target=PRESENTS)
    house.step()
    house.trigger("reminder")
    assert house.claim() == []
    assert len(said(house)) == 2
    assert house.state("reminder").run_count == 1
    assert house.check().is_clean


def test_messages_are_settled_and_other_jobs_are_left_to_the_workers(house: Tenant) -> None:
    house.add("reminder", every="1h", target=PRESENTS)
    house.add("backup", every="1h")
    house.step()
    house.trigger("reminder")
    assert [one.job.schedule_id for one in house.claim()] == ["backup"]
    assert len(said(house)) == 2


def test_two_schedules_of_one_guard_both_speak(house: Tenant) -> None:
    for name in ("a", "b"):
        house.add(f"family.{name}", group="family", every="1h", target=PRESENTS, max_outstanding=1)
    house.step()  # one of them, whose end makes room for the other
    house.step()
    assert len(said(house)) == 2
    assert house.check().is_clean


def test_a_chain_of_messages_goes_on_from_the_end_of_each(house: Tenant) -> None:
    house.add("reminder", every="5m", interval_from="completion", target=PRESENTS)
    house.step()
    for _ in range(2):
        house.wait_and_step("5m")
    assert house.slots("reminder") == ["08:00:00", "08:05:00", "08:10:00"]
    assert house.check().is_clean


def test_the_last_of_its_repeats_is_said_and_ends_the_schedule(house: Tenant) -> None:
    house.add("reminder", every="1m", total_repeats=2, target=PRESENTS)
    house.step()
    house.wait_and_step("1m")
    assert house.state("reminder").status == "done"
    assert house.wait_and_step("1m") == 0
    assert len(said(house)) == 2
    assert house.check().is_clean


def test_a_tick_that_is_not_committed_has_said_nothing(house: Tenant) -> None:
    house.add("reminder", every="1h", target=PRESENTS)
    house.add("broken", every="1h")
    house.step()
    house.run()
    house.wait("1h")
    house.move_row(
        "broken", fire_count=0
    )  # its next job has an id that exists, and the whole batch is refused
    with pytest.raises(StoreError):
        house.tick()
    assert len(said(house)) == 1
    house.move_row("broken", fire_count=1)
    house.step()
    assert len(said(house)) == 2


# -- subscribers --


def test_a_new_subscriber_begins_behind_what_was_said(house: Tenant) -> None:
    house.add("reminder", every="1m", target=PRESENTS)
    house.step()
    subscribe(house)
    assert take(house) == []
    house.wait_and_step("1m")
    assert texts(take(house)) == ["Presents!"]


def test_subscribing_again_changes_nothing(house: Tenant) -> None:
    subscribe(house)
    house.add("reminder", every="1m", target=PRESENTS)
    house.step()
    assert subscribe(house) == 0
    assert len(take(house)) == 1


def test_each_subscriber_has_a_cursor_of_its_own(house: Tenant) -> None:
    subscribe(house, "a")
    subscribe(house, "b")
    house.add("reminder", every="1m", target=PRESENTS)
    house.step()
    (message,) = take(house, "a")
    assert advance(house, message.id, "a")
    assert take(house, "a") == []
    assert take(house, "b") == [message]
    assert [s.subscriber for s in house.house.messages.subscriptions()] == ["a", "b"]


def test_what_was_taken_and_not_acknowledged_comes_again(house: Tenant) -> None:
    subscribe(house)
    house.add("reminder", every="1m", target=PRESENTS)
    house.step()
    first = take(house)
    neighbour = house.neighbour()
    assert take(neighbour) == []  # somebody delivers
    house.wait("2m")
    assert take(neighbour) == first  # and has died over it
    assert not advance(house, first[0].id)  # its word counts no more
    assert advance(neighbour, first[0].id)
    assert take(neighbour) == []


def test_a_failed_delivery_waits_and_its_failures_are_counted(house: Tenant) -> None:
    subscribe(house)
    house.add("reminder", every="1h", target=PRESENTS)
    house.step()
    for _ in range(2):
        take(house)
        until = house.now + 10_000_000
        house.house.messages.postpone(
            house.now, "inbox", node=house.node, cursor=None, until=until, error="no luck"
        )
        assert take(house) == []
        house.wait("10s")
    (subscription,) = house.house.messages.subscriptions()
    assert (subscription.failures, subscription.last_error) == (2, "no luck")
    (message,) = take(house)
    assert advance(house, message.id)
    (subscription,) = house.house.messages.subscriptions()
    assert (subscription.failures, subscription.last_error, subscription.cursor) == (0, None, message.id)


def test_messages_come_in_portions_and_in_order(house: Tenant) -> None:
    subscribe(house)
    house.add("reminder", every="1m", target=PRESENTS, catch_up="run_all")
    house.step()
    house.wait_and_step("9m")
    got: list[int] = []
    while taken := take(house, limit=3):
        got += [message.id for message in taken]
        advance(house, got[-1])
    assert got == sorted(got) and len(got) == 10


def test_old_messages_are_forgotten_and_whoever_had_none_goes_on_with_the_rest(house: Tenant) -> None:
    subscribe(house, "quick")
    subscribe(house, "slow")
    house.add("reminder", every="24h", target=PRESENTS)
    for _ in range(3):
        house.step()
        house.wait("1d")
    first, *_ = take(house, "quick")
    advance(house, first.id, "quick")
    house.wait("10d")
    house.step()
    rows = prune(house.house, Retention(messages=11 * DAY))
    assert rows["messages"] == 2
    left = [message.id for message in house.house.messages.after(0, limit=MANY)]
    assert [message.id for message in take(house, "quick")] == left
    assert [message.id for message in take(house, "slow")] == left
    assert len(left) == 2
