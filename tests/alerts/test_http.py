"""Messages over HTTP, to a real server: what it answers decides whether and when a message is sent again."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from everwhen.alerts.http import HttpChannel
from everwhen.config.sections.notify import rules_in
from everwhen.model.alerts import AlertDelivery, AlertRule, Sent
from everwhen.model.events import Event
from everwhen.operations import stepping
from everwhen.operations.alerts import list_rules
from everwhen.store.opened import store_of
from tests.alerts.notifying import Watched, watched
from tests.targets.http_server import Answer, Seen, Server, a_server, reset, status

MINUTE = 60
NOW = 1_767_600_000_000_000
PATIENCE = 60.0  # seconds for an answer that comes


def a_delivery(title: str = "[everwhen] FAILING s: x", text: str = "t") -> AlertDelivery:
    body = json.dumps({"version": 1, "title": title, "text": text})
    return AlertDelivery(
        1, "d-1", "http", "opened", "schedule.failing", owner=None, body=body, created_at=0, next_at=0
    )


def send(server: Server, *, within: float = PATIENCE, **fields: object) -> Sent:
    return HttpChannel(lambda: NOW, timeout=within).send({"url": server.url, **fields}, a_delivery())


def hang(connection: socket.socket, _request: Seen) -> None:
    connection.recv(1)  # until the client gives up


def test_the_request_has_the_delivery_in_its_headers_and_the_generic_body(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PAGER_KEY", "s3cret-value")
    with a_server(status(200, "thanks, s3cret-value")) as server:
        sent = send(server, headers={"Authorization": "Bearer ${PAGER_KEY}"})
    assert sent == Sent(True, "HTTP 200: thanks, ***")
    (request,) = server.seen
    assert request.headers["idempotency-key"] == request.headers["everwhen-delivery-id"] == "d-1"
    assert request.headers["authorization"] == "Bearer s3cret-value"
    assert request.json["title"] == "[everwhen] FAILING s: x"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (status(429, "slow", Retry_After="90"), Sent(False, "HTTP 429: slow", retry_after=90_000_000)),
        (status(500), Sent(False, "HTTP 500")),
        (status(404, "gone"), Sent(False, "HTTP 404: gone", is_final=True)),
        (status(302, Location="/elsewhere"), Sent(False, "HTTP 302", is_final=True)),
    ],
)
def test_429_and_500_may_pass_and_other_refusals_are_final(answer: Answer, expected: Sent) -> None:
    with a_server(answer) as server:
        assert send(server) == expected


@pytest.mark.parametrize(
    ("answer", "within", "expected"), [(hang, 0.3, "no answer within 0.3s"), (reset, PATIENCE, "Error")]
)
def test_a_server_that_hangs_or_breaks_off_may_answer_later(
    answer: Answer, within: float, expected: str
) -> None:
    with a_server(answer) as server:
        sent = send(server, within=within, url=f"{server.url}/services/T0/B0/s3cret?key=s3cret")
    assert sent.answer.startswith("127.0.0.1: ") and "s3cret" not in sent.answer  # its path grants access
    assert not sent.is_delivered
    assert not sent.is_final
    assert expected in sent.answer


@pytest.mark.parametrize("url", ["ftp://h/s3cret", "http://:80/s3cret", "http://[/s3cret", "s3cret"])
def test_a_url_that_cannot_be_called_is_final_and_not_shown(url: str) -> None:
    sent = HttpChannel(lambda: NOW).send({"url": url}, a_delivery())
    assert sent.is_final and "s3cret" not in sent.answer


def test_a_variable_that_is_not_set_is_named_and_tried_again() -> None:
    sent = HttpChannel(lambda: NOW).send({"url": "${NO_SUCH_URL}"}, a_delivery())
    assert "NO_SUCH_URL" in sent.answer
    assert not sent.is_final


def test_a_url_from_outside_reaches_public_addresses_only() -> None:
    with a_server(status(200)) as server:
        assert send(server, source="api").is_final
        allowed = HttpChannel(lambda: NOW, allow_private_urls=lambda: True, timeout=PATIENCE)
        assert allowed.send({"url": server.url, "source": "api"}, a_delivery()).is_delivered
    assert len(server.seen) == 1


HOSTILE = (
    "<!channel> <@U1> <https://evil.example|pay> @everyone @here [pay](https://evil.example) discord.gg/evil "
    "_@all_ @@all"
)


def test_slack_and_discord_get_their_shapes_in_which_no_mention_or_link_of_a_job_acts() -> None:
    with a_server(status(200)) as server:
        for name in ("slack", "discord"):
            spec = {"url": server.url, "format": name}
            for title, text in ((HOSTILE, "see a_b_c"), ("x", "@" * 3_000)):
                HttpChannel(lambda: NOW, timeout=PATIENCE).send(spec, a_delivery(title, text))
    slack, _, discord, cut = (request.json for request in server.seen)
    assert "<" not in slack["text"] and ">" not in slack["text"]
    assert not re.search("@(everyone|here|all)", slack["text"]) and "](" not in slack["text"]
    assert (slack["parse"], slack["link_names"], slack["mrkdwn"]) == ("none", False, False)
    assert (slack["unfurl_links"], slack["unfurl_media"]) == (False, False)
    assert (discord["allowed_mentions"], discord["flags"]) == ({"parse": []}, 4)
    for markup in ("<", "@", "[", "_", "/"):
        assert discord["content"].count(markup) == discord["content"].count(f"\\{markup}")
    assert re.sub(r"\\(\W|_)", r"\1", discord["content"]) == f"{HOSTILE}\nsee a_b_c"  # as it is shown
    assert len(cut["content"]) <= 2_000 and cut["content"].endswith("\\@…")


# -- the outbox, with a real server behind it --


@contextmanager
def sent_by_http(answer: Answer) -> Iterator[tuple[Watched, Server]]:
    with a_server(answer) as server, watched({"http": {"url": server.url}, "group_wait": 0}) as world:
        world.channels["http"] = HttpChannel(world.scheduler.clock.now, timeout=PATIENCE)
        world.notifier = world.new_notifier()
        yield world, server


def stall(world: Watched, node: str = "n7") -> None:
    event = Event("scheduler.stalled", world.scheduler.clock.now(), detail={"node": node, "reason": "locked"})
    stepping.record_event(world.scheduler.runtime, event)


def ids(server: Server) -> list[str]:
    return [request.headers["everwhen-delivery-id"] for request in server.seen]


def test_a_message_is_repeated_after_growing_pauses_under_the_same_id() -> None:
    with sent_by_http(status(500)) as (world, server):
        stall(world)
        world.look()
        at = []
        for second in range(0, 30 * MINUTE, 10):
            known = len(server.seen)
            world.pass_time(10)
            at += [second + 10] * (len(server.seen) - known)
        assert at == [10, 40, 100, 400, 1_300]
        assert len(set(ids(server))) == 1
        server.answer = status(200)
        world.pass_time(60 * MINUTE, every=60)
        assert len(server.seen) == 7
        assert [one.type for one in world.scheduler.events() if one.type.startswith("alert.")] == [
            "alert.sent"
        ]


def test_a_message_is_given_up_after_a_day_and_another_rule_tells_of_that() -> None:
    with sent_by_http(status(503)) as (world, server):
        world.rules = (*world.rules, *second_rule())
        stall(world)
        world.pass_time(26 * 3_600, every=300)
        failed = [one for one in world.scheduler.events() if one.type == "alert.failed"]
        assert [one.detail["rule"] for one in failed] == ["http"]
        titles = [title for title in world.titles if "ALERT FAILED" in title]
        assert titles == ["ALERT FAILED http: a message could not be delivered"]
        server.answer = status(200)
        stall(world, "n8")
        world.pass_time(2 * 3_600, every=300)
        assert any(title.startswith("RESOLVED http: delivered again") for title in world.titles)


def test_the_failure_of_a_rule_that_left_the_file_is_over() -> None:
    with sent_by_http(status(404)) as (world, _):
        world.rules = (*world.rules, *second_rule())
        stall(world)
        world.pass_time(60)
        assert world.titles[-1] == "ALERT FAILED http: a message could not be delivered"
        tried = store_of(world.scheduler.runtime).alerts.deliveries(rule="http", owner=None, limit=9)
        assert [one.class_ for one in tried] == ["scheduler.stalled"]  # it does not tell of itself
        world.rules = second_rule()
        world.pass_time(60)
        assert world.titles[-1].startswith("RESOLVED http: the rule is gone")


def second_rule() -> tuple[AlertRule, ...]:
    return rules_in([{"name": "mail", "command": ["true"], "group_wait": 0}])


def test_messages_of_a_rule_are_sent_in_order_and_retry_after_is_obeyed() -> None:
    with sent_by_http(status(429, Retry_After="120")) as (world, server):
        stall(world, "n1")
        world.look()
        stall(world, "n2")
        world.pass_time(110)
        assert len(server.seen) == 1
        (rule,) = list_rules(world.scheduler.runtime, world.rules)
        assert (
            rule.last is not None and rule.last.error == "HTTP 429"
        )  # of the first, for which the second waits
        server.answer = status(200)
        world.pass_time(20)
        subjects = [request.json["alert"]["key"].split()[-1] for request in server.seen]
        assert subjects == ["n1", "n1", "n2"]


class Dying:
    """A channel whose process ends, before the message is sent or after it."""

    def __init__(self, channel: HttpChannel, *, is_sent: bool) -> None:
        self._channel, self._is_sent = channel, is_sent

    def send(self, spec: Mapping[str, Any], delivery: AlertDelivery) -> Sent:
        if self._is_sent:
            self._channel.send(spec, delivery)
        raise KeyboardInterrupt


@pytest.mark.parametrize("is_sent", [False, True], ids=["before it is sent", "before it is confirmed"])
def test_a_crash_behind_the_commit_forgets_nothing_and_keeps_the_id(is_sent: bool) -> None:
    with sent_by_http(status(200)) as (world, server):
        stall(world)
        channel = world.channels["http"]
        world.channels["http"] = Dying(channel, is_sent=is_sent)
        with pytest.raises(KeyboardInterrupt):
            world.look()
        world.channels["http"] = channel
        world.scheduler.clock.advance("2m")  # its hold runs out
        world.notifier = world.new_notifier("n2")
        world.look()
        assert len(server.seen) == (2 if is_sent else 1)
        assert len(set(ids(server))) == 1
        assert store_of(world.scheduler.runtime).alerts.pending() == []
