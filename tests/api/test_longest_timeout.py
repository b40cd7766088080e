"""How long a run may take: a caller whose token has an owner sets no timeout above api.max_timeout (O4)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.api.serving import HTTP_RUN, Answer, Client, Service, serving

FILE = """
agents: {bot: {command: ["true"], owner: ann}, slow: {command: ["true"], owner: ann, timeout: 3h}}
workflows: {"1": {name: w, run: {http: {url: "http://127.0.0.1:9/run"}}, owner: ann}}
"""
TOO_LONG: list[dict[str, Any]] = [
    {"every": "1h", "run": HTTP_RUN, "timeout": 0},
    {"every": "1h", "run": HTTP_RUN, "timeout": "0s"},
    {"every": "1h", "run": HTTP_RUN, "timeout": "1h1s"},
    {"every": "1h", "run": {"agent": {"name": "slow"}}, "timeout": "2h"},
    {"workflow_id": 1, "interval_seconds": 3600, "timeout_seconds": 0},
    {"workflow_id": 1, "interval_seconds": 3600, "timeout_seconds": 3601},
    {"type": "interval", "spec": 3600, "run": HTTP_RUN, "timeout": 0},
    {"type": "webhook", "run": HTTP_RUN, "timeout": 0},
]
USABLE: list[dict[str, Any]] = [
    {"every": "1h", "run": HTTP_RUN, "timeout": "1h"},
    {"every": "1h", "run": {"agent": {"name": "bot"}}},
    {"every": "1h", "run": {"agent": {"name": "slow"}}},  # what its group sets is its operator's word
    {"workflow_id": 1, "interval_seconds": 3600},
]


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with serving(tmp_path, file=FILE) as opened:
        yield opened


@pytest.fixture
def ann(service: Service) -> Client:
    return service.client(owner="ann")


def fault(answer: Answer) -> str:
    assert answer.status == 422, answer.raw
    return str(answer.fields["errors"])


@pytest.mark.parametrize("fields", TOO_LONG)
def test_a_timeout_above_the_longest_is_refused_to_an_owner_alone(
    service: Service, ann: Client, fields: dict[str, Any]
) -> None:
    key = "timeout_seconds" if "timeout_seconds" in fields else "timeout"
    answer = fault(ann.post("/schedules/", fields))
    assert f"'{key}'" in answer and "is longer than 1h, the most that a token with an owner may set" in answer
    batch = ann.post("/schedules/batch", {"schedules": [fields]}).fields
    assert batch["failed"] == 1 and "is longer than 1h" in str(batch["items"])
    assert service.admin.post("/schedules/", {**fields, "owner": "ann"}).status == 201


@pytest.mark.parametrize("fields", USABLE)
def test_what_a_group_or_a_kind_has_by_default_stays_usable(ann: Client, fields: dict[str, Any]) -> None:
    assert ann.post("/schedules/", fields).status == 201


def test_a_stored_timeout_above_the_longest_stays_and_is_not_edited_to(service: Service, ann: Client) -> None:
    stored = service.admin.create(timeout=0, owner="ann")["id"]
    assert ann.patch(f"/schedules/{stored}/", {"name": "another"}).status == 200
    assert ann.patch(f"/schedules/{stored}/", {"timeout": 0}).status == 200
    assert "is longer than" in fault(ann.patch(f"/schedules/{stored}/", {"timeout": "2h"}))
    assert ann.patch(f"/schedules/{stored}/", {"timeout": "10m"}).status == 200
    for value in (0, "2h"):
        assert "is longer than" in fault(ann.patch(f"/schedules/{stored}/", {"timeout": value}))
    assert service.admin.patch(f"/schedules/{stored}/", {"timeout": 0}).status == 200


def test_the_longest_is_a_key_of_the_configuration(tmp_path: Path) -> None:
    with serving(tmp_path, file=FILE, max_timeout=120) as opened:
        ann = opened.client(owner="ann")
        answer = fault(ann.post("/schedules/", {"every": "1h", "run": HTTP_RUN, "timeout": "5m"}))
        assert "is longer than 2m" in answer
        assert ann.post("/schedules/", {"every": "1h", "run": HTTP_RUN}).status == 201
