"""The limits of a token count what it causes by every way, and its time counts from creation (O5)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from everwhen.api.rates import Rates
from everwhen.config.submission import read_submission
from everwhen.model.claim import ClaimedJob
from everwhen.model.outcome import SUCCEEDED, Outcome
from everwhen.operations.access import Caller
from everwhen.operations.submissions import create_entries, new_id
from everwhen.operations.tokens import find_token
from everwhen.store.opened import store_of
from everwhen.testing.manual import ManualClock
from everwhen.timetable.trigger import OnRequest
from tests.api.serving import HTTP_RUN, Answer, Client, Service, around_of, configuration_of, serving
from tests.api.working import NODE, end

FAILED = Outcome("failed", error="no luck")
HOUR_LEFT = 3000  # at ten past eight


@dataclass
class Runtime:
    service: Service
    clock: ManualClock

    def tick(self) -> None:
        store_of(self.service.runtime).slots.tick(self.clock.now(), limit=100, behind=False)

    def claim(self) -> list[ClaimedJob]:
        slots, now = store_of(self.service.runtime).slots, self.clock.now()
        slots.heartbeat(now, node=NODE, version="1", is_scheduler=False)
        return slots.claim_jobs(now, node=NODE, limit=100)

    def work(self, outcome: Outcome = SUCCEEDED) -> list[str]:
        """Whatever is ready runs, and ends so; the origins."""
        claims = self.claim()
        for claim in claims:
            end(self.service, claim, outcome)
        return [claim.job.origin for claim in claims]


@pytest.fixture(params=["sqlite", "postgres"])
def runtime(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Runtime]:
    url = request.getfixturevalue("postgres_url") if request.param == "postgres" else None
    clock = ManualClock("2026-11-17T08:10:00Z")
    with serving(tmp_path, url=url, clock=clock) as service:
        yield Runtime(service, clock)


def made(client: Client, **fields: Any) -> str:
    return str(client.create(**{"first_run": "after_interval", "if_running": "allow", **fields})["id"])


def ways(runtime: Runtime, client: Client, schedule: str) -> list[Callable[[], Answer]]:
    """What makes a schedule run at once."""
    path = f"/schedules/{schedule}"
    job = service_job(runtime, schedule)
    past = [{"from": f"2026-11-17T0{hour}:00:00Z", "to": f"2026-11-17T0{hour + 1}:00:00Z"} for hour in (2, 3)]
    return [
        lambda: client.post(f"{path}/trigger/"),
        lambda: client.post(f"/jobs/{job}/rerun/"),
        lambda: client.post(f"{path}/backfill/", past.pop()),
    ]


def service_job(runtime: Runtime, schedule: str) -> str:
    """A job that ran, which the admin asked for."""
    job = runtime.service.admin.post(f"/schedules/{schedule}/trigger/").fields["job"]["id"]
    runtime.work()
    return str(job)


def is_beyond(answer: Answer, wait: int) -> bool:
    if answer.status != 429:
        return False
    assert answer.problem == "too-many-requests"
    assert answer.headers["retry-after"] == str(wait)
    return True


@pytest.mark.parametrize("first", range(3))
def test_triggers_reruns_and_backfills_count_together(runtime: Runtime, first: int) -> None:
    runtime.clock.set("2026-11-17T01:10:00Z")
    client = runtime.service.client(owner="ada", fires_per_hour=3)
    schedule = made(client)
    runtime.clock.set("2026-11-17T08:10:00Z")
    calls = ways(runtime, client, schedule)
    calls = calls[first:] + calls[:first]
    assert [call().status for call in calls] in ([202, 202, 200], [202, 200, 202], [200, 202, 202])
    jobs = client.get("/jobs/").fields["total"]
    assert all(is_beyond(call(), HOUR_LEFT) for call in calls)
    assert client.get("/jobs/").fields["total"] == jobs
    # Nobody else pays, and in the next hour there is room again.
    assert runtime.service.client(owner="ada").post(f"/schedules/{schedule}/trigger/").status == 202
    runtime.clock.set("2026-11-17T09:00:00Z")
    assert client.post(f"/schedules/{schedule}/trigger/").status == 202


def test_a_slot_beyond_what_the_tokens_calls_have_left_is_skipped(runtime: Runtime) -> None:
    client = runtime.service.client(fires_per_day=2)
    schedule = made(client, every="12h")
    for _ in range(2):
        assert client.post(f"/schedules/{schedule}/trigger/").status == 202
    assert is_beyond(client.post(f"/schedules/{schedule}/trigger/"), 15 * 3600 + HOUR_LEFT)
    runtime.work()
    runtime.clock.advance("12h")
    runtime.tick()
    slots = client.get(f"/schedules/{schedule}/slots/").fields["items"]
    assert [(slot["fate"], slot["reason"]) for slot in slots] == [("skipped", "budget")]
    runtime.clock.set("2026-11-18T00:00:00Z")
    assert client.post(f"/schedules/{schedule}/trigger/").status == 202


def test_whoever_triggers_pays_whosever_schedule_it_is(runtime: Runtime) -> None:
    service = runtime.service
    rich, poor = service.client(owner="ada"), service.client(owner="ada", fires_per_hour=1)
    theirs, own = made(rich), made(poor)
    assert rich.post(f"/schedules/{own}/trigger/").status == 202
    assert poor.post(f"/schedules/{theirs}/trigger/").status == 202
    for schedule in (theirs, own):
        assert is_beyond(poor.post(f"/schedules/{schedule}/trigger/"), HOUR_LEFT)
        assert rich.post(f"/schedules/{schedule}/trigger/").status == 202


def test_a_backfill_counts_each_slot_and_makes_all_or_none(runtime: Runtime) -> None:
    runtime.clock.set("2026-11-17T00:10:00Z")
    client = runtime.service.client(fires_per_hour=4)
    path = f"/schedules/{made(client)}"
    runtime.clock.set("2026-11-17T08:10:00Z")

    def fill(first: int, last: int, **more: Any) -> Answer:
        span = {"from": f"2026-11-17T{first:02}:00:00Z", "to": f"2026-11-17T{last:02}:00:00Z"}
        return client.post(f"{path}/backfill/", {**span, **more})

    assert fill(1, 8, dry_run=True).fields["count"] == 7
    assert (fill(1, 8).status, fill(1, 8).problem) == (403, "beyond-limit")  # waiting would not help
    assert fill(1, 4).fields["count"] == 3
    assert is_beyond(fill(4, 6), HOUR_LEFT)
    assert client.get("/jobs/?origin=backfill").fields["total"] == 3
    assert fill(4, 5).fields["count"] == 1
    assert is_beyond(client.post(f"{path}/trigger/"), HOUR_LEFT)


def test_a_retry_counts_when_it_begins_and_waits_while_the_limit_is_reached(runtime: Runtime) -> None:
    client = runtime.service.client(fires_per_hour=2)
    schedule = made(client, every="4h", first_run="immediately", max_retries=5, retry_delay="1m")
    runtime.tick()
    assert runtime.work(FAILED) == ["schedule"]
    runtime.clock.advance("1m")
    assert runtime.work(FAILED) == ["retry"]
    assert is_beyond(client.post(f"/schedules/{schedule}/trigger/"), HOUR_LEFT - 60)
    runtime.clock.advance("2m")
    assert runtime.work() == []  # its time has come, and the token's has not
    runtime.clock.set("2026-11-17T08:59:59Z")
    assert runtime.work() == []
    runtime.clock.set("2026-11-17T09:00:00Z")
    assert runtime.work() == ["retry"]
    assert client.post(f"/schedules/{schedule}/trigger/").status == 202
    assert is_beyond(client.post(f"/schedules/{schedule}/trigger/"), 3600)


def test_of_calls_that_come_at_once_no_more_pass_than_may(runtime: Runtime) -> None:
    client = runtime.service.client(fires_per_hour=3)
    schedules = [made(client) for _ in range(8)]
    with ThreadPoolExecutor(8) as threads:
        found = threads.map(lambda each: client.post(f"/schedules/{each}/trigger/").status, schedules)
    assert sorted(found) == [202] * 3 + [429] * 5


def test_a_hook_counts_for_the_token_that_made_its_schedule(runtime: Runtime, tmp_path: Path) -> None:
    """By whatever proof it is called: whoever has the secret would have no limit otherwise."""
    service = runtime.service
    client = service.client(fires_per_hour=2, ttl="2h")
    token = find_token(service.runtime, client.secret or "")
    assert token is not None
    around = around_of(configuration_of(tmp_path, "{}"), service.runtime)
    fields = {"every": "1h", "if_running": "allow", "run": {"message": {"text": "x"}}}
    declared = read_submission(fields, new_id(around.now), around)
    declared = replace(declared, definition=replace(declared.definition, trigger=OnRequest("webhook")))
    create_entries(service.runtime, [declared], Caller(token))
    hook = f"/hooks/{declared.schedule_id}/"
    assert service.admin.post(hook, {}).fields["job"]["origin"] == "webhook"
    assert client.post(hook, {}).status == 202
    for caller in (client, service.admin):
        assert is_beyond(caller.post(hook, {}), HOUR_LEFT)
    runtime.clock.advance("2h")  # and its schedule is over when its time is
    assert service.admin.post(hook, {}).fields == {"job": None, "skipped": "paused", "warnings": []}


# -- ttl --


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "x"},
        {"end_at": None},
        {"end_at": "2030-01-01T00:00:00Z"},
        {"every": "2m"},
        {"every": None, "cron": "* * * * *"},
        {"run": {"message": {"text": "x"}}},
    ],
)
def test_what_a_token_makes_ends_at_its_time_whatever_is_edited(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    clock = ManualClock("2026-11-17T08:00:00Z")
    with serving(tmp_path, clock=clock) as service:
        client = service.client(ttl="1h")
        path = f"/schedules/{made(client, every='1m')}/"
        body = {"every": "1m", "run": HTTP_RUN}
        assert client.call("PUT", "/schedules/key/mine/", body).fields["end_at"] == "2026-11-17T09:00:00Z"
        clock.set("2026-11-17T08:50:00Z")
        assert client.patch(path, changes).fields["end_at"] == "2026-11-17T09:00:00Z"
        again = client.call("PUT", "/schedules/key/mine/", {**body, **changes}).fields
        assert again["end_at"] == "2026-11-17T09:00:00Z"
        clock.set("2026-11-17T09:00:00Z")
        late = client.patch(path, {**changes, "description": "late"})
        assert (late.status, late.problem) == (403, "beyond-limit")
        service.runtime.slots.tick(clock.now(), limit=10, behind=True)
        assert client.post(f"{path}revive/").status == 400


def test_a_one_shot_is_not_armed_again_beyond_its_time(tmp_path: Path) -> None:
    clock = ManualClock("2026-11-17T08:00:00Z")
    with serving(tmp_path, clock=clock) as service:
        client = service.client(ttl="1h")
        path = f"/schedules/{client.create(every=None, after='10m')['id']}/"
        clock.set("2026-11-17T08:30:00Z")
        assert client.patch(path, {"after": "29m"}).status == 200
        for late in ({"after": "31m"}, {"at": "2026-11-17T09:00:01Z"}):
            answer = client.patch(path, {"after": None, **late})
            assert (answer.status, answer.problem) == (403, "beyond-limit")
        changed = client.patch(path, {"after": None, "every": "1m"})
        assert changed.fields["end_at"] == "2026-11-17T09:00:00Z"


# -- tokens that make tokens --


def test_no_token_makes_one_that_lives_longer(tmp_path: Path) -> None:
    clock = ManualClock("2026-11-17T08:00:00Z")
    with serving(tmp_path, clock=clock) as service:

        def make(maker: Client, **fields: Any) -> Answer:
            return maker.post("/tokens/", {"name": "x", "role": "admin", **fields})

        brief = make(service.admin, expires_in="1h").fields
        maker = replace(service.admin, secret=brief["token"])
        child = make(maker)
        assert (child.status, child.fields["expires_at"]) == (201, brief["expires_at"])
        assert make(maker, expires_in="30m").fields["expires_at"] == "2026-11-17T08:30:00Z"
        assert make(maker, expires_in="1h").status == 201
        clock.advance("1s")
        for longer in ("1h", "90d"):
            answer = make(maker, expires_in=longer)
            assert (answer.status, answer.problem) == (403, "forbidden")
        grandchild = make(replace(service.admin, secret=child.fields["token"]))
        assert grandchild.fields["expires_at"] == brief["expires_at"]
        clock.set("2026-11-17T09:00:00Z")
        for fields in (child.fields, grandchild.fields):
            assert replace(service.admin, secret=fields["token"]).get("/me/").status == 401


def test_a_token_that_goes_on_beyond_its_limits_is_soon_refused_by_its_rate(runtime: Runtime) -> None:
    service = runtime.service
    service.context.rates = Rates(burst=100, per_second=500, monotonic=lambda: 0.0)
    client = service.client(max_schedules=1)
    client.create()
    refused = [client.post("/schedules/", {"every": "1h", "run": HTTP_RUN}) for _ in range(9)]
    assert [answer.status for answer in refused] == [403] * 5 + [429] * 4
    assert refused[-1].problem == "too-many-requests"
    assert service.client().create()["status"] == "active"
