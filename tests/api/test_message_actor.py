"""Who speaks in a message that came over REST: the caller, whatever the body says."""

from __future__ import annotations

import dataclasses
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from everwhen.model.schedule import Target
from everwhen.model.serialize import text_of
from everwhen.testing.manual import ManualClock
from tests.api.serving import Client, Service, serving
from tests.api.working import NODE, triggered
from tests.servers.everwhen_database import PostgresDatabase

SHORT = {"every": "1h", "run": {"message": {"text": "Pay this.", "actor": "ceo"}}}
TEMPLATE = {"type": "interval", "spec": "3600", "payload": {"content": {"text": "Pay this."}, "actor": "ceo"}}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock("2026-01-05T08:00:00Z")


@pytest.fixture(params=["sqlite", "postgresql"])
def service(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> Iterator[Service]:
    url = None
    if request.param == "postgresql":
        database: PostgresDatabase = request.getfixturevalue("everwhen_on_18")
        url = database.empty()
    with serving(tmp_path, url=url, clock=clock) as found:
        yield found


def actor_of(client: Client) -> str:
    return f"token:{client.get('/me/').fields['id']}"


def actors(service: Service) -> list[Any]:
    """Of all messages, the oldest first, once what is due is fired and what is queued is said."""
    now = service.runtime.clock.now()
    service.runtime.slots.heartbeat(now, node=NODE, version="1", is_scheduler=False)
    for behind in (False, True):
        service.runtime.slots.tick(now, limit=500, behind=behind)
    service.runtime.slots.claim_jobs(now, node=NODE, limit=100)
    said = service.admin.get("/messages/").fields["items"]
    return [one["event"]["actor"] for one in reversed(said)]


@pytest.mark.parametrize("body", [SHORT, TEMPLATE], ids=["short", "template"])
def test_the_maker_of_a_schedule_speaks_and_not_whom_the_body_names(
    service: Service, clock: ManualClock, body: dict[str, Any]
) -> None:
    maker = service.client(owner="team-b")
    assert maker.post("/schedules/", body).status == 201
    clock.advance("1h")
    assert set(actors(service)) == {actor_of(maker)}


def test_whoever_triggers_it_speaks(service: Service, clock: ManualClock) -> None:
    maker, other = service.client(), service.client()
    made = maker.create(every=None, cron="0 9 * * *", run=SHORT["run"])
    triggered(other, made, payload={"actor": "ceo"})
    assert actors(service) == [actor_of(other)]
    (event,) = service.admin.get("/audit/?type=job.triggered").fields["items"]
    assert (event["actor"], event["schedule_id"]) == (actor_of(other), made["id"])
    (job,) = service.admin.get(f"/jobs/?schedule_id={made['id']}").fields["items"]
    third = service.client()
    assert third.post(f"/jobs/{job['id']}/rerun/").status == 202
    assert actors(service) == [actor_of(other), actor_of(third)]
    clock.advance("1h")
    assert actors(service) == [actor_of(other), actor_of(third), actor_of(maker)]


def test_whoever_gives_it_other_words_speaks_from_then_on(service: Service, clock: ManualClock) -> None:
    maker, other = service.client(), service.client()
    made = maker.create(every=None, cron="0 * * * *", run=SHORT["run"])
    path = f"/schedules/{made['id']}/"
    other.patch(path, {"name": "Another name", "run": SHORT["run"]})
    clock.advance("1h")
    assert actors(service) == [actor_of(maker)]
    other.patch(path, {"run": {"message": {"text": "Pay me.", "actor": "ceo"}}})
    clock.advance("1h")
    assert actors(service) == [actor_of(maker), actor_of(other)]


@pytest.mark.parametrize("body", [SHORT, TEMPLATE], ids=["short", "template"])
def test_of_what_an_earlier_release_stored_the_owner_speaks(tmp_path: Path, body: dict[str, Any]) -> None:
    clock = ManualClock("2026-01-05T08:00:00Z")
    with serving(tmp_path, clock=clock) as service:
        made = service.client(owner="team-b").post("/schedules/", body).fields
        schedule = service.runtime.catalogue.get(made["id"])
        assert schedule is not None
    spec = json.loads(schedule.definition.target.spec)
    assert spec.pop("spoken_by")
    target = Target("message", json.dumps({**spec, "actor": "ceo"}))
    with closing(sqlite3.connect(tmp_path / "api.db", isolation_level=None)) as connection:
        fields = text_of(dataclasses.replace(schedule.definition, target=target))
        connection.execute("UPDATE schedule_revisions SET words = ? WHERE uid = ?", (fields, made["id"]))
    with serving(tmp_path, clock=clock) as service:
        clock.advance("1h")
        assert set(actors(service)) == {"team-b"}
