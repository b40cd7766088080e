"""Pings to a watcher elsewhere, over real HTTP: the protocols of Healthchecks and Sentry."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from uuid import UUID

import pytest

from everwhen.alerts.channels import open_channels
from everwhen.config.sections.notify import rules_in
from everwhen.engine.loop import Wake
from everwhen.engine.notifier import AlertOutbox
from everwhen.model.alerts import AlertDelivery, Channel, ChannelKind, DeliveryKind, Sent
from everwhen.model.outcome import Outcome, OutputPiece, OutputStream
from everwhen.store.opened import store_of
from everwhen.version import __version__
from tests.alerts.notifying import Watched, watched
from tests.targets.http_server import Answer, Server, a_server, status
from tests.targets.running import until

EXIT_3 = Outcome("failed", error="exit code 3: boom")


@contextmanager
def pinged(answer: Answer | None = None) -> Iterator[tuple[Watched, Server]]:
    with a_server(answer or status(200, "OK")) as server, watched() as world:
        world.rules = ()
        world.channels |= open_channels(world.scheduler.clock.now)
        world.notifier = world.new_notifier()
        yield world, server


def add(world: Watched, source: str = "config", **keys: Any) -> None:
    """Add a schedule with a watcher, and let the notifier see that there is one."""
    world.scheduler.add("s", source=source, **keys)
    world.scheduler.clock.advance(3)
    world.look()


def paths(server: Server) -> list[str]:
    return [request.path.partition("?")[0] for request in server.seen]


def run(world: Watched, outcome: Outcome, output: bytes = b"") -> None:
    """Run the job that is due, with a look of the notifier between its start and its end."""
    world.scheduler.tick()
    (claimed,) = world.scheduler.claim()
    world.pass_time(10, every=10)
    if output:
        piece = OutputPiece(OutputStream(claimed.job.job_id, 1, "stdout"), 0, output)
        store_of(world.scheduler.runtime).slots.write_output(world.scheduler.clock.now(), [piece], [])
    world.scheduler.settle(claimed, outcome)
    world.pass_time(10, every=10)
    world.pass_time(10, every=10)


def test_healthchecks_hears_of_the_start_and_the_end_of_each_run() -> None:
    with pinged() as (world, server):
        url = f"{server.url}/ping/my-job?create=1"
        add(world, every="1h", ping={"url": url, "output": "100B"})
        run(world, Outcome("succeeded"), b"x" * 200 + b"the end")
        assert paths(server) == ["/ping/my-job/start", "/ping/my-job"]
        assert all(request.path.partition("?")[2].startswith("create=1&rid=") for request in server.seen)
        assert len({request.path.partition("rid=")[2] for request in server.seen}) == 1
        assert UUID(server.seen[0].path.partition("rid=")[2]).version == 5
        assert {request.headers["user-agent"] for request in server.seen} == {f"everwhen/{__version__}"}
        body = server.seen[1].body.decode()
        assert body.startswith("job.succeeded\n")
        assert body.endswith("xthe end")
        assert len(body) == 100
        assert [
            one.type for one in world.scheduler.events() if "alert" in one.type or "ping" in one.type
        ] == []


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [(EXIT_3, "/3"), (Outcome("timed_out", error="timed out after 10m"), "/fail")],
)
def test_a_slot_that_failed_for_good_is_a_failure_and_one_with_a_retry_to_come_a_log(
    outcome: Outcome, expected: str
) -> None:
    with pinged() as (world, server):
        add(world, every="1h", max_retries=1, retry_delay="1m", ping={"url": f"{server.url}/p"})
        run(world, outcome)
        world.scheduler.clock.advance("1m")
        run(world, outcome)
        assert paths(server) == ["/p/start", "/p/log", "/p/start", f"/p{expected}"]
        assert b"boom" in server.seen[1].body or expected == "/fail"


def test_a_skipped_slot_is_a_log_and_a_manual_run_is_nothing() -> None:
    with pinged() as (world, server):
        add(world, every="1h", only_between="12:00-13:00", ping={"url": f"{server.url}/p"})
        world.pass_time(20)
        world.scheduler.trigger("s")
        world.pass_time(20)
        assert paths(server) == ["/p/log"]
        assert server.seen[0].body == b"schedule.skipped: outside_window\n"


def test_sentry_gets_its_status_and_the_configuration_of_its_monitor() -> None:
    with pinged() as (world, server):
        ping = {"url": f"{server.url}/api/1/cron/s/key/", "format": "sentry"}
        add(world, cron="0 * * * *", timezone="Europe/Berlin", timeout="20m", ping=ping)
        world.scheduler.run_until("2026-01-05T01:00:00Z", work=False)
        run(world, EXIT_3)
        start, end = server.seen
        assert start.path.startswith("/api/1/cron/s/key/?status=in_progress&check_in_id=")
        assert end.path.startswith("/api/1/cron/s/key/?status=error&check_in_id=")
        assert start.path.rpartition("=")[2] == end.path.rpartition("=")[2]
        assert start.json["monitor_config"] == {
            "schedule": {"type": "crontab", "value": "0 * * * *"},
            "timezone": "Europe/Berlin",
            "checkin_margin": 5,
            "max_runtime": 20,
        }


def test_the_configuration_of_a_monitor_is_sent_until_it_is_taken_and_when_it_changes() -> None:
    with pinged(status(500)) as (world, server):
        url = f"{server.url}/api/1/cron/s/key/"
        add(world, every="1h", timeout="20m", ping={"url": url, "format": "sentry"})
        run(world, Outcome("succeeded"))
        assert all(b"monitor_config" in request.body for request in server.seen)
        server.answer = status(200)
        world.pass_time(60)
        for timeout in ("20m", "30m"):
            world.scheduler.edit("s", every="1h", timeout=timeout, ping={"url": url, "format": "sentry"})
            world.scheduler.run_until(world.scheduler.state("s").next_slot_at or 0, work=False)
            run(world, Outcome("succeeded"))
        taken = server.seen[-6:]
        assert [b"monitor_config" in request.body for request in taken] == [True, *[False] * 3, True, False]
        assert [request.headers["content-type"].partition(";")[0] for request in taken[1:3]] == [
            "text/plain"
        ] * 2
        assert taken[4].json["monitor_config"]["max_runtime"] == 30


def test_a_body_fits_into_what_the_receiver_keeps_and_has_the_end_of_the_output() -> None:
    with pinged(status(200, "OK", Ping_Body_Limit="64")) as (world, server):
        add(world, every="1h", ping={"url": f"{server.url}/p", "output": "100KiB"})
        run(world, Outcome("succeeded"), "ü".encode() * 30_000 + b"the end")
        body = server.seen[1].body
        assert 62 <= len(body) <= 64
        assert body.startswith(b"job.succeeded\n")
        assert body.endswith(b"the end")
        server.answer = status(200, "OK", Ping_Body_Limit="nonsense")
        world.channels |= open_channels(world.scheduler.clock.now)  # of a new process
        world.notifier = world.new_notifier()
        world.scheduler.clock.advance("2m")
        world.scheduler.run_until(world.scheduler.state("s").next_slot_at or 0, work=False)
        run(world, Outcome("succeeded"), b"x" * 30_000)
        assert len(server.seen[-1].body) == 10_000


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"on_lost": "fail"}, ["/p/start", "/p/fail"]),
        ({"on_lost": "fail", "max_retries": 1, "retry_delay": "1h"}, ["/p/start", "/p/log"]),
        ({"on_lost": "rerun"}, ["/p/start", "/p/log", "/p/start", "/p"]),
    ],
    ids=["for good", "with a retry to come", "run again"],
)
def test_a_lost_job_is_a_failure_unless_its_slot_is_run_again(
    keys: dict[str, Any], expected: list[str]
) -> None:
    with pinged() as (world, server):
        add(world, every="24h", ping={"url": f"{server.url}/p"}, **keys)
        world.scheduler.beat()
        world.scheduler.tick()
        world.scheduler.claim()
        world.pass_time(10)
        world.scheduler.restart()
        world.scheduler.clock.advance("1m")
        world.scheduler.rescue()
        world.notifier = world.new_notifier()
        world.pass_time(70)
        assert paths(server) == expected
        ids = [request.path.partition("rid=")[2] for request in server.seen]
        assert ids[0] == ids[1]
        reason = b"job.lost: its worker died" if keys["on_lost"] == "fail" else b"job.lost\n"
        assert server.seen[1].body.startswith(reason)


def test_a_ping_is_tried_for_five_minutes_and_then_dropped_with_an_event() -> None:
    with pinged(status(503)) as (world, server):
        add(world, every="24h", ping={"url": f"{server.url}/p"})
        run(world, Outcome("succeeded"))
        world.pass_time(900)
        dropped = world.scheduler.events(None, "ping.dropped")
        assert len(dropped) == 2  # the start and the end, in order
        assert paths(server)[-1] == "/p"
        server.answer = status(200)
        known = len(server.seen)
        world.pass_time(60)
        assert len(server.seen) == known


def test_a_url_that_came_over_rest_reaches_public_addresses_only() -> None:
    with pinged() as (world, server):
        add(world, "api", every="1h", ping={"url": f"{server.url}/p"})
        run(world, Outcome("succeeded"))
        assert server.seen == []
        assert len(world.scheduler.events(None, "ping.dropped")) == 2


def test_watchers_that_hang_delay_no_alert_and_a_stop_forgets_none_that_waits_for_its_turn() -> None:
    free, sent = threading.Event(), list[str]()

    class Watcher:
        def send(self, _spec: object, delivery: AlertDelivery) -> Sent:
            free.wait(60)
            sent.append(delivery.rule)
            return Sent(True)

    with watched() as world:
        runtime, now = world.scheduler.runtime, world.scheduler.clock.now()
        channels: dict[ChannelKind, Channel] = {"ping": Watcher(), "http": world.inbox}
        outbox = AlertOutbox(runtime, lambda: world.rules, channels, Wake())

        def a_delivery(rule: str, kind: DeliveryKind) -> AlertDelivery:
            body = json.dumps({"title": rule})
            return AlertDelivery(
                0, f"id-{rule}", rule, kind, None, owner=None, body=body, created_at=now, next_at=now
            )

        pings = [a_delivery(f"ping:{number}", "ping") for number in range(20)]
        store_of(runtime).alerts.add([*pings, a_delivery("http", "opened")])
        try:
            outbox.send_due()
            until(lambda: world.titles == ["http"])
            outbox.close()  # of those that wait for a thread
        finally:
            free.set()

        def has_sent_all() -> bool:
            outbox.send_due()
            return len(set(sent)) == 20

        until(has_sent_all)
        outbox.close()


def test_watchers_of_one_owner_that_hang_delay_no_ping_of_another() -> None:
    """All threads hung for one owner, and the watchers of all others took their schedules for dead."""
    free, sent = threading.Event(), list[str]()

    class Watcher:
        def send(self, _spec: object, delivery: AlertDelivery) -> Sent:
            if delivery.owner == "mallory":
                free.wait(60)
            sent.append(delivery.rule)
            return Sent(True)

    with watched() as world:
        runtime, now = world.scheduler.runtime, world.scheduler.clock.now()
        outbox = AlertOutbox(runtime, lambda: world.rules, {"ping": Watcher()}, Wake())
        owners = ["mallory"] * 30 + ["alice"] * 10 + ["bob"]
        pings = [
            AlertDelivery(
                0,
                f"id-{number}",
                f"ping:{number}",
                "ping",
                None,
                owner=owner,
                body="{}",
                created_at=now,
                next_at=now,
            )
            for number, owner in enumerate(owners)
        ]
        store_of(runtime).alerts.add(pings)
        try:
            outbox.send_due()
            until(lambda: len(sent) == 11)
            assert set(sent) == {f"ping:{number}" for number in range(30, 41)}
        finally:
            free.set()
        until(lambda: len(sent) == 41)
        outbox.close()


def test_pings_are_sent_by_the_node_that_reads_them_and_alerts_by_theirs() -> None:
    with pinged() as (world, server):
        world.rules = rules_in([{"http": {"url": f"{server.url}/alerts"}, "group_wait": 0}])
        alerting, pinging = world.new_notifier("n1"), world.new_notifier("n2")
        alerting.step()  # before there is a ping
        world.scheduler.add("s", every="1h", source="config", ping={"url": f"{server.url}/p"})
        world.scheduler.clock.advance(3)
        pinging.step()
        runtime = store_of(world.scheduler.runtime)
        waiting = partial(AlertDelivery, 0, class_=None, owner=None, created_at=0, next_at=0)
        ping: dict[str, Any] = {
            "url": f"{server.url}/p",
            "source": "config",
            "path": "",
            "query": {},
            "text": "",
            "json": None,
        }
        body = {"title": "t", "text": "t"}
        runtime.alerts.add(
            [
                waiting(delivery_id="a", rule="http", kind="opened", body=json.dumps(body)),
                waiting(delivery_id="p", rule="ping:s", kind="ping", body=json.dumps(ping)),
            ]
        )
        alerting.step()
        assert paths(server) == ["/alerts"]
        pinging.step()
        assert paths(server) == ["/alerts", "/p"]


def test_a_new_notifier_goes_on_where_the_last_one_stopped() -> None:
    with pinged() as (world, server):
        add(world, every="1h", ping={"url": f"{server.url}/p"})
        world.scheduler.tick()
        (claimed,) = world.scheduler.claim()
        world.pass_time(10)
        world.notifier.release()
        world.scheduler.settle(claimed)
        world.notifier = world.new_notifier("n2")
        world.pass_time(20)
        assert paths(server) == ["/p/start", "/p"]


def test_a_ping_that_is_added_again_reports_no_run_of_the_time_without_one() -> None:
    with pinged() as (world, server):
        add(world, every="1h", ping={"url": f"{server.url}/p"})
        world.notifier.release()
        world.scheduler.edit("s", every="1h")
        world.notifier = world.new_notifier("n2")
        world.pass_time(3 * 3_600, every=600)
        world.scheduler.edit("s", every="1h", ping={"url": f"{server.url}/p"})
        world.pass_time(600, every=60)
        assert len(world.scheduler.jobs("s")) == 4 and paths(server) == []
        world.pass_time(3_600, every=600)
        assert paths(server) == ["/p/start", "/p"]
