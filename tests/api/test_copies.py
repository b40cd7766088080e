"""What makes a schedule again: the body that a copy is posted with has every key, whatever it runs and whoever asks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

from everwhen.api.payloads import model_of
from everwhen.model.fields import GENERAL
from everwhen.model.limits import TransitionReason
from everwhen.model.reasons import (
    BRIEF,
    BRIEF_AHEAD,
    CancelReason,
    HoldReason,
    MissReason,
    ScheduleSkipReason,
    SkipReason,
    SpanReason,
)
from everwhen.model.target_kinds import KINDS
from everwhen.testing.manual import ManualClock
from everwhen.views.terms import Terms
from tests.api.serving import HTTP_RUN, Client, Service, serving
from tests.api.test_what_reaches_a_run import BASES, CHANGES, HOURLY
from tests.targets.plugins import put_plugin

FILE = """
quiet_hours: {nights: {windows: [{between: "22:00-07:00"}]}}
agents: {bot: {shared: true, command: ["true"], instances: {max_concurrent: 2}}}
plugins: {withings: {shared: true, max_concurrent: 2, circuit_breaker: {threshold: 5}}}
workflows: {daily: {name: Daily, shared: true, run: {command: ["true"]}}}
plugin_dirs: [FOLDER/plugins]
"""
RUNS: dict[str, dict[str, Any]] = {
    "command": {"command": ["true"], "env": {"A": "b"}, "cwd": "/"},
    "http": {"http": {"url": "https://example.com/a", "method": "PUT", "body": {"deep": [1]}}},
    "plugin": {"plugin": {"name": "withings", "command": "poll"}},
    "agent": {"agent": {"name": "bot", "prompt": "Look."}},
    "workflow": {"workflow": {"id": "daily"}},
    "message": {"message": {"text": "hello", "thread_id": "family"}},
}
TURNED_OFF = {"max_outstanding": 0, "max_concurrent": 0, "circuit_breaker": False, "timeout": 0}
OF_ITS_OWN = {"id", "uid", "created_at", "updated_at", "next_slot_at", "next_run_at"}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("copies")
    put_plugin(folder / "plugins", program="#!/bin/sh\ncat\n")
    clock = ManualClock("2026-01-05T08:00:00Z")
    file = FILE.replace("FOLDER", str(folder))
    with serving(folder, file=file, clock=clock, allow_code_targets=True) as found:
        yield found


def made_again(client: Client, body: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Return a schedule, its copy, and the body that made the copy."""
    made = client.post("/schedules/", body)
    assert made.status == 201, (body, made.raw)
    answer = client.get(f"/schedules/{made.fields['id']}/body/")
    copy = client.post("/schedules/", answer.fields["body"])
    assert copy.status == 201, (answer.raw, copy.raw)
    return made.fields, copy.fields, answer.fields["body"]


def without_its_own(fields: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if key not in OF_ITS_OWN}


@pytest.mark.parametrize("key", sorted(set(GENERAL) - {"run", "enabled"}))
def test_a_copy_has_the_same_value_of_each_key(service: Service, key: str) -> None:
    base = {**BASES.get(key, HOURLY), "run": HTTP_RUN, key: CHANGES[key]}
    more = {"outside_window": {"only_between": "08:00-18:00"}, "queue_limit": {"if_running": "queue"}}
    made, copy, body = made_again(service.admin, {**base, **more.get(key, {})})
    assert without_its_own(copy) == without_its_own(made)
    assert key in body


@pytest.mark.parametrize("kind", RUNS)
@pytest.mark.parametrize("more", [{}, TURNED_OFF], ids=["default", "off"])
def test_a_copy_has_what_its_target_has_by_default_and_what_is_turned_off(
    service: Service, kind: str, more: dict[str, Any]
) -> None:
    made, copy, body = made_again(service.admin, {**HOURLY, "run": RUNS[kind], **more})
    assert without_its_own(copy) == without_its_own(made)
    if not more:
        assert set(body) <= {*HOURLY, "run", "interval_from", "owner"}, "what is there by default is left out"


@pytest.mark.parametrize("kind", ["plugin", "agent", "workflow"])
def test_a_tenant_can_copy_a_schedule_of_a_shared_group(service: Service, kind: str) -> None:
    made, copy, _ = made_again(service.client(owner="ada"), {**HOURLY, "run": RUNS[kind]})
    assert without_its_own(copy) == without_its_own(made)


@pytest.mark.parametrize("kind", ["webhook", "chat"])
def test_a_copy_of_what_requests_fire_is_fired_by_requests(service: Service, kind: str) -> None:
    made, copy, _ = made_again(service.admin, {"type": kind, "name": "asked", "run": HTTP_RUN})
    assert without_its_own(copy) == without_its_own(made)


def test_secrets_are_left_out_and_named(service: Service) -> None:
    run = {
        "http": {"url": "https://example.com/a", "headers": {"Authorization": "Bearer abc", "X-Team": "a"}}
    }
    ping = {"url": "https://example.com/ping?token=abc"}
    hook = {"type": "webhook", "secret": "0123456789abcdef", "signature": "github", "run": run, "ping": ping}
    made = service.admin.post("/schedules/", {**hook, "payload": {"password": "abc", "to": "a"}}).fields
    answer = service.admin.get(f"/schedules/{made['id']}/body/").fields
    assert "abc" not in str(answer)
    assert answer["body"]["run"]["http"]["headers"] == {"X-Team": "a"}
    assert answer["body"]["payload"] == {"to": "a"}
    assert sorted(answer["left_out"]) == [
        "payload.password",
        "ping.url",
        "run.http.headers.Authorization",
        "secret",
    ]


def test_a_schedule_whose_target_has_gone_shows_what_it_has(tmp_path: Path) -> None:
    with serving(tmp_path, clock=ManualClock("2026-01-05T08:00:00Z")) as service:
        made = service.admin.create(run={"message": {"text": "hello"}}, max_retries=3)
        answer = service.admin.get(f"/schedules/{made['id']}/body/").fields
        assert (answer["body"]["max_retries"], answer["left_out"]) == (3, [])


def test_every_reason_has_its_few_words() -> None:
    lists = (
        SkipReason,
        HoldReason,
        MissReason,
        SpanReason,
        CancelReason,
        ScheduleSkipReason,
        TransitionReason,
    )
    assert set(BRIEF) == {reason for words in lists for reason in get_args(words)}
    assert set(BRIEF_AHEAD) < set(BRIEF)


def test_the_terms_have_every_key_with_its_words_and_every_reason(service: Service) -> None:
    answer = service.client("viewer", owner="ada").get("/terms/")
    model_of(Terms).model_validate(answer.fields)
    keys = {term["key"]: term for term in answer.fields["keys"]}
    assert set(GENERAL) <= set(keys)
    assert [term["word"] for term in keys["catch_up"]["words"]] == ["skip", "run_once", "run_all"]
    assert [term["word"] for term in keys["dst.fold"]["words"]] == ["first", "second", "both"]
    explained = [
        key for key in keys.values() if key["words"] and not key["key"].startswith(("expect", "run"))
    ]
    assert len(explained) > 8 and all(term["about"] for key in explained for term in key["words"])
    assert [term["word"] for term in keys["run.http.method"]["words"]][:2] == ["POST", "GET"]
    assert all(f"run.{kind}" in keys for kind in KINDS)
    assert (keys["queue_limit"]["default"], keys["enabled"]["default"]) == ("1000", "true")
    reasons = {term["reason"]: term for term in answer.fields["reasons"]}
    assert set(reasons) == set(BRIEF)
    assert reasons["budget"]["text_ahead"] == "the budget is spent"
    assert reasons["quiet_hours"]["text_ahead"] == reasons["quiet_hours"]["text"]


def test_a_schedule_with_the_key_body_is_found_by_it(service: Service) -> None:
    made = service.admin.call("PUT", "/schedules/key/body/", {"every": "1h", "run": HTTP_RUN})
    assert made.status == 201, made.raw
    assert service.admin.get("/schedules/key/body/").fields["id"] == made.fields["id"]
    assert service.admin.get(f"/schedules/{made.fields['id']}/body/").fields["body"]["every"] == "1h"
