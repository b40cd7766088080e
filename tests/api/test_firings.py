"""Firings, retries, holds, starts and ends are told beside the audit, in the list and in the stream, and are not on
record."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any, get_args

import pytest

from everwhen.model.events import DerivedType
from everwhen.model.instants import HOUR
from everwhen.model.outcome import SUCCEEDED, Outcome
from everwhen.model.queries import EventFilter
from tests.api.serving import HTTP_RUN, Client, Service, serving
from tests.api.test_streams import StreamItem, on_each, stream
from tests.api.working import FAILED, ran

__all__ = ["on_each"]
MESSAGE = {"message": {"text": "Hello", "thread_id": "family"}}
DERIVED = frozenset(get_args(DerivedType))
MOVES = "&".join(f"type={kind}" for kind in ("job.started", "job.succeeded", "job.failed", "job.timed_out"))


def fire(service: Service, owner: str | None = None, **fields: Any) -> dict[str, Any]:
    made: dict[str, Any] = service.admin.create(**{"every": "1h", "run": HTTP_RUN, "owner": owner, **fields})
    tick(service)
    return made


def shut(service: Service) -> dict[str, Any]:
    """Words of a schedule whose slots wait: it opens in some hours."""
    hour = service.runtime.clock.now() // HOUR % 24
    window = f"{(hour + 3) % 24:02}:00-{(hour + 4) % 24:02}:00"
    return {"only_between": window, "outside_window": "defer", "timezone": "UTC"}


def tick(service: Service) -> None:
    service.runtime.slots.tick(service.runtime.clock.now(), limit=500, behind=False)


def reported(client: Client, query: str = "") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get(f"/audit/?{query}").fields["items"]
    return found


def types(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"] for event in events]


def test_a_firing_stands_in_the_list_and_in_the_stream_in_the_same_words(on_each: Service) -> None:
    with stream(on_each.admin, "/events/stream/") as opened:
        made = fire(on_each, "ada")
        created, fired = opened.take(2)
    assert (created.kind, fired.kind) == ("schedule.created", "schedule.fired")
    listed = reported(on_each.admin, f"schedule_id={made['id']}")
    assert listed == [fired.fields, created.fields]
    job = on_each.admin.get(f"/jobs/?schedule_id={made['id']}").fields["items"][0]
    assert (listed[0]["id"], listed[0]["job_id"], listed[0]["at"]) == (None, job["id"], job["created_at"])
    assert (listed[0]["owner"], listed[0]["slot_at"]) == ("ada", job["slot_at"])
    assert listed[0]["detail"]["origin"] == "schedule"


def test_what_is_reported_beside_the_audit_is_not_on_record(on_each: Service) -> None:
    fire(on_each)
    recorded = on_each.runtime.ledger.events(EventFilter(), limit=100)
    assert {one.event.type for one in recorded}.isdisjoint(DERIVED)
    with on_each.runtime.ledger.history() as record:
        assert {one.event.type for history in record.histories for one in history.events}.isdisjoint(DERIVED)


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


def key(one: StreamItem) -> tuple[str, str, str | None]:
    return one.kind, one.fields["schedule_id"], one.fields["job_id"]


def test_the_plain_id_of_an_event_goes_on_with_the_events_behind_it(on_each: Service) -> None:
    before = fire(on_each)
    event = reported(on_each.admin, f"schedule_id={before['id']}&type=schedule.created")[0]["id"]
    after = fire(on_each)
    with stream(on_each.admin, "/events/stream/", after=event) as opened:
        created = opened.next()
        made = fire(on_each)
        rest = opened.take(2)
    assert (created.kind, created.fields["schedule_id"]) == ("schedule.created", after["id"])
    assert [one.kind for one in rest] == ["schedule.created", "schedule.fired"]
    assert {one.fields["schedule_id"] for one in rest} == {made["id"]}


def test_pages_tell_everything_once_newest_first(on_each: Service) -> None:
    ids = [fire(on_each, "pages")["id"] for _ in range(5)]
    whole = reported(on_each.admin, "owner=pages")
    assert types(whole) == ["schedule.fired", "schedule.created"] * 5
    assert [one["schedule_id"] for one in whole[::2]] == ids[::-1]
    for limit in (1, 2, 3, 7):
        seen, cursor = [], ""
        while True:
            page = on_each.admin.get(f"/audit/?owner=pages&limit={limit}{cursor}").fields
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
        return types(reported(on_each.admin, f"owner=types&{query}"))

    assert found("type=schedule.fired") == ["schedule.fired"]
    assert found("type=schedule.fired&type=schedule.paused") == ["schedule.paused", "schedule.fired"]
    assert found("type=schedule.retried") == found("type=schedule.held") == []
    assert found("from=2020-01-01T00:00:00Z&type=schedule.fired") == ["schedule.fired"]
    assert found("to=2020-01-01T00:00:00Z") == []
    job_id = reported(on_each.admin, "owner=types&type=schedule.fired")[0]["job_id"]
    assert found(f"job_id={job_id}") == ["job.cancelled", "schedule.fired"]
    assert found(f"job_id={job_id}&type=schedule.retried") == found("job_id=none") == []


def test_a_retry_is_reported_as_one(on_each: Service) -> None:
    made = fire(on_each, run=HTTP_RUN, max_retries=3, retry_delay="1m")
    (job,) = on_each.admin.get(f"/jobs/?schedule_id={made['id']}").fields["items"]
    ran(on_each, job["id"], FAILED)
    kinds = "type=schedule.retried&type=schedule.fired"
    retried, fired = reported(on_each.admin, f"schedule_id={made['id']}&{kinds}")
    assert (retried["type"], fired["type"]) == ("schedule.retried", "schedule.fired")
    assert (retried["slot_at"], retried["detail"]["retry"]) == (fired["slot_at"], 1)


@pytest.mark.parametrize(
    ("outcome", "kind", "error"),
    [
        (SUCCEEDED, "job.succeeded", None),
        (
            Outcome("failed", error="Traceback (most recent call last):\n  File\nValueError: no luck"),
            "job.failed",
            True,
        ),
        (Outcome("timed_out", error="it took too long"), "job.timed_out", True),
    ],
)
def test_the_start_and_the_end_of_a_job_are_reported_in_the_list_and_in_the_stream(
    on_each: Service, outcome: Outcome, kind: str, error: bool | None
) -> None:
    with stream(on_each.admin, "/events/stream/") as opened:
        made = fire(on_each, "moves")
        opened.take(2)
        job_id = reported(on_each.admin, f"schedule_id={made['id']}&type=schedule.fired")[0]["job_id"]
        ran(on_each, job_id, outcome)
        streamed = {
            one.kind: one for one in opened.take(3 if error else 2)
        }  # a failure every hour is news, too
    started, ended = streamed["job.started"], streamed[kind]
    assert (started.id, ended.id) == (None, None)
    listed = reported(on_each.admin, f"schedule_id={made['id']}&{MOVES}")
    assert listed == [ended.fields, started.fields]
    assert (ended.fields["job_id"], ended.fields["owner"], ended.fields["detail"]["attempt"]) == (
        job_id,
        "moves",
        1,
    )
    assert ("error" in ended.fields["detail"]) == bool(error)
    assert "Traceback" not in str(ended.fields)
    assert reported(on_each.admin, f"job_id={job_id}&type={kind}") == [ended.fields]
    assert reported(on_each.client("viewer", owner="somebody"), MOVES) == []


def test_a_job_that_waited_is_reported_when_it_begins_and_a_rescued_one_again(on_each: Service) -> None:
    made = fire(on_each)  # before anybody listens
    (job,) = on_each.admin.get(f"/jobs/?schedule_id={made['id']}").fields["items"]
    with stream(on_each.admin, "/events/stream/") as opened:
        slots, now = on_each.runtime.slots, on_each.runtime.clock.now()
        slots.heartbeat(now, node="first", version="1", is_scheduler=False)
        assert slots.claim_job(now, node="first", job_id=job["id"]) is not None
        first = opened.next()
        assert slots.rescue(now + HOUR, node="second", lease=1) == 1
        opened.take(2)  # job.lost, job.rescued
        assert slots.claim_job(now + HOUR, node="second", job_id=job["id"]) is not None
        again = opened.next()
    assert [(one.kind, one.fields["detail"]["attempt"]) for one in (first, again)] == [
        ("job.started", 1),
        ("job.started", 2),
    ]


def test_pages_tell_starts_and_ends_once_each(on_each: Service) -> None:
    for _ in range(5):
        fire(on_each, "moving", run=MESSAGE)
    whole = reported(on_each.admin, "owner=moving")
    assert sorted(types(whole)).count("job.succeeded") == sorted(types(whole)).count("job.started") == 5
    assert len(whole) == 20
    for limit in (1, 3, 7):
        seen, cursor = [], ""
        while True:
            page = on_each.admin.get(f"/audit/?owner=moving&limit={limit}{cursor}").fields
            seen += page["items"]
            if page["next_cursor"] is None:
                break
            cursor = f"&cursor={page['next_cursor']}"
        assert sorted(map(str, seen)) == sorted(map(str, whole)), limit


def test_instants_in_details_are_reported_as_instants(on_each: Service) -> None:
    made = fire(on_each, **shut(on_each))
    (held,) = reported(on_each.admin, f"schedule_id={made['id']}&type=schedule.held")
    assert held["detail"]["due_at"] == held["slot_at"]
    until = "2099-01-01T00:00:00Z"
    on_each.admin.post(f"/schedules/{made['id']}/pause/", {"until": until})
    (paused,) = reported(on_each.admin, f"schedule_id={made['id']}&type=schedule.paused")
    assert datetime.fromisoformat(paused["detail"]["until"]) == datetime.fromisoformat(until)


def test_what_belongs_to_a_job_has_its_trace(on_each: Service) -> None:
    made = fire(on_each, run=MESSAGE)
    fired, *moves = reported(on_each.admin, f"schedule_id={made['id']}&type=schedule.fired&{MOVES}")
    message = on_each.admin.get(f"/messages/?schedule_id={made['id']}").fields["items"][0]["event"]
    assert {one["trace_id"] for one in (fired, *moves)} == {message["correlation"]["trace_id"]}
    waiting = fire(on_each)
    (job,) = on_each.admin.get(f"/jobs/?schedule_id={waiting['id']}").fields["items"]
    on_each.admin.post(f"/jobs/{job['id']}/cancel/")
    (recorded,) = on_each.runtime.ledger.events(EventFilter(job_id=job["id"]), limit=5)
    assert (
        recorded.event.trace_id
        == reported(on_each.admin, f"job_id={job['id']}&type=schedule.fired")[0]["trace_id"]
    )


def test_a_slot_that_is_held_is_reported_as_long_as_it_is(on_each: Service) -> None:
    with stream(on_each.admin, "/events/stream/") as opened:
        made = fire(on_each, **shut(on_each))
        created, held = sorted(opened.take(2), key=lambda one: one.kind)
    (listed,) = reported(on_each.admin, "type=schedule.held")
    assert (created.kind, held.kind, held.id) == ("schedule.created", "schedule.held", None)
    assert held.fields == listed
    assert (listed["schedule_id"], listed["reason"]) == (made["id"], "outside_window")
    assert types(reported(on_each.admin, f"schedule_id={made['id']}")) == [
        "schedule.held",
        "schedule.created",
    ]
    on_each.admin.call("DELETE", f"/schedules/{made['id']}/")
    assert reported(on_each.admin, "type=schedule.held") == []


def test_the_list_goes_forward_from_where_it_ended(on_each: Service) -> None:
    fire(on_each)
    behind = on_each.admin.get("/audit/").fields["last_event_id"]
    made = fire(on_each, "forward")
    fire(on_each)
    seen: list[dict[str, Any]] = []
    while True:
        page = on_each.admin.get(f"/audit/?after={behind}&owner=forward&limit=1").fields
        seen += page["items"]
        if page["last_event_id"] == behind:
            break
        behind = page["last_event_id"]
    assert types(seen) == ["schedule.created", "schedule.fired"]
    assert {one["schedule_id"] for one in seen} == {made["id"]}


@pytest.mark.parametrize("role", ["viewer", "admin"])
def test_firings_and_holds_of_others_are_not_reported(tmp_path: Path, role: Any) -> None:
    with serving(tmp_path) as service:
        fire(service, "bob")
        held = fire(service, "bob", **shut(service))
        assert types(reported(service.admin, "type=schedule.held")) == ["schedule.held"]
        behind = service.admin.get("/audit/").fields["last_event_id"]
        ada = service.client(role, owner="ada")
        with stream(ada, "/events/stream/", after="0.0") as opened:
            fire(service, "bob")
            fire(service, "ada")
            assert {one.fields["owner"] for one in opened.take(2)} == {"ada"}
        assert {one["owner"] for one in reported(ada)} == {"ada"}
        for query in ("owner=bob", f"schedule_id={held['id']}", "type=schedule.held", "after=0.0&owner=bob"):
            assert reported(ada, query) == [], query
        assert {one["owner"] for one in reported(ada, f"after={behind}")} == {"ada"}
