"""What a restore ends beside jobs: approvals, sessions, messages on their way; and where streams go on."""

from __future__ import annotations

import psycopg

from everwhen.decide.approval import request
from everwhen.model.event_cursor import EventCursor
from everwhen.model.message import message_target
from everwhen.operations.event_feed import facts_of
from everwhen.operations.listening import position_now, position_of, steps_after
from everwhen.operations.requests import execute_requests, get_request, request_trigger, submit_request
from everwhen.operations.tokens import begin_session, create_token, find_session
from tests.restore.places import Place


def test_waiting_approvals_and_sessions_are_over(place: Place) -> None:
    runtime = place.move_in()
    runtime.add("asked", every="1h")
    runtime.add("b", every="1h")
    runtime.change("asked", lambda schedule, now, shared: request(schedule, now, shared, actor="token x"))
    token = create_token(runtime.runtime, "t", "admin").token
    secret = begin_session(runtime.runtime, token).secret
    place.back_up(runtime)
    place.leave(runtime)
    place.clock.advance("5m")
    restored = place.restore()
    assert (restored.approvals, restored.sessions) == (1, 1)
    runtime = place.move_in("node-2")
    assert runtime.runtime.catalogue.get("asked") is None
    (declined,) = runtime.events("asked", "schedule.declined")
    assert (declined.actor, declined.detail["note"]) == ("restore", "a backup was restored")
    assert find_session(runtime.runtime, secret) is None
    assert runtime.check().is_clean, runtime.check()
    place.leave(runtime)


def test_requests_that_waited_are_refused_because_they_may_have_been_carried_out(
    postgres_place: Place,
) -> None:
    place = postgres_place
    runtime = place.move_in()
    runtime.add("a", every="24h")
    wanted = request_trigger(runtime.runtime, "a", payload=None, if_running="queue")
    with psycopg.connect(place.url) as connection:
        submit_request(runtime.runtime, wanted, connection)
    place.back_up(runtime)
    assert execute_requests(runtime.runtime) == 1
    place.leave(runtime)
    place.clock.advance("5m")
    place.restore()
    runtime = place.move_in("node-2")
    assert execute_requests(runtime.runtime) == 0
    request = get_request(runtime.runtime, wanted.request.request_id)
    assert request is not None
    assert (request.status, request.error) == ("refused", "a backup was restored")
    (event,) = runtime.events("a", "request.refused")
    assert event.detail["request_id"] == request.request_id
    place.leave(runtime)


def test_no_message_in_a_queue_counts_any_more(place: Place) -> None:
    runtime = place.move_in()
    runtime.add("a", every="1h")
    runtime.step()
    (sent,) = runtime.runtime.outbox.hand_over(runtime.now, limit=10, until=runtime.now + 60_000_000)
    place.back_up(runtime)
    place.leave(runtime)
    place.clock.advance("5m")
    place.restore()
    runtime = place.move_in("node-2")
    assert runtime.runtime.outbox.on_its_way(sent.job_id) is None
    assert runtime.runtime.outbox.take(runtime.now, node="q", job_id=sent.job_id, number=sent.number) is None
    assert runtime.job(sent.job_id).status == "cancelled"
    place.leave(runtime)


def test_with_catch_up_a_job_is_handed_over_anew_and_the_old_message_does_not_count(place: Place) -> None:
    runtime = place.move_in()
    runtime.add("a", every="1h")
    runtime.step()
    (sent,) = runtime.runtime.outbox.hand_over(runtime.now, limit=10, until=runtime.now + 60_000_000)
    place.back_up(runtime)
    place.leave(runtime)
    place.clock.advance("5m")
    place.restore(catch_up=True)
    runtime = place.move_in("node-2")
    assert runtime.runtime.outbox.take(runtime.now, node="q", job_id=sent.job_id, number=sent.number) is None
    (again,) = runtime.runtime.outbox.hand_over(runtime.now, limit=10, until=runtime.now + 60_000_000)
    assert (again.job_id, again.number) == (sent.job_id, sent.number + 1)
    place.leave(runtime)


def test_subscribers_do_not_get_again_what_they_had_not_had_at_the_backup(place: Place) -> None:
    runtime = place.move_in()
    runtime.runtime.messages.subscribe(runtime.now, "inbox")
    runtime.add("reminder", every="1h", target=message_target({"text": "Presents!"}))
    runtime.step()
    place.back_up(runtime)
    place.leave(runtime)
    place.clock.advance("5m")
    place.restore()
    runtime = place.move_in("node-2")
    messages = runtime.runtime.messages
    held_until = runtime.now + 60_000_000
    assert messages.take(runtime.now, "inbox", node="n", limit=10, held_until=held_until) == []
    runtime.wait_and_step("55m")
    assert len(messages.take(runtime.now, "inbox", node="n", limit=10, held_until=held_until)) == 1
    place.leave(runtime)


def test_a_named_listener_goes_on_from_the_backup_and_nobody_holds_its_cursor(place: Place) -> None:
    runtime = place.move_in()
    position = position_now(runtime.runtime, follows=True)
    cursors, minute = runtime.runtime.event_cursors, 60_000_000
    cursors.create(runtime.now, position.stored_in(EventCursor("audit", 0, 0)))
    held = cursors.take(runtime.now, "audit", node=runtime.node, held_until=runtime.now + minute * 60)
    assert held is not None
    runtime.add("a", every="1m")
    runtime.step()
    place.back_up(runtime)
    assert cursors.save(runtime.now, held._replace(event_row=held.event_row + 1)) is not None
    place.leave(runtime)
    place.clock.advance("5m")
    place.restore()
    runtime = place.move_in("node-2")
    cursors = runtime.runtime.event_cursors
    assert cursors.save(runtime.now, held._replace(fence=held.fence + 1)) is None  # of before the restore
    found = cursors.take(runtime.now, "audit", node=runtime.node, held_until=runtime.now + minute)
    assert found is not None
    heard = steps_after(runtime.runtime, position_of(runtime.runtime, found, follows=True), limit=100)
    kinds = [facts_of(step.entry).type for step in heard if step.entry is not None]
    assert kinds[:2] == ["schedule.created", "schedule.fired"]
    assert {"system.restored", "job.cancelled"} <= set(kinds)
    place.leave(runtime)


def test_streams_go_on_behind_every_cursor_that_somebody_may_have(place: Place) -> None:
    runtime = place.move_in()
    runtime.add("a", every="1m")
    runtime.step()
    runtime.run()
    place.back_up(runtime)
    runtime.wait_and_step("1m")
    runtime.pause("a")
    last, newest = runtime.runtime.ledger.last_event_id(), max(job.row_id for job in runtime.jobs())
    place.leave(runtime)
    place.restore()
    runtime = place.move_in("node-2")
    assert runtime.runtime.ledger.events_after(last, limit=10)[0].event.type == "system.restored"
    runtime.wait_and_step("1m")
    assert runtime.jobs()[-1].row_id > newest
    place.leave(runtime)
