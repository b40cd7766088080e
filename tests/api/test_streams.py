"""The audit and the messages: lists by pages, streams that resume, and who sees what."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from everwhen.model.events import Event
from everwhen.operations.tokens import create_token, end_session, revoke_token
from tests.api.browsing import BrowserSession
from tests.api.serving import Client, Service, serving

PATIENCE = 60.0
STREAMS = ["/events/stream/", "/messages/stream/"]
MESSAGE = {"message": {"text": "Hello", "thread_id": "family"}}


@dataclass(slots=True)
class StreamItem:
    """One event of a stream."""

    id: str | None
    kind: str
    fields: dict[str, Any]


class Stream:
    """A stream that is read line by line."""

    def __init__(
        self, client: Client, path: str, *, after: object = None, session: Mapping[str, str] | None = None
    ) -> None:
        headers = dict(session or {"X-API-Key": client.secret or ""})
        if after is not None:
            headers["Last-Event-ID"] = str(after)
        self._connection = http.client.HTTPConnection(urlsplit(client.url).netloc, timeout=PATIENCE)
        self._connection.request("GET", client.prefix + path, headers=headers)
        self.answer = self._connection.getresponse()

    def close(self) -> None:
        self.answer.close()
        self._connection.close()

    def lines(self) -> Iterator[str]:
        while line := self.answer.readline():
            yield line.decode().rstrip("\n")

    def next(self) -> StreamItem:
        found: dict[str, str] = {}
        for line in self.lines():
            if not line and "data" in found:
                return StreamItem(found.get("id"), found["event"], json.loads(found["data"]))
            name, _, value = line.partition(": ")
            found[name] = value
        raise EOFError

    def take(self, count: int) -> list[StreamItem]:
        return [self.next() for _ in range(count)]

    def is_over(self) -> bool:
        """Whether the server ends it; what comes before that is passed over."""
        for _ in self.lines():
            pass
        return True


@contextmanager
def stream(client: Client, path: str, **more: Any) -> Iterator[Stream]:
    opened = Stream(client, path, **more)
    try:
        assert opened.answer.status == 200, opened.answer.read()
        assert opened.answer.readline() == b"retry: 2000\n"
        yield opened
    finally:
        opened.close()


def until(is_so: Callable[[], bool]) -> None:
    waited = threading.Event()
    for _ in range(int(PATIENCE / 0.02)):
        if is_so():
            return
        waited.wait(0.02)
    raise AssertionError("it did not come to be")


def say(service: Service, owner: str | None = None, count: int = 1) -> None:
    """Schedules that say something at once."""
    for _ in range(count):
        service.admin.create(every="1h", run=MESSAGE, owner=owner)
    service.runtime.slots.tick(service.runtime.clock.now(), limit=500, behind=False)


@pytest.fixture(params=["sqlite", "postgres"])
def on_each(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Service]:
    url = request.getfixturevalue("postgres_url") if request.param == "postgres" else None
    with serving(tmp_path, url=url) as found:
        yield found


# -- lists --


def test_the_audit_is_listed_newest_first_by_pages(service: Service) -> None:
    ids = [service.admin.create(owner="pages")["id"] for _ in range(5)]
    seen, path = [], "/audit/?owner=pages&limit=2"
    while True:
        page = service.admin.get(path).fields
        assert (page["total"], page["total_is_approximate"]) == (5, False)
        seen += [(one["type"], one["schedule_id"]) for one in page["items"]]
        if page["next_cursor"] is None:
            break
        path = f"/audit/?owner=pages&limit=2&cursor={page['next_cursor']}"
    assert seen == [("schedule.created", each) for each in ids[::-1]]


def test_the_audit_is_filtered(service: Service) -> None:
    made = service.admin.create(owner="filters", first_run="after_interval")
    service.admin.post(f"/schedules/{made['id']}/pause/", {"note": "away"})
    service.admin.call("DELETE", f"/schedules/{made['id']}/")

    def types(query: str) -> list[str]:
        return [one["type"] for one in service.admin.get(f"/audit/?{query}").fields["items"]]

    assert types(f"schedule_id={made['id']}") == ["schedule.deleted", "schedule.paused", "schedule.created"]
    assert types("owner=filters&type=schedule.paused") == ["schedule.paused"]
    assert types("owner=filters&type=schedule.paused&type=schedule.created") == [
        "schedule.paused",
        "schedule.created",
    ]
    assert types("owner=filters&to=2020-01-01T00:00:00Z") == []
    assert len(types("owner=filters&from=2020-01-01T00:00:00Z")) == 3
    assert types("schedule_id=unknown") == types("owner=nobody") == types("job_id=none") == []


@pytest.mark.parametrize(
    "query",
    [
        "type=nonsense",
        "limit=0",
        "cursor=x",
        "from=yesterday",
        "from=0.5",
        "owner=%00",
        "schedule_id=x&cursor=",
        "cursor=cjE",
        "after=1.2.3",
        "after=x",
        "after=",
    ],
)
def test_parameters_of_the_audit_that_cannot_be_are_refused(service: Service, query: str) -> None:
    answer = service.admin.get(f"/audit/?{query}")
    assert (answer.status, answer.problem) == (422, "invalid")


def test_messages_are_listed_newest_first_by_pages(on_each: Service) -> None:
    say(on_each, "ada", 3)
    first = on_each.admin.get("/messages/?limit=2").fields
    rest = on_each.admin.get(f"/messages/?limit=2&cursor={first['next_cursor']}").fields
    items = first["items"] + rest["items"]
    assert (first["total"], len(items), rest["next_cursor"]) == (3, 3, None)
    assert [one["id"] for one in items] == sorted((one["id"] for one in items), reverse=True)
    assert items[0]["event"]["content"]["text"] == "Hello"
    assert items[0]["event"]["source"]["connector_id"] == items[0]["schedule_id"]
    one = on_each.admin.get(f"/messages/?schedule_id={items[1]['schedule_id']}").fields
    assert one["items"] == [items[1]]
    assert on_each.admin.get("/messages/?to=2020-01-01T00:00:00Z").fields["total"] == 0
    assert on_each.admin.get("/messages/?from=2020-01-01T00:00:00Z&owner=ada").fields["total"] == 3


@pytest.mark.parametrize("role", ["viewer", "operator", "admin"])
def test_lists_of_someone_else_are_empty(service: Service, role: Any) -> None:
    say(service, "them")
    theirs = service.admin.get("/audit/?owner=them").fields["items"][0]
    mine = service.client(role, owner=f"me, a {role}")
    for path in (
        "/messages/",
        "/messages/?owner=them",
        f"/messages/?schedule_id={theirs['schedule_id']}",
        "/audit/?owner=them",
        f"/audit/?schedule_id={theirs['schedule_id']}",
        "/audit/?type=auth.denied",
    ):
        fields = mine.get(path).fields
        fields.pop("last_event_id", None)
        assert fields.pop("actors", {}) == {}
        assert fields == {
            "items": [],
            "total": 0,
            "total_is_approximate": False,
            "next_cursor": None,
        }, path
    assert {one["owner"] for one in mine.get("/audit/").fields["items"]} <= {f"me, a {role}"}


# -- streams --


def test_events_are_streamed_as_they_happen_in_order(on_each: Service) -> None:
    with stream(on_each.admin, "/events/stream/") as opened:
        made = on_each.admin.create(name="seen", first_run="after_interval")
        on_each.admin.post(f"/schedules/{made['id']}/pause/")
        created, paused = opened.take(2)
    assert (created.kind, paused.kind) == ("schedule.created", "schedule.paused")
    assert created.fields["schedule_id"] == made["id"]
    assert opened.answer.headers["content-type"].startswith("text/event-stream")
    assert opened.answer.headers["cache-control"] == "no-store"
    listed = on_each.admin.get("/audit/?limit=2").fields["items"]
    assert listed == [paused.fields, created.fields]


def test_a_reader_that_comes_back_misses_nothing(on_each: Service) -> None:
    with stream(on_each.admin, "/events/stream/") as opened:
        on_each.admin.create()
        last = opened.next()
    ids = [on_each.admin.create()["id"] for _ in range(5)]
    with stream(on_each.admin, "/events/stream/", after=last.id) as opened:
        ids.append(on_each.admin.create()["id"])
        reported = opened.take(6)
    assert [one.fields["schedule_id"] for one in reported] == ids
    with stream(on_each.admin, f"/events/stream/?after={reported[4].id}") as opened:
        assert opened.next() == reported[5]


def test_messages_are_streamed_as_they_are_published(on_each: Service) -> None:
    with stream(on_each.admin, "/messages/stream/") as opened:
        say(on_each)
        first = opened.next()
    say(on_each)
    with stream(on_each.admin, "/messages/stream/", after=first.id) as opened:
        second = opened.next()
    assert (first.kind, first.fields["event"]["source"]["channel"]) == ("message", "scheduler")
    assert on_each.admin.get("/messages/").fields["items"] == [second.fields, first.fields]


@pytest.mark.parametrize("path", STREAMS)
def test_a_stream_of_an_owner_has_what_is_theirs_and_nothing_else(service: Service, path: str) -> None:
    before = service.admin.get("/audit/?limit=1").fields["last_event_id"]
    ada = service.client("viewer", owner="ada of streams")
    with stream(ada, path) as live, stream(service.admin, path) as everything:
        say(service, "bob of streams")
        say(service, "ada of streams")
        assert everything.next().fields["owner"] == "bob of streams"
        assert live.next().fields["owner"] == "ada of streams"
    after = before if path == "/events/stream/" else 0
    with stream(ada, path, after=after) as resumed:
        reported = resumed.next().fields
        assert reported["owner"] == "ada of streams"


@pytest.mark.parametrize("path", STREAMS)
def test_without_a_token_nothing_is_streamed(service: Service, path: str) -> None:
    answer = service.nobody.get(path)
    assert (answer.status, answer.problem) == (401, "unauthenticated")


@pytest.mark.parametrize("path", STREAMS)
@pytest.mark.parametrize("text", ["x", "-1", "1.5.2", "1.", ".1", "9" * 30, "1." + "9" * 30, "%31"])
def test_a_place_that_cannot_be_is_refused(service: Service, path: str, text: str) -> None:
    answer = service.admin.call("GET", path, headers={"Last-Event-ID": text})
    assert (answer.status, answer.problem) == (422, "invalid")


def test_a_stream_ends_when_its_token_does(service: Service) -> None:
    made = create_token(service.runtime, "brief", "viewer")
    with stream(Client(service.url, made.secret), "/events/stream/") as opened:
        revoke_token(service.runtime, made.token.token_id)
        assert opened.is_over()


def test_a_stream_ends_with_the_session_that_opened_it(service: Service) -> None:
    token = create_token(service.runtime, "browser", "viewer")
    browser = BrowserSession(service.nobody, {"token": token.secret})
    assert browser.call("GET", "/events/stream/").status == 401
    with stream(service.nobody, "/events/stream/", session=browser.header | browser.proof) as opened:
        service.admin.create()
        assert opened.next().kind == "schedule.created"
        end_session(service.runtime, browser.cookie.value)
        assert opened.is_over()


def test_a_quiet_stream_says_that_it_is_there(service: Service) -> None:
    service.context.streams.heartbeat = 0.05
    try:
        with stream(service.admin, "/messages/stream/") as opened:
            lines = opened.lines()
            assert next(line for line in lines if line) == ":"
    finally:
        service.context.streams.heartbeat = 15.0


def test_a_token_has_only_so_many_streams(service: Service) -> None:
    client = service.client("viewer")
    opened = [Stream(client, "/messages/stream/") for _ in range(100)]
    try:
        assert {one.answer.status for one in opened} == {200}
        answer = client.get("/events/stream/")
        assert (answer.status, answer.problem) == (429, "too-many-requests")
        with stream(service.admin, "/events/stream/"):
            pass
    finally:
        for one in opened:
            one.close()
    until(lambda: service.context.streams.count == 0)


def test_a_reader_that_takes_nothing_is_dropped(service: Service) -> None:
    service.context.streams.patience = 0.3
    large = [Event("config.reloaded", 0, detail={"words": "x" * 60_000}) for _ in range(50)]
    try:
        with stream(service.admin, "/events/stream/") as slow:
            until(lambda: service.context.streams.count == 1)
            for _ in range(8):  # 24 MB, which no socket holds
                service.runtime.slots.record(large)
            until(lambda: service.context.streams.count == 0)
            # Others are served meanwhile and afterwards.
            with stream(service.admin, "/events/stream/") as other:
                service.admin.create()
                assert other.next().kind == "schedule.created"
            assert slow.is_over()
    finally:
        service.context.streams.patience = 10.0


def test_streams_end_when_the_server_stops_and_it_waits_for_none_of_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ended: list[Stream] = []

    def follow(opened: Stream) -> None:
        assert opened.is_over()
        ended.append(opened)

    # The server lets what is under way go on for an hour, which is longer than a test may take.
    with serving(tmp_path, stop_within=3_600) as service:
        opened = [Stream(service.admin, path) for path in STREAMS * 5]
        threads = [threading.Thread(target=follow, args=(one,)) for one in opened]
        for thread in threads:
            thread.start()
        until(lambda: service.context.streams.count == len(opened))
    for thread in threads:
        thread.join(PATIENCE)
    for one in opened:
        one.close()
    assert len(ended) == len(opened)
    assert "timeout graceful shutdown exceeded" not in caplog.text
