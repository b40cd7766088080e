"""Single cases of what runs, and users with a `min_interval`, try in order to fire more often than they may."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from everwhen.operations.maintenance import prove
from everwhen.store.opened import store_of
from everwhen.testing.manual import ManualClock
from tests.api.serving import Client, Service, serving
from tests.api.working import NODE
from tests.mcp.lineage import Lineage

START = "2026-11-17T08:10:00Z"
LIMITS: dict[str, Any] = {
    "max_schedules": 1,
    "min_interval": "10m",
    "max_depth": 1,
    "approval": "none",
    "fires_per_hour": 60,
    "fires_per_day": 500,
}


@pytest.fixture(params=["sqlite", "postgres"])
def service(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Service]:
    url = request.getfixturevalue("postgres_url") if request.param == "postgres" else None
    file = "agents: {bot: {command: [true], max_concurrent: 9}}"
    with serving(tmp_path, file=file, url=url, clock=ManualClock(START)) as found:
        yield found
        assert prove(found.runtime).is_clean


def begun(service: Service, **settings: Any) -> Lineage:
    clock = service.runtime.clock
    assert isinstance(clock, ManualClock)
    lineage = Lineage(service, clock, "bot", {**LIMITS, **settings})
    lineage.begin()
    return lineage


def one_shot(lineage: Lineage, client: Client, after: str = "1s") -> str:
    body = {"name": "x", "after": after, "run": lineage.target}
    answer = client.post("/schedules/", body)
    assert answer.status == 201, answer.raw
    lineage.made.append(answer.fields["id"])
    return str(answer.fields["id"])


def fired(lineage: Lineage) -> int:
    return len(lineage._jobs())


def refusal(answer: Any) -> tuple[int, str]:
    return answer.status, answer.fields["detail"]


def pass_time(lineage: Lineage, seconds: int) -> None:
    lineage._move_to(lineage.clock.now() + seconds * 1_000_000)
    lineage._tick()
    lineage._claim()


def test_what_was_armed_again_waits_for_min_interval(service: Service) -> None:
    lineage = begun(service)
    client = lineage.runs[0].client
    schedule = one_shot(lineage, client)
    pass_time(lineage, 1)
    assert fired(lineage) == 1
    status, text = refusal(client.patch(f"/schedules/{schedule}/", {"after": "1s"}))
    assert status == 403 and "min_interval allows it from" in text and "in 600s" in text
    again = client.post(f"/schedules/{schedule}/trigger/")
    assert again.status == 429 and again.headers["retry-after"] == "600"
    assert client.post(f"/schedules/{schedule}/revive/").status == 403  # no call of runs
    assert client.patch(f"/schedules/{schedule}/", {"after": "10m"}).status == 200
    lineage.end(1)
    pass_time(lineage, 600)
    assert fired(lineage) == 2


@pytest.mark.parametrize("max_schedules", [1, 5])
def test_what_replaces_a_schedule_waits_as_well(service: Service, max_schedules: int) -> None:
    lineage = begun(service, max_schedules=max_schedules)
    client = lineage.runs[0].client
    first = one_shot(lineage, client)
    pass_time(lineage, 1)
    body = {"name": "y", "after": "1s", "run": lineage.target}
    for _ in range(2):  # done, and then deleted
        status, text = refusal(client.post("/schedules/", body))
        assert status == 403 and "of the one that it replaces" in text
        client.call("DELETE", f"/schedules/{first}/")
    put = client.call("PUT", "/schedules/key/mine/", body)
    assert put.status == 403
    # An interval is made, and its slots within the time are skipped.
    hourly = {**body, "after": None, "every": "1h", "first_run": "immediately"}
    second = client.post("/schedules/", hourly).fields["id"]
    lineage.made.append(second)
    pass_time(lineage, 1)
    assert fired(lineage) == 1
    slots = service.admin.get(f"/schedules/{second}/slots/").fields["items"]
    assert [(slot["fate"], slot["reason"]) for slot in slots] == [("skipped", "budget")]
    pass_time(lineage, 3_600)
    assert fired(lineage) == 2


def test_schedules_that_are_over_are_not_triggered_one_after_another(service: Service) -> None:
    lineage = begun(service)
    client = lineage.runs[0].client
    first = one_shot(lineage, client)
    pass_time(lineage, 1)
    pass_time(lineage, 600)
    second = one_shot(lineage, client)
    pass_time(lineage, 1)
    pass_time(lineage, 600)
    assert client.post(f"/schedules/{first}/trigger/").status == 202
    assert client.post(f"/schedules/{second}/trigger/").status == 429
    pass_time(lineage, 600)
    # Beside a schedule that has the only place, none that is over is triggered either.
    one_shot(lineage, client, "1h")
    status, text = refusal(client.post(f"/schedules/{second}/trigger/"))
    assert status == 403 and "at most 1 schedule" in text


def test_a_run_at_its_depth_limit_starts_and_changes_nothing(service: Service) -> None:
    lineage = begun(service)
    schedule = one_shot(lineage, lineage.runs[0].client)
    pass_time(lineage, 1)
    client = next(run.client for run in lineage.runs if run.depth == 2)
    path = f"/schedules/{schedule}"
    body = {"name": "z", "after": "1h", "run": lineage.target}
    answers = [
        client.post("/schedules/", body),
        client.call("PUT", "/schedules/key/mine/", body),
        client.patch(f"{path}/", {"after": "1h"}),
        client.patch(f"{path}/", {"name": "other"}),
        client.patch(f"{path}/", {"enabled": True}),
        client.post(f"{path}/trigger/"),
        client.post(f"{path}/resume/"),
    ]
    for answer in answers:
        status, text = refusal(answer)
        assert status == 403 and "runs make none beyond depth 1" in text
    assert client.get(f"{path}/").status == 200
    assert client.call("DELETE", f"{path}/").status == 204


def test_no_schedule_stays_above_the_runs_that_arm_it(service: Service) -> None:
    lineage = begun(service, max_depth=2, max_schedules=5)
    schedule = one_shot(lineage, lineage.runs[0].client)
    pass_time(lineage, 1)
    client = next(run.client for run in lineage.runs if run.depth == 2)
    status, text = refusal(client.post(f"/schedules/{schedule}/trigger/"))
    assert status == 403 and "at depth 1, and this run starts only those at depth 2" in text
    changed = client.patch(f"/schedules/{schedule}/", {"after": "10m"})
    assert (changed.status, changed.fields["depth"]) == (200, 2)
    lineage.end(1)
    pass_time(lineage, 600)
    assert [run.depth for run in lineage.runs] == [1, 3]


@pytest.mark.parametrize(
    "times",
    [
        {"every": "11m", "jitter": "9m"},
        {"cron": "0,10,20,30,40,50,59 0,2,4,6,8,10,12,14,16,18,20,22,23 * * *"},
        {"cron": "0,10,20,30,40,50,59 0,2,4,6,8,10,12,14,16,18,20,23 * * 1,3,5,6"},
        {"cron": "0,10,20,30,40,50,59 0,2,4,6,8,10,12,14,16,18,20,23 1,3,5,7,9,11,13,31 7,8 *"},
    ],
)
def test_slots_that_come_closer_now_and_then_are_refused(service: Service, times: dict[str, Any]) -> None:
    client = service.client(min_interval="9m")
    body = {"run": {"message": {"text": "x"}}, **times}
    status, text = refusal(client.post("/schedules/", body))
    assert status == 403 and "more often than every 540s" in text


def test_a_user_with_min_interval_is_bound_as_a_run_is(service: Service) -> None:
    lineage = begun(service)
    client = service.client(min_interval="10m", max_schedules=1)
    body = {"after": "1s", "run": {"message": {"text": "x"}}}
    schedule = client.post("/schedules/", body).fields["id"]
    pass_time(lineage, 1)
    path = f"/schedules/{schedule}/"
    assert client.patch(path, {"after": "1s"}).status == 403
    assert client.post(f"{path}trigger/").status == 429
    assert client.post("/schedules/", body).status == 403
    assert client.call("DELETE", path).status == 204
    assert client.post("/schedules/", body).status == 403
    assert client.post("/schedules/", {**body, "after": "10m"}).status == 201


def test_a_user_with_free_places_makes_independent_one_shots(service: Service) -> None:
    lineage = begun(service)
    client = service.client(min_interval="10m", max_schedules=3)
    body = {"after": "1s", "run": {"message": {"text": "x"}}}
    for expected in (201, 201, 201, 403):
        assert client.post("/schedules/", body).status == expected
        pass_time(lineage, 1)
    free = service.client(min_interval="10m")
    for _ in range(5):
        assert free.post("/schedules/", body).status == 201
        pass_time(lineage, 1)


def test_slots_on_time_are_not_skipped_for_a_little_lateness(service: Service) -> None:
    lineage = begun(service)
    client = service.client(min_interval="10m")
    body = {
        "every": "10m",
        "first_run": "after_interval",
        "if_running": "allow",
        "run": {"message": {"text": "x"}},
    }
    schedule = client.post("/schedules/", body).fields["id"]
    for seconds in (604, 596, 600, 640, 560):
        pass_time(lineage, seconds)
    slots = service.admin.get(f"/schedules/{schedule}/slots/").fields["items"]
    assert [slot["fate"] for slot in slots] == ["fired"] * 5
    # What a person fires is nobody's limit.
    assert service.admin.post(f"/schedules/{schedule}/trigger/").status == 202
    pass_time(lineage, 600)
    assert service.admin.get(f"/schedules/{schedule}/").fields["fire_count"] == 7


def test_of_a_slot_and_a_trigger_at_once_one_fires(service: Service) -> None:
    lineage = begun(service)
    client = service.client(min_interval="10m")
    body = {"every": "1h", "first_run": "after_interval", "run": {"message": {"text": "x"}}}
    schedules = [client.post("/schedules/", body).fields["id"] for _ in range(12)]
    lineage._move_to(lineage.clock.now() + 3_600 * 1_000_000)
    slots = store_of(service.runtime).slots
    slots.heartbeat(lineage.clock.now(), node=NODE, version="1", is_scheduler=True)
    with ThreadPoolExecutor(4) as threads:
        calls = [threads.submit(client.post, f"/schedules/{schedule}/trigger/") for schedule in schedules]
        ticks = [threads.submit(slots.tick, lineage.clock.now(), limit=3, behind=False) for _ in range(8)]
    assert all(tick.result() is not None for tick in ticks)
    assert {call.result().status for call in calls} <= {202, 429}
    lineage._tick()
    counts = [service.admin.get(f"/schedules/{one}/").fields["fire_count"] for one in schedules]
    assert counts == [1] * len(schedules)


def test_of_two_creations_at_once_one_gets_the_last_place(service: Service) -> None:
    """On PostgreSQL too: the tokens of runs have no row of their own to lock."""
    lineage = begun(service, max_schedules=3)
    client = lineage.runs[0].client
    body = {"name": "x", "after": "1h", "run": lineage.target}
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda _: client.post("/schedules/", body).status, range(16)))
    assert found.count(201) == 3
