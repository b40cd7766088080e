"""Messages: written in the transaction that fires their slot, then delivered to every subscriber, in order."""

from __future__ import annotations

import json
from typing import Any

import pytest

from everwhen.errors import StoreError
from everwhen.model.instants import DAY
from everwhen.model.message import Message, message_target
from everwhen.model.retention import Retention
from everwhen.operations.maintenance import prune
from tests.conformance.tenant import LEASE, MANY, Tenant, clock_of

PRESENTS = message_target({"text": "Presents!", "thread_id": "family"})
HOLD = 60_000_000


def said(runtime: Tenant) -> list[dict[str, Any]]:
    return [json.loads(message.body) for message in runtime.runtime.messages.after(0, limit=MANY)]


def texts(messages: list[Message]) -> list[str]:
    return [json.loads(message.body)["content"]["text"] for message in messages]


def take(runtime: Tenant, subscriber: str = "inbox", limit: int = 100) -> list[Message]:
    return list(
        runtime.runtime.messages.take(
            runtime.now, subscriber, node=runtime.node, limit=limit, held_until=runtime.now + HOLD
        )
    )


def advance(runtime: Tenant, cursor: int, subscriber: str = "inbox") -> bool:
    return runtime.runtime.messages.advance(
        runtime.now, subscriber, node=runtime.node, cursor=cursor, held_until=None
    )


def subscribe(runtime: Tenant, subscriber: str = "inbox") -> int:
    return runtime.runtime.messages.subscribe(runtime.now, subscriber).cursor


# -- firing --


def test_the_firing_transaction_writes_the_message_and_settles_its_job(runtime: Tenant) -> None:
    runtime.add("reminder", every="1h", target=PRESENTS, timezone="Europe/Paris", payload={"n": 1})
    assert runtime.tick().fired == 1
    (job,) = runtime.jobs("reminder")
    assert (job.status, job.attempt, job.started_at, job.ended_at) == (
        "succeeded",
        1,
        runtime.now,
        runtime.now,
    )
    (event,) = said(runtime)
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
    state = runtime.state("reminder")
    assert (state.run_count, state.outstanding, state.running_jobs) == (1, 0, 0)
    assert (state.last_run_at, state.last_success_job_id) == (runtime.now, job.job_id)
    assert runtime.claim() == []
    assert runtime.check().is_clean


def test_every_slot_says_its_own(runtime: Tenant) -> None:
    runtime.add("reminder", every="1m", target=PRESENTS)
    runtime.step()
    for _ in range(3):
        runtime.wait_and_step("1m")
    events = said(runtime)
    assert len({event["event_id"] for event in events}) == len(events) == 4
    assert len({event["correlation"]["dedupe_key"] for event in events}) == 4
    assert runtime.check().is_clean


def test_a_missed_window_is_said_in_order_and_at_once(runtime: Tenant) -> None:
    runtime.add("reminder", every="1m", target=PRESENTS, catch_up="run_all")
    runtime.step()
    runtime.wait("10m30s")
    runtime.beat()
    runtime.step()
    ids = [event["source"]["message_id"] for event in said(runtime)]
    assert [clock_of(runtime.job(job_id).slot_at) for job_id in ids] == runtime.slots("reminder")
    assert set(runtime.statuses("reminder")) == {"succeeded"}
    assert len(ids) == 11
    assert runtime.check().is_clean


def test_a_message_that_has_to_wait_is_said_when_it_is_claimed(runtime: Tenant) -> None:
    runtime.put_quiet_hours("08:30-09:00", "skip")
    runtime.add(
        "reminder", every="10m", target=PRESENTS, quiet_hours="nights", catch_up="run_once", max_outstanding=1
    )
    runtime.step()
    runtime.wait_and_step("45m")  # its catch-up has to wait for the opening
    assert len(said(runtime)) == 1
    runtime.wait_and_step("15m")
    assert runtime.claim() == []
    assert set(runtime.statuses("reminder")) == {"succeeded"}
    assert runtime.state("reminder").outstanding == 0
    assert runtime.check().is_clean


def test_a_message_by_hand_is_said_beside_the_slots(runtime: Tenant) -> None:
    runtime.add("reminder", every="1h", target=PRESENTS)
    runtime.step()
    runtime.trigger("reminder")
    assert runtime.claim() == []
    assert len(said(runtime)) == 2
    assert runtime.state("reminder").run_count == 1
    assert runtime.check().is_clean


def test_messages_are_settled_and_other_jobs_are_left_to_the_workers(runtime: Tenant) -> None:
    runtime.add("reminder", every="1h", target=PRESENTS)
    runtime.add("backup", every="1h")
    runtime.step()
    runtime.trigger("reminder")
    assert [one.job.schedule_id for one in runtime.claim()] == ["backup"]
    assert len(said(runtime)) == 2


def test_two_schedules_of_one_guard_both_speak(runtime: Tenant) -> None:
    for name in ("a", "b"):
        runtime.add(f"family.{name}", group="family", every="1h", target=PRESENTS, max_outstanding=1)
    runtime.step()  # one of them, whose end frees the place for the other
    runtime.step()
    assert len(said(runtime)) == 2
    assert runtime.check().is_clean


def test_a_chain_of_messages_goes_on_from_the_end_of_each(runtime: Tenant) -> None:
    runtime.add("reminder", every="5m", interval_from="completion", target=PRESENTS)
    runtime.step()
    for _ in range(2):
        runtime.wait_and_step("5m")
    assert runtime.slots("reminder") == ["08:00:00", "08:05:00", "08:10:00"]
    assert runtime.check().is_clean


def test_the_last_of_its_repeats_is_said_and_ends_the_schedule(runtime: Tenant) -> None:
    runtime.add("reminder", every="1m", total_repeats=2, target=PRESENTS)
    runtime.step()
    runtime.wait_and_step("1m")
    assert runtime.state("reminder").status == "done"
    assert runtime.wait_and_step("1m") == 0
    assert len(said(runtime)) == 2
    assert runtime.check().is_clean


def test_a_tick_that_is_not_committed_has_said_nothing(runtime: Tenant) -> None:
    runtime.add("reminder", every="1h", target=PRESENTS)
    runtime.add("broken", every="1h")
    runtime.step()
    runtime.run()
    runtime.wait("1h")
    runtime.move_row(
        "broken", fire_count=0
    )  # its next job has an id that exists, so the whole batch is refused
    with pytest.raises(StoreError):
        runtime.tick()
    assert len(said(runtime)) == 1
    runtime.move_row("broken", fire_count=1)
    runtime.step()
    assert len(said(runtime)) == 2


# -- subscribers --


def test_a_new_subscriber_begins_behind_what_was_said(runtime: Tenant) -> None:
    runtime.add("reminder", every="1m", target=PRESENTS)
    runtime.step()
    subscribe(runtime)
    assert take(runtime) == []
    runtime.wait_and_step("1m")
    assert texts(take(runtime)) == ["Presents!"]


def test_subscribing_again_changes_nothing(runtime: Tenant) -> None:
    subscribe(runtime)
    runtime.add("reminder", every="1m", target=PRESENTS)
    runtime.step()
    assert subscribe(runtime) == 0
    assert len(take(runtime)) == 1


def test_each_subscriber_has_a_cursor_of_its_own(runtime: Tenant) -> None:
    subscribe(runtime, "a")
    subscribe(runtime, "b")
    runtime.add("reminder", every="1m", target=PRESENTS)
    runtime.step()
    (message,) = take(runtime, "a")
    assert advance(runtime, message.id, "a")
    assert take(runtime, "a") == []
    assert take(runtime, "b") == [message]
    assert [s.subscriber for s in runtime.runtime.messages.subscriptions()] == ["a", "b"]


def test_what_was_taken_and_not_acknowledged_comes_again(runtime: Tenant) -> None:
    subscribe(runtime)
    runtime.add("reminder", every="1m", target=PRESENTS)
    runtime.step()
    first = take(runtime)
    neighbour = runtime.neighbour()
    assert take(neighbour) == []  # another process delivers
    runtime.wait("2m")
    assert take(neighbour) == first  # and has died meanwhile
    assert not advance(runtime, first[0].id)  # its report no longer counts
    assert advance(neighbour, first[0].id)
    assert take(neighbour) == []


def test_a_delivery_of_a_node_whose_lease_has_ended_is_taken_over(runtime: Tenant) -> None:
    subscribe(runtime)
    runtime.add("reminder", every="1h", target=PRESENTS)
    runtime.beat()
    runtime.step()
    neighbour = runtime.neighbour()
    (first,) = take(runtime)
    runtime.wait("31s")
    assert take(neighbour) == []
    assert runtime.runtime.upkeep.note_lost(runtime.now, node=neighbour.node, lease=LEASE)
    assert take(neighbour) == [first]
    assert not advance(runtime, first.id)  # it has lost it
    assert advance(neighbour, first.id)


def test_a_delivery_of_a_node_that_signed_off_is_taken_over_after_its_last_deliveries(
    runtime: Tenant,
) -> None:
    subscribe(runtime)
    runtime.add("reminder", every="1h", target=PRESENTS)
    runtime.beat()
    runtime.step()
    (first,) = take(runtime)
    runtime.runtime.slots.sign_off_node(runtime.now, node=runtime.node)
    neighbour = runtime.neighbour()
    runtime.wait("9s")
    assert take(neighbour) == []
    runtime.wait("1s")
    assert take(neighbour) == [first]


def test_a_failed_delivery_waits_and_its_failures_are_counted(runtime: Tenant) -> None:
    subscribe(runtime)
    runtime.add("reminder", every="1h", target=PRESENTS)
    runtime.step()
    for _ in range(2):
        take(runtime)
        until = runtime.now + 10_000_000
        runtime.runtime.messages.postpone(
            runtime.now, "inbox", node=runtime.node, cursor=None, until=until, error="no luck"
        )
        assert take(runtime) == []
        runtime.wait("10s")
    (subscription,) = runtime.runtime.messages.subscriptions()
    assert (subscription.failures, subscription.last_error) == (2, "no luck")
    (message,) = take(runtime)
    assert advance(runtime, message.id)
    (subscription,) = runtime.runtime.messages.subscriptions()
    assert (subscription.failures, subscription.last_error, subscription.cursor) == (0, None, message.id)


def test_messages_come_in_portions_and_in_order(runtime: Tenant) -> None:
    subscribe(runtime)
    runtime.add("reminder", every="1m", target=PRESENTS, catch_up="run_all")
    runtime.step()
    runtime.wait_and_step("9m")
    got: list[int] = []
    while taken := take(runtime, limit=3):
        got += [message.id for message in taken]
        advance(runtime, got[-1])
    assert got == sorted(got) and len(got) == 10


def test_old_messages_are_forgotten_and_whoever_had_none_goes_on_with_the_rest(runtime: Tenant) -> None:
    subscribe(runtime, "quick")
    subscribe(runtime, "slow")
    runtime.add("reminder", every="24h", target=PRESENTS)
    for _ in range(3):
        runtime.step()
        runtime.wait("1d")
    first, *_ = take(runtime, "quick")
    advance(runtime, first.id, "quick")
    runtime.wait("10d")
    runtime.step()
    rows = prune(runtime.runtime, Retention(messages=11 * DAY))
    assert rows["messages"] == 2
    left = [message.id for message in runtime.runtime.messages.after(0, limit=MANY)]
    assert [message.id for message in take(runtime, "quick")] == left
    assert [message.id for message in take(runtime, "slow")] == left
    assert len(left) == 2
