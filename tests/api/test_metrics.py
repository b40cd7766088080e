"""Metrics over HTTP, and the dashboard that shows them."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

from tests.api.serving import Service

ROOT = Path(__file__).parents[2]
NAMES = """everwhen_slots_total everwhen_lag_seconds everwhen_jobs_running everwhen_held_slots everwhen_breaker_state
everwhen_overdue_schedules everwhen_jobs_queued everwhen_schedules everwhen_database_up""".split()
OF_A_NODE = {
    "everwhen_job_duration_seconds",
    "everwhen_loop_checks_total",
    "everwhen_loop_last_tick_timestamp_seconds",
    "everwhen_scheduler_last_heartbeat_timestamp_seconds",
}


def metrics_of(service: Service) -> str:
    answer = replace(service.nobody, prefix="").get("/metrics")
    assert (answer.status, answer.headers["cache-control"]) == (200, "no-store")
    assert answer.headers["content-type"].startswith("text/plain")
    return answer.raw.decode()


def test_metrics_need_no_token_and_name_no_schedule(service: Service) -> None:
    made = service.admin.create(name="a name", owner="an owner")
    text = metrics_of(service)
    for name in NAMES:
        assert re.search(rf"^{name}[ {{]", text, re.MULTILINE), name
    assert made["id"] not in text and "a name" not in text and "an owner" not in text


def test_metrics_are_shown_to_those_who_know_the_name_of_this_service_only(service: Service) -> None:
    answer = replace(service.nobody, prefix="").get("/metrics", Host="evil.example")
    assert (answer.status, answer.problem) == (421, "wrong-host")


def test_the_dashboard_shows_metrics_that_there_are(service: Service) -> None:
    dashboard = json.loads((ROOT / "examples/grafana/everwhen.json").read_text())
    asked = {
        name
        for panel in dashboard["panels"]
        for target in panel.get("targets", ())
        for name in re.findall(r"everwhen_\w+", target["expr"])
    }
    reported = set(re.findall(r"^(everwhen_\w+)", metrics_of(service), re.MULTILINE)) | OF_A_NODE
    known = {name.removesuffix("_bucket").removesuffix("_sum").removesuffix("_count") for name in asked}
    assert len(asked) > 8
    assert known <= reported
