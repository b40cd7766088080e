"""Event webhooks on every store, sent to a real server: signed, in order, at least once, under one id."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from everwhen.alerts.webhook import WebhookPoster
from everwhen.api.routes.hooks import signatures_in
from everwhen.engine import webhooks as engine
from everwhen.engine.webhooks import CURSOR, WebhookSender
from everwhen.errors import StoreError, WebhookQuotaError
from everwhen.model.alerts import Sent
from everwhen.model.instants import HOUR, SECOND
from everwhen.model.token import AccessRole, Token
from everwhen.model.webhooks import MOST_WEBHOOKS, Webhook, WebhookDelivery
from everwhen.operations.access import Caller
from everwhen.operations.tokens import create_token, revoke_token
from everwhen.operations.webhooks import (
    WebhookChanges,
    change_webhook,
    create_webhook,
    delete_webhook,
    get_webhook,
)
from tests.conformance.tenant import FAILED, Tenant
from tests.targets.http_server import Server, a_server, status

SECRET = "only the receiver knows this"


def token_of(runtime: Tenant, owner: str | None = None, role: AccessRole = "operator") -> Token:
    return create_token(runtime.runtime, "t", role, owner=owner).token


def sender_of(runtime: Tenant) -> WebhookSender:
    post = WebhookPoster(lambda: runtime.now, lambda: True)
    return WebhookSender(runtime.runtime, post, node=lambda: runtime.node, is_threaded=False)


def deliver(sender: WebhookSender, runtime: Tenant) -> None:
    """Let the sender work until nothing is left to do at this instant."""
    runtime.wait("3s")
    for _ in range(4):
        while sender.step():
            pass


def webhook_to(
    runtime: Tenant, server: Server, *on: str, owner: str | None = None, token: Token | None = None
) -> tuple[Webhook, Caller]:
    caller = Caller(token or token_of(runtime, owner))
    made = create_webhook(runtime.runtime, server.url, on or ("all",), caller, secret=SECRET)
    assert made.secret is None
    return made.webhook, caller


def events_in(server: Server) -> list[dict[str, Any]]:
    return [event for request in server.seen for event in request.json["events"]]


def types_in(server: Server) -> list[str]:
    return [event["type"] for event in events_in(server)]


@contextmanager
def sending(
    runtime: Tenant, *on: str, owner: str | None = None
) -> Iterator[tuple[Server, WebhookSender, Webhook]]:
    with a_server(status(200)) as server:
        webhook, _ = webhook_to(runtime, server, *on, owner=owner)
        sender = sender_of(runtime)
        yield server, sender, webhook
        sender.release()


def fire(runtime: Tenant, name: str = "s", **keys: Any) -> None:
    runtime.add(name, every="1h", **keys)
    runtime.step()
    for job in runtime.claim():
        runtime.settle(job, outcome=FAILED)


def test_events_firings_starts_and_ends_arrive_once_in_order_and_signed(runtime: Tenant) -> None:
    with sending(runtime) as (server, sender, webhook):
        fire(runtime)
        deliver(sender, runtime)
        expected = "webhook.created schedule.created schedule.failing schedule.fired job.started job.failed"
        assert types_in(server) == expected.split()
        (request,) = server.seen
        assert request.json["webhook"] == request.headers["everwhen-webhook-id"] == webhook.webhook_id
        assert request.json["delivery"] == request.headers["everwhen-delivery-id"]
        signature = signatures_in(request.headers, runtime.now)["everwhen"]
        assert signature.key(SECRET, request.body) is not None
        assert signature.key("another", request.body) is None
        deliver(sender, runtime)
        assert len(server.seen) == 1
        found = runtime.runtime.webhooks.find(webhook.webhook_id)
        assert found is not None
        assert (found.state, found.delivered, found.delivery_id) == ("active", 1, None)


def test_a_webhook_gets_the_types_and_the_owner_that_it_is_for(runtime: Tenant) -> None:
    with sending(runtime, "job.failed", "schedule.*", owner="ada") as (server, sender, _):
        fire(runtime, "of-ada", owner="ada")
        fire(runtime, "of-bob", owner="bob")
        fire(runtime, "of-nobody")
        deliver(sender, runtime)
        assert {event["schedule_id"] for event in events_in(server)} == {"of-ada"}
        assert set(types_in(server)) == {
            "schedule.created",
            "schedule.fired",
            "schedule.failing",
            "job.failed",
        }


def test_a_delivery_that_failed_is_sent_again_under_its_id_and_nothing_is_forgotten(runtime: Tenant) -> None:
    with sending(runtime, "schedule.created") as (server, sender, webhook):
        server.answer = status(429, "busy", Retry_After="120")
        fire(runtime, "one")
        deliver(sender, runtime)
        fire(runtime, "two")
        runtime.wait("1m")
        deliver(sender, runtime)
        assert len(server.seen) == 1
        found = runtime.runtime.webhooks.find(webhook.webhook_id)
        assert found is not None
        assert (found.state, found.attempts, found.error) == ("failing", 1, "HTTP 429: busy")
        server.answer = status(200)
        runtime.wait("1m")
        deliver(sender, runtime)
        first, again, other = server.seen
        assert first.body == again.body
        assert first.headers["everwhen-delivery-id"] == again.headers["everwhen-delivery-id"]
        assert first.headers["everwhen-signature"] != again.headers["everwhen-signature"]
        assert other.headers["everwhen-delivery-id"] != again.headers["everwhen-delivery-id"]
        assert [event["schedule_id"] for event in events_in(server)] == ["one", "one", "two"]


def test_a_node_that_ends_between_sending_and_recording_sends_the_same_delivery_again(
    runtime: Tenant,
) -> None:
    with sending(runtime, "schedule.created") as (server, sender, _):
        fire(runtime)

        def post(delivery: WebhookDelivery, now: int) -> Sent:
            assert WebhookPoster(lambda: now, lambda: True)(delivery, now).is_delivered
            raise SystemExit  # the process ends here

        dying = WebhookSender(runtime.runtime, post, node=lambda: runtime.node, is_threaded=False)
        runtime.wait("3s")
        with pytest.raises(SystemExit):
            while True:
                dying.step()
        other = runtime.neighbour()
        sender = sender_of(other)
        deliver(sender, other)
        assert len(server.seen) == 1  # the first node holds the lease
        runtime.wait("2m")
        deliver(sender, other)
        first, again = server.seen
        assert first.body == again.body
        assert first.headers["idempotency-key"] == again.headers["idempotency-key"]
        sender.release()


def test_a_write_that_fails_loses_no_event(runtime: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    with sending(runtime, "schedule.created") as (server, sender, _):
        runtime.wait("3s")
        sender.step()
        fire(runtime)

        def broken(*_: object) -> None:
            raise StoreError("the disk is full")

        with monkeypatch.context() as patch:
            runtime.runtime.webhooks.has_any()  # it is built when it is first used
            patch.setattr(type(runtime.runtime.webhooks._built), "advance", broken)  # type: ignore[attr-defined]
            with pytest.raises(StoreError):
                sender.step()
        deliver(sender, runtime)
        assert types_in(server) == ["schedule.created"]


def test_a_node_that_lost_the_lease_writes_nothing(runtime: Tenant) -> None:
    with sending(runtime, "schedule.created") as (server, sender, webhook):
        runtime.wait("3s")
        sender.step()
        runtime.wait("2m")
        cursors = runtime.runtime.event_cursors
        assert cursors.take(runtime.now, CURSOR, node="n2", held_until=runtime.now + HOUR) is not None
        fire(runtime)
        sender.step()
        assert server.seen == []
        found = runtime.runtime.webhooks.find(webhook.webhook_id)
        assert found is not None and found.delivery_id is None


def test_a_node_that_may_not_reach_an_address_leaves_its_webhook_to_one_that_may(runtime: Tenant) -> None:
    with sending(runtime, "schedule.created") as (server, allowed, webhook):
        other = runtime.neighbour()
        poster = WebhookPoster(lambda: runtime.now, lambda: False)
        program = WebhookSender(other.runtime, poster, node=lambda: other.node, is_threaded=False)
        fire(runtime)
        deliver(program, runtime)
        found = runtime.runtime.webhooks.find(webhook.webhook_id)
        assert found is not None and found.attempts == 1 and "is not a public address" in str(found.error)
        program.step()  # it gives way
        runtime.wait("10s")
        for node in (runtime, other):
            node.beat()
        deliver(program, runtime)
        assert server.seen == []
        deliver(allowed, runtime)
        assert types_in(server) == ["schedule.created"]


def test_a_node_that_may_not_reach_an_address_and_is_alone_goes_on_with_the_others(runtime: Tenant) -> None:
    with a_server(status(200)) as server:
        webhook_to(runtime, server, "schedule.created")
        poster = WebhookPoster(lambda: runtime.now, lambda: False)
        program = WebhookSender(runtime.runtime, poster, node=lambda: runtime.node, is_threaded=False)
        fire(runtime)
        deliver(program, runtime)
        runtime.wait("10s")
        deliver(program, runtime)
        (webhook,) = runtime.runtime.webhooks.all()
        assert webhook.attempts == 2
        program.release()


def test_a_day_of_failures_switches_a_webhook_off_and_it_goes_on_where_it_stopped(runtime: Tenant) -> None:
    with a_server(status(404)) as server:
        webhook, caller = webhook_to(runtime, server, "schedule.created")
        sender = sender_of(runtime)
        fire(runtime, "one")
        deliver(sender, runtime)
        for _ in range(30):
            runtime.wait("1h")
            deliver(sender, runtime)
        found = runtime.runtime.webhooks.find(webhook.webhook_id)
        assert found is not None
        assert (found.state, found.off_reason, found.error) == ("off", "failures", "HTTP 404")
        assert found.off_at is not None and found.failing_since is not None
        assert 24 * HOUR <= found.off_at - found.failing_since < 25 * HOUR
        tries = len(server.seen)
        assert 24 <= tries <= 32
        (off,) = runtime.events(None, "webhook.disabled")
        (failed,) = runtime.events(None, "alert.failed")
        assert (off.reason, off.detail["webhook"]) == ("failures", webhook.webhook_id)
        assert failed.detail["rule"] == webhook.rule
        fire(runtime, "two")
        server.answer = status(200)
        deliver(sender, runtime)
        assert len(server.seen) == tries
        change_webhook(runtime.runtime, webhook.webhook_id, WebhookChanges(active=True), caller)
        deliver(sender, runtime)
        assert [event["schedule_id"] for event in events_in(server)[tries - 1 :]] == ["one", "one", "two"]
        sender.release()


def test_a_webhook_that_is_switched_on_again_starts_with_a_clean_count(runtime: Tenant) -> None:
    with a_server(status(404)) as server:
        webhook, caller = webhook_to(runtime, server, "schedule.created")
        sender, webhooks = sender_of(runtime), runtime.runtime.webhooks
        fire(runtime)
        deliver(sender, runtime)
        for _ in range(30):
            runtime.wait("1h")
            deliver(sender, runtime)
        off = webhooks.find(webhook.webhook_id)
        assert off is not None and off.state == "off" and off.attempts > 20
        runtime.wait("2h")
        change_webhook(runtime.runtime, webhook.webhook_id, WebhookChanges(active=True), caller)
        began, asked = runtime.now, len(server.seen)
        on = webhooks.find(webhook.webhook_id)
        assert on is not None and (on.attempts, on.failing_since, on.next_at, on.error) == (
            0,
            None,
            None,
            None,
        )
        deliver(sender, runtime)
        assert len(server.seen) == asked + 1  # at once
        found = webhooks.find(webhook.webhook_id)
        assert found is not None and found.state != "off"  # a day of failures begins anew
        assert found.attempts == 1
        assert found.failing_since is not None and found.failing_since >= began
        assert found.next_at is not None and found.next_at - runtime.now <= 10 * SECOND
        sender.release()


def test_a_webhook_ends_with_its_token_and_another_token_takes_it_over(runtime: Tenant) -> None:
    with a_server(status(200)) as server:
        webhook, caller = webhook_to(runtime, server, "schedule.created", owner="ada")
        sender = sender_of(runtime)
        deliver(sender, runtime)
        revoke_token(runtime.runtime, caller.token.token_id)
        fire(runtime, owner="ada")
        deliver(sender, runtime)
        assert server.seen == []
        found = runtime.runtime.webhooks.find(webhook.webhook_id)
        assert found is not None and found.off_reason == "token"
        other = Caller(token_of(runtime, "ada"))
        change_webhook(runtime.runtime, webhook.webhook_id, WebhookChanges(active=True), other)
        deliver(sender, runtime)
        assert types_in(server) == ["schedule.created"]
        assert get_webhook(runtime.runtime, webhook.webhook_id, other).token_id == other.token.token_id
        sender.release()


def test_a_token_has_at_most_twenty_webhooks(runtime: Tenant) -> None:
    with a_server(status(200)) as server:
        token = token_of(runtime)
        made = [webhook_to(runtime, server, token=token) for _ in range(MOST_WEBHOOKS)]
        with pytest.raises(WebhookQuotaError):
            webhook_to(runtime, server, token=token)
        delete_webhook(runtime.runtime, made[0][0].webhook_id, made[0][1])
        webhook_to(runtime, server, token=token)
        webhook_to(runtime, server)  # of another token


def test_a_delivery_is_bounded_and_the_rest_follows(runtime: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "MOST_EVENTS", 3)
    with sending(runtime, "schedule.created") as (server, sender, _):
        for number in range(8):
            runtime.add(f"s{number}", every="1h")
        monkeypatch.setattr(engine, "PORTION", 5)
        deliver(sender, runtime)
        assert [len(request.json["events"]) for request in server.seen] == [3, 3, 2]
        assert [event["schedule_id"] for event in events_in(server)] == [f"s{number}" for number in range(8)]


def test_other_types_are_wanted_from_the_change_on(runtime: Tenant) -> None:
    with a_server(status(200)) as server:
        webhook, caller = webhook_to(runtime, server, "breaker.*")
        sender = sender_of(runtime)
        fire(runtime, "one")
        deliver(sender, runtime)
        change_webhook(runtime.runtime, webhook.webhook_id, WebhookChanges(on=["job.failed"]), caller)
        fire(runtime, "two")
        deliver(sender, runtime)
        assert [(e["type"], e["schedule_id"]) for e in events_in(server)] == [("job.failed", "two")]
        sender.release()
