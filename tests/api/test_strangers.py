"""What somebody with few rights, or none, could do to the process and to everybody else; and cannot."""

from __future__ import annotations

import sqlite3
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from everwhen.api.access import MOST_OF_ANYBODY
from everwhen.api.rates import Rates
from everwhen.model.queries import EventFilter
from tests.api.serving import HTTP_RUN, Service, serving

MESSAGE = {"every": "1h", "run": {"message": {"text": "hello"}}}
BEYOND = "9999-12-31T23:59:59-14:00"


# -- code --


@pytest.mark.parametrize(
    ("role", "method", "path"),
    [
        ("viewer", "POST", "/preview/"),
        ("operator", "POST", "/schedules/"),
        ("admin", "PUT", "/schedules/key/k/"),
        ("admin", "POST", "/schedules/batch/"),
    ],
)
def test_nobody_who_may_not_run_code_has_a_module_imported(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, role: Any, method: str, path: str
) -> None:
    name = f"module_of_{role}_{len(path)}"
    (tmp_path / f"{name}.py").write_text("def run(): pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    fields: dict[str, Any] = {"every": "1h", "run": {"python": f"{name}:run"}}
    service.client(role).call(method, path, {"schedules": [fields]} if "batch" in path else fields)
    assert name not in sys.modules


def test_a_function_that_is_not_there_is_reported_to_whoever_may_run_it(tmp_path: Path) -> None:
    with serving(tmp_path, allow_code_targets=True) as service:
        answer = service.admin.post("/schedules/", {"every": "1h", "run": {"python": "os:nothing"}})
        assert (answer.status, answer.fields["errors"][0]["path"]) == (422, "run.python")


# -- bodies of anybody --


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/schedules/x/pause/", 401),
        ("/schedules/batch-delete/", 401),
        ("/tokens/", 401),
        ("/config/reload/", 401),
        ("/jobs/x/rerun/", 401),
        ("/session/", 400),
        ("/jobs/x/outcome/", 400),
    ],
)
def test_a_body_is_not_read_before_it_is_known_who_sends_it(service: Service, path: str, status: int) -> None:
    assert service.nobody.post(path, raw=b"{").status == status


@pytest.mark.parametrize("path", ["/session/", "/jobs/x/outcome/"])
def test_where_no_token_is_needed_a_body_is_short(service: Service, path: str) -> None:
    answer = service.nobody.post(path, raw=b"[" + b"[]," * (MOST_OF_ANYBODY // 3) + b"[]]")
    assert (answer.status, answer.problem) == (413, "too-large")


def test_a_body_without_a_length_beyond_the_limit_is_413_also_where_it_has_a_shape(tmp_path: Path) -> None:
    with serving(tmp_path, max_body=100_000) as service:
        chunked = (b" " * 50_000 for _ in range(4))
        answer = service.admin.post("/schedules/batch-delete/", raw=chunked)
        assert (answer.status, answer.problem) == (413, "too-large")


@pytest.mark.parametrize("value", [b'"\\ud800"', b"NaN", b"-Infinity"])
def test_a_payload_that_no_database_takes_does_not_come_in_by_a_trigger(
    service: Service, value: bytes
) -> None:
    schedule = service.admin.create()
    answer = service.admin.post(
        f"/schedules/{schedule['id']}/trigger/", raw=b'{"payload": {"a": ' + value + b"}}"
    )
    assert (answer.status, answer.problem) == (400, "malformed")
    assert service.admin.get(f"/jobs/?schedule_id={schedule['id']}&origin=manual").fields["total"] == 0


# -- what would be in everybody's way --


def test_an_instant_that_cannot_be_shown_again_is_refused(service: Service) -> None:
    tenant = service.client(owner="mallory")
    schedule = tenant.create()
    answer = tenant.post(f"/schedules/{schedule['id']}/pause/", {"until": BEYOND})
    assert (answer.status, answer.problem) == (422, "invalid")
    assert service.admin.get(f"/schedules/{schedule['id']}/why/?at={BEYOND}").status == 422
    assert service.admin.get("/schedules/").status == 200


@pytest.mark.parametrize("limits", [{"ttl": 2**70}, {"ttl": -5}, {"ttl": 0}, {"min_interval": 2**80}])
def test_a_limit_that_is_no_duration_is_refused(service: Service, limits: dict[str, int]) -> None:
    answer = service.admin.post("/tokens/", {"name": "x", "role": "operator", "limits": limits})
    assert (answer.status, answer.problem) == (422, "invalid")


def test_who_is_turned_away_does_not_fill_the_record(tmp_path: Path) -> None:
    with serving(tmp_path) as service:
        viewer = service.client("viewer")
        service.context.rates = Rates(burst=3, per_second=0.001, monotonic=service.runtime.clock.monotonic)
        answers = [viewer.post("/schedules/", MESSAGE).status for _ in range(6)]
        assert answers == [403] * 3 + [429] * 3
        assert len(service.runtime.ledger.events(EventFilter(types=["auth.denied"]), limit=10)) == 3


def test_while_somebody_locks_the_database_writers_are_refused_soon_and_readers_are_served(
    tmp_path: Path,
) -> None:
    with serving(tmp_path) as service:
        other = sqlite3.connect(tmp_path / "api.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        try:
            with ThreadPoolExecutor(40) as many:
                # One after the other they would wait for minutes, and the client for a minute at most.
                writes = [many.submit(service.admin.call, "POST", "/schedules/", MESSAGE) for _ in range(32)]
                reads = [many.submit(service.admin.call, "GET", "/schedules/") for _ in range(4)]
            assert {each.result().status for each in writes} == {503}
            assert {each.result().status for each in reads} == {200}
        finally:
            other.execute("ROLLBACK")
            other.close()
        assert service.admin.post("/schedules/", MESSAGE).status == 201


# -- limits --


def test_a_batch_that_filled_the_quota_gets_the_same_answer_again(service: Service) -> None:
    maker = service.client(owner="full", max_schedules=2)
    key, body = {"Idempotency-Key": "once"}, {"schedules": [MESSAGE] * 3}
    first = maker.post("/schedules/batch/", body, headers=key).fields
    assert [item["problem"] is None for item in first["items"]] == [True, True, False]
    assert maker.post("/schedules/batch/", body, headers=key).fields == first


# -- secrets --

SECRET = {
    "http": {
        "url": "https://u:passw0rd@example.com/?api_key=s3cret&x=1",
        "headers": {"Authorization": "Bearer s3cret", "X-Plain": "***"},
    }
}


def test_secrets_of_a_url_are_not_repeated(service: Service) -> None:
    run = service.admin.create(run=SECRET)["run"]["http"]
    assert run["url"] == "https://u:***@example.com/?api_key=***&x=1"
    assert run["headers"] == {"Authorization": "***", "X-Plain": "***"}


def test_a_mask_that_comes_back_does_not_replace_the_secret(service: Service) -> None:
    schedule = service.admin.create(run=SECRET)
    answer = service.admin.patch(f"/schedules/{schedule['id']}/", {"run": schedule["run"], "name": "x"})
    assert answer.status == 422
    assert {error["path"] for error in answer.fields["errors"]} == {
        "run.http.url",
        "run.http.headers.Authorization",
    }
    assert service.admin.patch(f"/schedules/{schedule['id']}/", {"name": "x"}).status == 200
    stars = {"every": "1h", "run": {"message": {"text": "***"}}}
    assert service.admin.post("/schedules/", stars).status == 201
    batch = {"schedules": [{"every": "1h", "run": schedule["run"]}, {"every": "1h", "run": HTTP_RUN}]}
    assert service.admin.post("/schedules/batch/", batch).fields["failed"] == 1
