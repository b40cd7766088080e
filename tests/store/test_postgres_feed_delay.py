"""An open transaction delays the event feed on PostgreSQL: who is told, what it is called, and that it is over."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from everwhen.config.sections.notify import rules_in
from everwhen.engine.notifier import Notifier
from everwhen.engine.watches import FeedWatch
from everwhen.model.events import EventType
from everwhen.model.instants import SECOND
from everwhen.model.queries import AlertFilter, EventFilter
from everwhen.store import feed_delay
from everwhen.store.opened import OpenStore, store_of
from everwhen.testing import ManualClock
from everwhen.wiring import open_stack
from tests.alerts.notifying import Inbox
from tests.api.serving import serving

QUERY = "INSERT INTO settings (key, value) VALUES ('password', 'only the owner knows this')"
APPLICATION = "nightly-export"


@contextmanager
def opened(url: str, clock: ManualClock) -> Iterator[OpenStore]:
    with closing(open_stack(url, clock=clock)) as stack:
        yield store_of(stack.runtime)


@contextmanager
def a_transaction(url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(url, application_name=APPLICATION) as connection:
        connection.execute(QUERY)
        yield connection
        connection.rollback()


def types_of(store: OpenStore) -> list[str]:
    found = store.ledger.events(
        EventFilter(types=("scheduler.feed_delayed", "scheduler.feed_resumed")), limit=9
    )
    return [one.event.type.partition(".")[2] for one in reversed(found)]


def test_it_is_named_after_half_a_minute_and_gone_with_its_end(postgres_url: str) -> None:
    clock = ManualClock()
    with opened(postgres_url, clock) as store:
        assert store.feed_delays.look() is None
        with a_transaction(postgres_url) as other:
            clock.advance("2s")
            assert store.feed_delays.look() is None
            clock.advance("29s")
            assert store.feed_delays.look() is None
            clock.advance("2s")
            found = store.feed_delays.look()
            assert found is not None
            assert (found.pid, found.application, found.seconds) == (other.info.backend_pid, APPLICATION, 31)
        clock.advance("2s")
        assert store.feed_delays.look() is None


def test_transactions_one_after_another_and_one_that_only_reads_delay_nothing(postgres_url: str) -> None:
    clock = ManualClock()
    with opened(postgres_url, clock) as store, psycopg.connect(postgres_url) as reader:
        reader.execute("SELECT count(*) FROM settings")
        for _ in range(4):
            with a_transaction(postgres_url):
                assert store.feed_delays.look() is None
                clock.advance("20s")
                assert store.feed_delays.look() is None
            clock.advance("20s")
        clock.advance("1h")
        assert store.feed_delays.look() is None


def test_a_role_that_sees_no_other_role_names_it_too(postgres_url: str) -> None:
    clock = ManualClock()
    with opened(postgres_url, clock):
        pass
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        admin.execute("DROP ROLE IF EXISTS modest")
        admin.execute("CREATE ROLE modest")
        admin.execute("GRANT modest TO CURRENT_USER")
        try:
            admin.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO modest")
            modest = f"{postgres_url}{'&' if '?' in postgres_url else '?'}options=-c%20role%3Dmodest"
            with closing(open_stack(modest, clock=clock, is_existing=True)) as stack:
                delays = store_of(stack.runtime).feed_delays
                with a_transaction(postgres_url) as other:
                    assert delays.look() is None
                    clock.advance("31s")
                    found = delays.look()
                    assert found is not None
                    assert (found.pid, found.seconds) == (other.info.backend_pid, 31)
        finally:
            admin.execute("DROP OWNED BY modest")
            admin.execute("DROP ROLE modest")


def test_one_scheduler_records_the_delay_and_its_end_once(
    postgres_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    clock = ManualClock()
    with opened(postgres_url, clock) as store:
        for node in ("n1", "n2"):
            store.slots.heartbeat(clock.now(), node=node, version="test", is_scheduler=True)
        first, second = FeedWatch(store), FeedWatch(store)
        first.step("n1")
        with a_transaction(postgres_url):
            clock.advance("2s")
            first.step("n1")
            clock.advance("31s")
            for _ in range(2):
                second.step("n2")
                first.step("n1")
            restarted = FeedWatch(store)
            restarted.step("n1")
            assert types_of(store) == ["feed_delayed"]
        clock.advance("2s")
        restarted.step("n1")
        restarted.step("n1")
        assert types_of(store) == ["feed_delayed", "feed_resumed"]
        delayed: EventType = "scheduler.feed_delayed"
        (event,) = store.ledger.events(EventFilter(types=(delayed,)), limit=9)
        assert event.event.detail["application"] == APPLICATION
        assert "only the owner" not in caplog.text + str(event)


def test_the_notifier_tells_of_it_although_the_feed_stands_still(postgres_url: str) -> None:
    clock, inbox = ManualClock(), Inbox()
    rules = rules_in([{"http": {"url": "http://inbox"}, "group_wait": 0, "cooldown": 0}])
    with opened(postgres_url, clock) as store:
        notifier = Notifier(store, lambda: rules, {"http": inbox}, node=lambda: "n1", is_threaded=False)
        notifier.begin()
        watch = FeedWatch(store)

        def pass_time() -> None:
            for _ in range(5):
                clock.advance("10s")
                store.slots.heartbeat(clock.now(), node="n1", version="test", is_scheduler=True)
                watch.step("n1")
                notifier.step()

        pass_time()
        with a_transaction(postgres_url) as other:
            pass_time()
            assert inbox.titles == ["FEED DELAYED everwhen: an open transaction delays the feed of events"]
            (message,) = inbox.messages
            assert f"a transaction of {APPLICATION}, pid {other.info.backend_pid}" in message["text"]
            assert "only the owner" not in str(message)
            assert store.alerts.list(AlertFilter(), limit=9)[0].state == "open"
        pass_time()
        (resolved,) = inbox.titles[1:]
        assert resolved.startswith("RESOLVED everwhen: the transaction has ended")
        pass_time()  # the feed has caught up with the events about it, which open nothing
        assert types_of(store) == ["feed_delayed", "feed_resumed"]
        assert len(inbox.messages) == 2
        notifier.release()


def test_status_readiness_and_metrics_name_it(postgres_url: str, tmp_path: Path) -> None:
    clock = ManualClock()
    with serving(tmp_path, url=postgres_url, clock=clock) as service:
        bare = replace(service.nobody, prefix="")

        def metrics() -> list[str]:
            return [
                line
                for line in bare.get("/metrics").raw.decode().splitlines()
                if line.startswith("everwhen_feed")
            ]

        assert bare.get("/readyz").fields == {"status": "ready", "reason": None}
        assert metrics() == ["everwhen_feed_delay_seconds 0.0"]
        with a_transaction(postgres_url) as other:
            clock.advance("2s")
            bare.get("/readyz")
            clock.advance("40s")
            ready = bare.get("/readyz")
            assert (ready.status, ready.fields["status"]) == (200, "ready")
            pid = other.info.backend_pid
            sentence = (
                f"the event feed is delayed: a transaction of {APPLICATION}, pid {pid}, has been open for 40s; end it, "
                "and the feed goes on"
            )
            assert ready.fields["detail"] == sentence
            status = service.admin.get("/system/status/")
            assert status.fields["feed_delay"] == {"pid": pid, "application": APPLICATION, "seconds": 40}
            assert sentence in status.fields["problems"]
            assert metrics() == [
                "everwhen_feed_delay_seconds 40.0",
                f'everwhen_feed_delay_info{{application="{APPLICATION}",pid="{pid}"}} 1.0',
            ]
            assert not any(b"only the owner" in bare.get(path).raw for path in ("/readyz", "/metrics"))
            assert b"only the owner" not in status.raw
        clock.advance("40s")
        assert bare.get("/readyz").fields == {"status": "ready", "reason": None}
        assert service.admin.get("/system/status/").fields["feed_delay"] is None
        assert metrics() == ["everwhen_feed_delay_seconds 0.0"]


def test_a_process_that_has_just_begun_to_look_believes_the_age(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command that looks once cannot wait for half a minute."""
    monkeypatch.setattr(feed_delay, "DELAYED_AFTER", 0)
    with opened(postgres_url, ManualClock()) as store, a_transaction(postgres_url):
        found = store.feed_delays.look()
        assert found is not None
        assert found.application == APPLICATION
        assert 0 < found.age < 60 * SECOND
