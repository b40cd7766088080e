"""Ductile, herdctl and Celery: what comes over, and what is said about the rest."""

from __future__ import annotations

from typing import Any

import pytest

from everwhen.errors import ConfigError
from everwhen.importers.celery_beat import import_celery
from everwhen.importers.ductile import import_ductile
from everwhen.importers.herdctl import import_herdctl

BEAT = """
from celery import Celery
from celery.schedules import crontab, solar
from datetime import timedelta

app = Celery("proj")
app.conf.timezone = "Europe/London"
raise SystemExit("this file is read, and never run")
app.conf.beat_schedule = {
    "add-every-30-seconds": {"task": "proj.tasks.add", "schedule": 30.0, "args": (16, 16)},
    "tidy": {"task": "proj.tasks.tidy", "schedule": timedelta(minutes=5), "options": {"queue": "slow", "priority": 3}},
    "report": {"task": "proj.tasks.report", "schedule": crontab(hour=7, minute=30, day_of_week="mon-fri")},
    "payday": {"task": "proj.tasks.pay", "schedule": crontab(0, 9, day_of_month="1-7", day_of_week="friday")},
    "often": {"task": "proj.tasks.often", "schedule": crontab(minute="*/15"), "kwargs": {"deep": True}},
    "sunrise": {"task": "proj.tasks.up", "schedule": solar("sunrise", -37.8, 144.9)},
    "half": {"task": "proj.tasks.half", "schedule": 0.5},
    "computed": {"task": NAME, "schedule": 10},
}
"""


def test_a_beat_schedule_is_read_and_never_run() -> None:
    imported = import_celery(BEAT)
    found = {entry["id"]: entry for entry in imported.document["schedules"]}
    assert list(found) == ["add-every-30-seconds", "tidy", "report", "payday", "often"]
    assert found["add-every-30-seconds"] == {
        "id": "add-every-30-seconds",
        "every": "30s",
        "first_run": "after_interval",
        "if_running": "allow",
        "run": {"command": ["celery", "-A", "proj", "call", "proj.tasks.add", "--args", "[16, 16]"]},
    }
    assert found["tidy"]["every"] == "300s"
    assert found["tidy"]["run"]["command"][-2:] == ["--queue", "slow"]
    assert (found["report"]["cron"], found["report"]["timezone"]) == ("30 7 * * mon-fri", "Europe/London")
    assert (found["payday"]["cron"], found["payday"]["not_on"]) == (
        "0 9 1-7 * *",
        ["sun", "mon", "tue", "wed", "thu", "sat"],
    )
    assert found["often"]["run"]["command"][-1] == '{"deep": true}'
    assert imported.notes == [
        "tidy: options.priority is left out",
        "payday: day_of_month and day_of_week must both match; the other weekdays are left out by not_on",
        "sunrise: left out: solar: there are no solar events here; give it a time of day",
        "half: left out: line 16: every 0.5 s cannot be kept; slots are whole seconds",
        "computed: left out: line 17: NAME is computed; only literals can be read",
        "a run succeeds when its task was sent, not when it was done; a python target has its outcome",
    ]


@pytest.mark.parametrize(
    "source",
    [
        'CELERY_BEAT_SCHEDULE = {"a": {"task": "p.t", "schedule": 10}}',
        'app.conf.update(beat_schedule={"a": {"task": "p.t", "schedule": 10}})',
        'app.conf["beat_schedule"] = {"a": {"task": "p.t", "schedule": schedule(run_every=10)}}',
    ],
)
def test_a_beat_schedule_is_found_wherever_it_is_set(source: str) -> None:
    assert [entry["every"] for entry in import_celery(source, app="p").document["schedules"]] == ["10s"]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("x = (", "this is no Python"),
        ("x = 1", "this file sets no beat_schedule"),
        ("\0", "this is no Python"),
    ],
)
def test_a_file_without_a_beat_schedule_is_refused(source: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        import_celery(source)


def test_plugins_of_ductile_come_over_as_they_are() -> None:
    document = {
        "service": {"name": "home", "tick_interval": "60s", "log_level": "info"},
        "plugin_roots": ["/opt/plugins"],
        "webhooks": {},
        "plugins": {
            "withings": {
                "enabled": True,
                "config": {"token": "${TOKEN}"},
                "retry": {"max": 3},
                "schedules": [
                    {"command": "token_refresh", "every": "1h", "jitter": "5m"},
                    {"command": "poll", "every": "15m", "jitter": "2m", "preferred_window": {}},
                ],
            },
            "echo": {"schedule": {"every": "daily", "after": None}},
        },
    }
    imported = import_ductile(document)
    assert imported.document == {
        "service": {"name": "home", "check_interval": "60s"},
        "plugin_dirs": ["/opt/plugins"],
        "plugins": {
            "withings": {
                "enabled": True,
                "config": {"token": "${TOKEN}"},
                "schedules": [
                    {"id": "token-refresh", "command": "token_refresh", "every": "1h", "jitter": "5m"},
                    {"id": "poll", "command": "poll", "every": "15m", "jitter": "2m"},
                ],
            },
            "echo": {"schedule": {"every": "daily"}},
        },
    }
    assert "plugins.withings.retry: left out" in imported.notes
    assert "webhooks: left out, it is no part of the scheduler" in imported.notes


def test_agents_of_a_fleet_are_read_from_their_files() -> None:
    agent: dict[str, Any] = {
        "name": "Issue Fixer",
        "model": "sonnet",
        "workspace": "/src",
        "instances": {"max_concurrent": 2},
        "permissions": {},
        "schedules": {
            "check": {
                "type": "interval",
                "interval": "5m",
                "prompt": "Look.",
                "work_source": {"type": "github"},
            },
            "daily": {"type": "cron", "expression": "0 9 * * 1-5", "prompt": "Report."},
        },
    }
    imported = import_herdctl(
        {"version": 1, "agents": [{"path": "agents/fixer.yaml"}]}, {"agents/fixer.yaml": agent}.get
    )
    assert imported.document == {
        "agents": {
            "issue-fixer": {
                "command": ["claude", "-p", "--model", "sonnet"],
                "cwd": "/src",
                "max_concurrent": 2,
                "schedules": {
                    "check": {"type": "interval", "interval": "5m", "prompt": "Look."},
                    "daily": {"type": "cron", "expression": "0 9 * * 1-5", "prompt": "Report."},
                },
            }
        }
    }
    assert any("github is not among those that come with everwhen" in note for note in imported.notes)
    assert "agents.issue-fixer.permissions: left out, it belongs to the agent's program" in imported.notes


@pytest.mark.parametrize("document", [None, [], {"x": 1}])
def test_a_file_of_something_else_is_refused(document: Any) -> None:
    with pytest.raises(ConfigError, match="this is no file of herdctl"):
        import_herdctl(document, lambda path: None)
    with pytest.raises(ConfigError, match="this is no configuration of Ductile"):
        import_ductile(document)
