"""Firings, retries and holds are told beside the audit, in the list and in the stream, and are not on record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from everwhen.model.instants import HOUR
from everwhen.ports.ledger import EventFilter
from tests.api.serving import HTTP_RUN, Client, Service, serving
from tests.api.test_streams import Told, on_each, stream
from tests.api.working import FAILED, ran

__all__ = ["on_each"]
MESSAGE = {"message": {"text": "Hello", "thread_id": "family"}}
DERIVED = ("schedule.fired", "schedule.retried", "schedule.held")


def fire(service: Service, owner: str | None = None, **words: Any) -> dict[str, Any]:
    made: dict[str, Any] = service.admin.create(**{"every": "1h", "run": MESSAGE, "owner": owner, **words})
    tick(service)
    return made


def shut(service: Service) -> dict[str, Any]:
    """Words of a schedule whose slots wait: it opens in some hours."""
    hour = service.house.clock.now() // HOUR % 24
    window = f"{(hour + 3) % 24:02}:00-{(hour + 4) % 24:02}:00"
    return {"only_between": window, "outside_window": "defer", "timezone": "UTC"}


def tick(service: Service) -> None:
    service.house.slots.tick(service.house.clock.now(), limit=500, behind=False)


def told(client: Client, query: str = "") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get(f"/audit/?{query}").words["items"]
    return found


def types(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"] for event in events]


def test_a_firing_stands_in_the_list_and_in_the_stream_in_the_same_words(on_each: Service) -> None:
    with stream(on_each.admin, "/events/stream/") as opened:
        made = fire(on_each, "ada")
        created, fired = opened.take(2)
    assert (created.kind, fired.kind) == ("schedule.created", "schedule.fired")
    listed = told(on_each.admin, f"schedule_id={made['id']}")
    assert listed == [fired.words, created.words]
    job = on_each.admin.get(f"/jobs/?schedule_id={made['id']}").words["items"][0]
    assert (listed[0]["id"], listed[0]["job_id"], listed[0]["at"]) == (None, job["id"], job["created_at"])
    assert (listed[0]["owner"], listed[0]["slot_at"]) == ("ada", job["slot_at"])
    assert listed[0]["detail"]["origin"] == "schedule"


def test_what_is_told_beside_the_audit_is_not_on_record(on_each: Service) -> None:
    fire(on_each)
    recorded = on_each.house.ledger.events(EventFilter(), limit=100)
    assert {one.event.type for one in recorded}.isdisjoint(DERIVED)
    with on_each.house.ledger.history() as history:
        assert {one.event.type for life in history.lives for one in life.events}.isdisjoint(DERIVED)


def test_a_reader_that_comes_back_gets_events_and_firings_once_each(on_each: Service) -> None:
    with stream(on_each.admin, "/events/stream/") as opened:
        fire(on_each)
        first = opened.take(2)
    for _ in range(3):
        fire(on_each)
    everything = [*first]
    for _ in range(6):  # one by one, each time from the last id
        with stream(on_each.admin, "/events/stream/", after=everything[-1].id) as opened:
            everything.append(opened.next())
    with stream(on_each.admin, "/events/stream/", after=first[-1].id) as opened:
        at_once = opened.take(6)
    assert {key(one) for one in at_once} == {key(one) for one in everything[2:]}
    assert len({key(one) for one in everything}) == 8
    assert [one.kind for one in everything].count("schedule.fired") == 4


def key(one: Told) -> tuple[str, str, str | None]:
    return one.kind, one.words["schedule_id"], one.words["job_id"]


def test_the_plain_id_of_an_event_goes_on_with_the_events_behind_it(on_each: Service) -> None:
    before = fire(on_each)
    event = told(on_each.admin, f"schedule_id={before['id']}&type=schedule.created")[0]["id"]
    after = fire(on_each)
    with stream(on_each.admin, "/events/stream/", after=event) as opened:
        created = opened.next()
        made = fire(on_each)
        rest = opened.take(2)
    assert (created.kind, created.words["schedule_id"]) == ("schedule.created", after["id"])
    assert [one.kind for one in rest] == ["schedule.created", "schedule.fired"]
    assert {one.words["schedule_id"] for one in rest} == {made["id"]}


def test_pages_tell_everything_once_newest_first(on_each: Service) -> None:
    ids = [fire(on_each, "pages")["id"] for _ in range(5)]
    whole = told(on_each.admin, "owner=pages")
    assert types(whole) == ["schedule.fired", "schedule.created"] * 5
    assert [one["schedule_id"] for one in whole[::2]] == ids[::-1]
    for limit in (1, 2, 3, 7):
        seen, cursor = [], ""
        while True:
            page = on_each.admin.get(f"/audit/?owner=pages&limit={limit}{cursor}").words
            assert page["total"] == 10
            seen += page["items"]
            if page["next_cursor"] is None:
                break
            cursor = f"&cursor={page['next_cursor']}"
        assert seen == whole, limit


def test_types_choose_among_both(on_each: Service) -> None:
    made = fire(on_each, "types")
    on_each.admin.post(f"/schedules/{made['id']}/pause/")

    def found(query: str) -> list[str]:
        return types(told(on_each.admin, f"owner=types&{query}"))

    assert found("type=schedule.fired") == ["schedule.fired"]
    assert found("type=schedule.fired&type=schedule.paused") == ["schedule.paused", "schedule.fired"]
    assert found("type=schedule.retried") == found("type=schedule.held") == []
    assert found("from=2020-01-01T00:00:00Z&type=schedule.fired") == ["schedule.fired"]
    assert found("to=2020-01-01T00:00:00Z") == []
    job_id = told(on_each.admin, "owner=types&type=schedule.fired")[0]["job_id"]
    assert found(f"job_id={job_id}") == ["schedule.fired"]
    assert found(f"job_id={job_id}&type=schedule.retried") == found("job_id=none") == []


def test_a_retry_is_told_as_one(on_each: Service) -> None:
    made = fire(on_each, run=HTTP_RUN, max_retries=3, retry_delay="1m")
    (job,) = on_each.admin.get(f"/jobs/?schedule_id={made['id']}").words["items"]
    ran(on_each, job["id"], FAILED)
    retried, fired, _ = told(on_each.admin, f"schedule_id={made['id']}")
    assert (retried["type"], fired["type"]) == ("schedule.retried", "schedule.fired")
    assert (retried["slot_at"], retried["detail"]["retry"]) == (fired["slot_at"], 1)


def test_a_slot_that_is_held_is_told_as_long_as_it_is(on_each: Service) -> None:
    with stream(on_each.admin, "/events/stream/") as opened:
        made = fire(on_each, **shut(on_each))
        created, held = sorted(opened.take(2), key=lambda one: one.kind)
    (listed,) = told(on_each.admin, "type=schedule.held")
    assert (created.kind, held.kind, held.id) == ("schedule.created", "schedule.held", None)
    assert held.words == listed
    assert (listed["schedule_id"], listed["reason"]) == (made["id"], "outside_window")
    assert types(told(on_each.admin, f"schedule_id={made['id']}")) == ["schedule.held", "schedule.created"]
    on_each.admin.call("DELETE", f"/schedules/{made['id']}/")
    assert told(on_each.admin, "type=schedule.held") == []


def test_the_list_goes_forward_from_where_it_ended(on_each: Service) -> None:
    fire(on_each)
    behind = on_each.admin.get("/audit/").words["last_event_id"]
    made = fire(on_each, "forward")
    fire(on_each)
    seen: list[dict[str, Any]] = []
    while True:
        page = on_each.admin.get(f"/audit/?after={behind}&owner=forward&limit=1").words
        seen += page["items"]
        if page["last_event_id"] == behind:
            break
        behind = page["last_event_id"]
    assert types(seen) == ["schedule.created", "schedule.fired"]
    assert {one["schedule_id"] for one in seen} == {made["id"]}


@pytest.mark.parametrize("role", ["viewer", "admin"])
def test_firings_and_holds_of_others_are_not_told(tmp_path: Path, role: Any) -> None:
    with serving(tmp_path) as service:
        fire(service, "bob")
        held = fire(service, "bob", **shut(service))
        assert types(told(service.admin, "type=schedule.held")) == ["schedule.held"]
        behind = service.admin.get("/audit/").words["last_event_id"]
        ada = service.client(role, owner="ada")
        with stream(ada, "/events/stream/", after="0.0") as opened:
            fire(service, "bob")
            fire(service, "ada")
            assert {one.words["owner"] for one in opened.take(2)} == {"ada"}
        assert {one["owner"] for one in told(ada)} == {"ada"}
        for query in ("owner=bob", f"schedule_id={held['id']}", "type=schedule.held", "after=0.0&owner=bob"):
            assert told(ada, query) == [], query
        assert {one["owner"] for one in told(ada, f"after={behind}")} == {"ada"}
