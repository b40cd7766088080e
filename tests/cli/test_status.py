"""`everwhen status` as a person in trouble needs it: what is wrong, what is late, and who holds what."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from everwhen.cli.main import everwhen
from everwhen.database import open_stack
from everwhen.model.instants import SECOND
from everwhen.model.outcome import Outcome
from everwhen.operations.system import Disk, SystemStatus, list_problems, system_status
from everwhen.testing import manual_scheduler
from everwhen.views.system import status_to_json


def status(url: str, *more: str) -> Result:
    return CliRunner().invoke(everwhen, ["status", *more, "--database", url])


def test_status_knows_the_last_backup_and_the_disk_and_ends_with_one_while_nothing_runs(
    tmp_path: Path,
) -> None:
    url = f"sqlite:///{tmp_path}/e.db"
    open_stack(url).close()
    before = status(url)
    assert before.exit_code == 1 and before.stdout.startswith("✗ no scheduler is running: nothing fires")
    assert "last backup                never" in before.stdout and "GiB free" in before.stdout
    backup = ["db", "backup", str(tmp_path / "copy"), "--database", url]
    assert CliRunner().invoke(everwhen, backup).exit_code == 0
    after = status(url, "--json")
    found: dict[str, Any] = json.loads(after.stdout)
    assert after.exit_code == 1 and found["last_backup_at"] is not None
    assert found["problems"] == ["no scheduler is running: nothing fires; start one with everwhen up"]
    assert 0 <= found["disk"]["free_percent"] <= 100 and found["broker"] is None
    assert found["database"] == "sqlite"


def problems(found: SystemStatus, **more: Any) -> list[str]:
    return list_problems(found, **{"unready": None, "dispatch": "local", "broker": None, **more})


def test_what_is_late_is_named_with_by_how_much() -> None:
    s = manual_scheduler("2026-01-05T08:00:00Z")
    s.add("report", every="1h", first_run="after_interval")
    s.beat()
    assert problems(system_status(s.runtime)) == []
    s.clock.advance("90m")
    s.beat()
    found = system_status(s.runtime)
    assert problems(found) == ["late by 30 minutes"]
    fields = status_to_json(found, None, unready=None, dispatch="local")
    assert fields["late"] == [{"schedule_id": "report", "timezone": "UTC", "due_at": "2026-01-05T09:00:00Z"}]


def test_a_held_slot_is_listed_with_the_jobs_that_have_its_places() -> None:
    s = manual_scheduler("2026-01-05T08:00:00Z")
    s.add("slow", every="1h", max_outstanding=1, if_running="allow")
    s.tick()
    s.clock.advance("1h")
    s.tick()
    (held,) = status_to_json(system_status(s.runtime), None, unready=None, dispatch="local")["held_slots"]
    assert (held["schedule_id"], held["reason"], held["slot_at"]) == (
        "slow",
        "outstanding_limit",
        "2026-01-05T09:00:00Z",
    )
    assert [job["schedule_id"] for job in held["by"]] == ["slow"]


def test_each_fault_of_the_surroundings_is_a_sentence() -> None:
    s = manual_scheduler("2026-01-05T08:00:00Z")
    s.beat()
    found = system_status(s.runtime)
    full = replace(found, disk=Disk(free=3 << 30, total=100 << 30))
    assert problems(full) == ["the disk of the database is nearly full: 3 % is free"]
    skewed = replace(found, nodes=[found.nodes[0]._replace(clock_skew=-90 * SECOND, node="n1")])
    assert problems(skewed) == ["the clock of node n1 is 90.0 s behind the database's"]
    assert problems(found, dispatch="rq", broker="connection refused") == [
        "the broker of rq does not answer: connection refused"
    ]
    assert problems(found, unready="the database is locked by another program") == [
        "not ready: the database is locked by another program"
    ]
    assert problems(replace(found, nodes=[])) == [
        "no scheduler is running: nothing fires; start one with everwhen up"
    ]
    assert problems(replace(found, nodes=[], paused_at=0)) == []


def test_open_breakers_and_schedules_that_need_a_person_are_problems() -> None:
    s = manual_scheduler("2026-01-05T08:00:00Z", outcome=lambda _: Outcome("failed", error="no"))
    s.add("breaks", every="1h", circuit_breaker={"threshold": 1})
    s.add("dies", every="1h", on_exhausted="stop", max_retries=0)
    s.beat()
    s.step()
    assert problems(system_status(s.runtime)) == [
        "the circuit breaker breaks is open: its slots are skipped; see everwhen system breaker breaks",
        "1 schedule is dead; see everwhen schedules list --status dead",
    ]


@pytest.mark.parametrize("dispatch", ["rq", "rq-chain"])
def test_a_broker_that_does_not_answer_is_named_without_a_service(tmp_path: Path, dispatch: str) -> None:
    url = f"sqlite:///{tmp_path}/e.db"
    open_stack(url).close()
    (tmp_path / "everwhen.yaml").write_text(
        f"service: {{database: '{url}', dispatch: {dispatch}, redis: 'redis://127.0.0.1:1/0'}}\n"
    )
    shown = CliRunner().invoke(everwhen, ["status", "--config", str(tmp_path / "everwhen.yaml")])
    assert shown.exit_code == 1 and f"✗ the broker of {dispatch} does not answer" in shown.stdout
