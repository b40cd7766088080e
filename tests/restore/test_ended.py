"""What a restore ends beside jobs: approvals, sessions, messages on their way; and where streams go on."""

from __future__ import annotations

from everwhen.decide.approval import request
from everwhen.model.message import message_target
from everwhen.operations.sessions import begin_session, find_session
from everwhen.operations.tokens import create_token
from tests.restore.places import Place


def test_waiting_approvals_and_sessions_are_over(place: Place) -> None:
    house = place.move_in()
    house.add("asked", every="1h")
    house.add("b", every="1h")
    house.change("asked", lambda schedule, now, shared: request(schedule, now, shared, actor="token x"))
    token = create_token(house.house, "t", "admin").token
    secret = begin_session(house.house, token).secret
    place.back_up(house)
    place.leave(house)
    place.clock.advance("5m")
    restored = place.restore()
    assert (restored.approvals, restored.sessions) == (1, 1)
    house = place.move_in("node-2")
    assert house.house.catalogue.get("asked") is None
    (declined,) = house.events("asked", "schedule.declined")
    assert (declined.actor, declined.detail["note"]) == ("restore", "a backup was restored")
    assert find_session(house.house, secret) is None
    assert house.check().is_clean, house.check()
    place.leave(house)


def test_no_message_in_a_queue_counts_any_more(place: Place) -> None:
    house = place.move_in()
    house.add("a", every="1h")
    house.step()
    (sent,) = house.house.outbox.hand_over(house.now, limit=10, until=house.now + 60_000_000)
    place.back_up(house)
    place.leave(house)
    place.clock.advance("5m")
    place.restore()
    house = place.move_in("node-2")
    assert house.house.outbox.on_its_way(sent.job_id) is None
    assert house.house.outbox.take(house.now, node="q", job_id=sent.job_id, number=sent.number) is None
    assert house.job(sent.job_id).status == "cancelled"
    place.leave(house)


def test_with_catch_up_a_job_is_handed_over_anew_and_the_old_message_does_not_count(place: Place) -> None:
    house = place.move_in()
    house.add("a", every="1h")
    house.step()
    (sent,) = house.house.outbox.hand_over(house.now, limit=10, until=house.now + 60_000_000)
    place.back_up(house)
    place.leave(house)
    place.clock.advance("5m")
    place.restore(catch_up=True)
    house = place.move_in("node-2")
    assert house.house.outbox.take(house.now, node="q", job_id=sent.job_id, number=sent.number) is None
    (again,) = house.house.outbox.hand_over(house.now, limit=10, until=house.now + 60_000_000)
    assert (again.job_id, again.number) == (sent.job_id, sent.number + 1)
    place.leave(house)


def test_subscribers_are_not_told_again_what_they_had_not_had_at_the_backup(place: Place) -> None:
    house = place.move_in()
    house.house.messages.subscribe(house.now, "inbox")
    house.add("reminder", every="1h", target=message_target({"text": "Presents!"}))
    house.step()
    place.back_up(house)
    place.leave(house)
    place.clock.advance("5m")
    place.restore()
    house = place.move_in("node-2")
    messages = house.house.messages
    held_until = house.now + 60_000_000
    assert messages.take(house.now, "inbox", node="n", limit=10, held_until=held_until) == []
    house.wait_and_step("55m")
    assert len(messages.take(house.now, "inbox", node="n", limit=10, held_until=held_until)) == 1
    place.leave(house)


def test_streams_go_on_behind_every_cursor_that_somebody_may_have(place: Place) -> None:
    house = place.move_in()
    house.add("a", every="1m")
    house.step()
    house.run()
    place.back_up(house)
    house.wait_and_step("1m")
    house.pause("a")
    last, newest = house.house.ledger.last_event_id(), max(job.row_id for job in house.jobs())
    place.leave(house)
    place.restore()
    house = place.move_in("node-2")
    assert house.house.ledger.events_after(last, limit=10)[0].event.type == "system.restored"
    house.wait_and_step("1m")
    assert house.jobs()[-1].row_id > newest
    place.leave(house)
