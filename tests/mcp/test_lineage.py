"""Whatever runs do with their tokens, what their lineage causes stays within `self_schedule`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from everwhen.operations.maintenance import prove
from everwhen.testing.manual import ManualClock
from tests.api.serving import Service, serving
from tests.mcp.lineage import SETTINGS, STEPS, Lineage

START = "2026-11-17T08:10:00Z"
AGENTS = count()
MOST_AGENTS = 3_000
FILE = (
    "agents: {"
    + ", ".join(f"a{number}: {{command: [true], max_concurrent: 9}}" for number in range(MOST_AGENTS))
    + "}"
)


@pytest.fixture(params=["sqlite", "postgres"])
def service(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Service, ManualClock]]:
    is_postgres = request.param == "postgres"
    url = request.getfixturevalue("postgres_url") if is_postgres else None
    clock = ManualClock(START)
    with serving(tmp_path, file=FILE, url=url, clock=clock) as found:
        found.context.rates.unlimited = True
        yield found, clock
        assert prove(found.runtime).is_clean


def play(service: tuple[Service, ManualClock], chosen: dict[str, Any], steps: Any) -> None:
    found, clock = service
    lineage = Lineage(found, clock, f"a{next(AGENTS)}", chosen)
    lineage.begin()
    lineage.play(steps)
    lineage.check()
    for one in found.admin.get("/schedules/?limit=500").fields["items"]:
        found.admin.call("DELETE", f"/schedules/{one['id']}/?cancel=true")
    lineage.end_all()


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(chosen=SETTINGS, steps=STEPS)
def test_whatever_runs_do_their_lineage_stays_within_its_limits(
    service: tuple[Service, ManualClock], chosen: dict[str, Any], steps: Any
) -> None:
    play(service, chosen, steps)


@pytest.mark.long
@pytest.mark.timeout(3_600)
@settings(
    max_examples=1_000 if os.environ.get("EVERWHEN_FUZZ") else 200,
    deadline=None,
    derandomize=False,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(chosen=SETTINGS, steps=STEPS)
def test_whatever_runs_do_their_lineage_stays_within_its_limits_in_many_cases(
    service: tuple[Service, ManualClock], chosen: dict[str, Any], steps: Any
) -> None:
    play(service, chosen, steps)
