"""Ductile, herdctl and Celery: what comes over, and what is said about the rest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from everwhen.compat.importers.celery_beat import import_celery
from everwhen.compat.importers.ductile import import_ductile
from everwhen.compat.importers.herdctl import import_herdctl
from everwhen.errors import ConfigError

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
        'CELERY = {"task_routes": {}, "beat_schedule": {"a": {"task": "p.t", "schedule": 10}}}',
        'app.conf.update({"beat_schedule": {"a": {"task": "p.t", "schedule": 10}}})',
        'CELERY = dict(beat_schedule={"a": {"task": "p.t", "schedule": 10}})',
    ],
)
def test_a_beat_schedule_is_found_wherever_it_is_set(source: str) -> None:
    assert [entry["every"] for entry in import_celery(source, app="p").document["schedules"]] == ["10s"]


def test_entries_that_are_set_one_by_one_are_read_or_noted() -> None:
    source = """
app.conf.beat_schedule["a"] = {"task": "t.a", "schedule": 5.0}
app.conf["beat_schedule"]["b"] = {"task": "t.b", "schedule": 5.0}
app.conf.beat_schedule.update({"c": {"task": "t.c", "schedule": 5.0}})
app.conf.beat_schedule[NAME] = {"task": "t.d", "schedule": 5.0}
"""
    imported = import_celery(source)
    assert sorted(entry["id"] for entry in imported.document["schedules"]) == ["a", "b", "c"]
    assert "line 5: left out, the entry is computed; only literals can be read" in imported.notes


def test_settings_in_a_mapping_bring_their_zone() -> None:
    source = """
CELERY = {
    "beat_schedule": {"a": {"task": "p.t", "schedule": crontab(hour=7)}},
    "timezone": "Europe/Berlin",
}
"""
    (schedule,) = import_celery(source).document["schedules"]
    assert schedule["timezone"] == "Europe/Berlin"


def test_a_computed_option_costs_the_option_and_not_the_entry() -> None:
    source = """
beat_schedule = {
    "a": {
        "task": "p.t",
        "schedule": 10,
        "options": {"queue": QUEUE, "expires": timedelta(minutes=5), "countdown": None, **MORE, "routing_key": "r"},
    },
    "b": {"task": "p.t", "schedule": 10, "options": options_of("b")},
    "c": {"task": "p.t", "schedule": 10, "options": dict(queue="slow")},
}
"""
    imported = import_celery(source)
    commands = [entry["run"]["command"][5:] for entry in imported.document["schedules"]]
    assert commands == [["--expires", "300", "--routing-key", "r"], [], ["--queue", "slow"]]
    assert imported.notes[:3] == [
        "a: options.queue is left out: line 6: QUEUE is computed; only literals can be read",
        "a: options is left out: line 6: MORE is computed; only literals can be read",
        "b: options is left out: line 8: options_of('b') is computed; only literals can be read",
    ]


def test_arguments_that_look_like_references_to_the_environment_stay_what_they_are() -> None:
    source = 'beat_schedule = {"a": {"task": "p.t", "schedule": 10, "args": ["${HOME}"]}}'
    (schedule,) = import_celery(source).document["schedules"]
    assert schedule["run"]["command"][-1] == '["$${HOME}"]'


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("x = (", "this is not valid Python"),
        ("x = 1", "this file sets no beat_schedule"),
        ("\0", "this is not valid Python"),
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
    assert "webhooks: left out, it is not part of the scheduler" in imported.notes


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
    with pytest.raises(ConfigError, match="this is not a herdctl file"):
        import_herdctl(document, lambda path: None)
    with pytest.raises(ConfigError, match="this is not a Ductile configuration"):
        import_ductile(document)


def test_the_directory_of_an_agent_is_meant_from_its_own_file() -> None:
    agents = {
        "/fleet/agents/one.yaml": {"name": "one", "working_directory": "../src"},
        "/fleet/agents/two.yaml": {"name": "two", "working_directory": {"root": "work", "auto_clone": True}},
        "/fleet/agents/three.yaml": {"name": "three", "cwd": "~/three"},
    }
    fleet = {"agents": [{"path": f"./agents/{name}.yaml"} for name in ("one", "two", "three")]}
    imported = import_herdctl(fleet, agents.__getitem__, "/fleet")
    found = {name: fields["cwd"] for name, fields in imported.document["agents"].items()}
    assert (found["one"], found["two"]) == ("/fleet/src", "/fleet/agents/work")
    assert found["three"].endswith("/three") and not found["three"].startswith("~")
    assert "agents.two.working_directory.auto_clone: left out" in imported.notes


def test_an_agent_without_a_directory_runs_in_the_folder_of_its_file(tmp_path: Path) -> None:
    (tmp_path / "agents").mkdir()
    agents = {f"{tmp_path}/agents/one.yaml": {"name": "one"}}
    fleet = {"agents": [{"path": "agents/one.yaml"}, {"name": "inline", "working_directory": "gone"}]}
    imported = import_herdctl(fleet, agents.__getitem__, str(tmp_path))
    found = {name: fields["cwd"] for name, fields in imported.document["agents"].items()}
    assert found == {"one": f"{tmp_path}/agents", "inline": f"{tmp_path}/gone"}
    assert [note for note in imported.notes if "working_directory" in note] == [
        "agents.one.working_directory: is not given; cwd is the folder of the agent's file, as in herdctl",
        f"agents.inline.working_directory: {tmp_path}/gone is not a folder of this machine; runs fail until it is",
    ]


@pytest.mark.parametrize("own", ["workspace", "working_directory"])
@pytest.mark.parametrize("override", ["workspace", "working_directory"])
def test_the_directory_that_a_fleet_overrides_counts_under_either_name(own: str, override: str) -> None:
    fleet = {"agents": [{"path": "a.yaml", "overrides": {override: "/theirs"}}]}
    imported = import_herdctl(fleet, lambda _path: {"name": "a", own: "/own"})
    assert imported.document["agents"]["a"]["cwd"] == "/theirs"


def test_what_a_fleet_overrides_and_the_work_source_of_its_defaults_come_over() -> None:
    agent = {
        "name": "fixer",
        "default_prompt": "Look.",
        "schedules": {
            "check": {"type": "interval", "interval": "5m"},
            "own": {
                "type": "interval",
                "interval": "1h",
                "work_source": {"type": "command", "command": ["ls"]},
            },
        },
    }
    fleet = {
        "defaults": {"work_source": {"type": "directory", "path": "inbox"}, "max_turns": 9},
        "agents": [
            {
                "path": "fixer.yaml",
                "overrides": {"default_prompt": "Fix.", "schedules": {"check": {"interval": "10m"}}},
            }
        ],
    }
    imported = import_herdctl(fleet, {"fixer.yaml": agent}.__getitem__)
    found = imported.document["agents"]["fixer"]
    assert found["default_prompt"] == "Fix."
    assert found["schedules"]["check"] == {
        "type": "interval",
        "interval": "10m",
        "work_source": {"type": "directory", "path": "inbox"},
    }
    assert found["schedules"]["own"]["work_source"]["type"] == "command"
    assert "defaults.max_turns: left out" in imported.notes


def test_the_agents_of_fleets_inside_a_fleet_come_over_under_its_name() -> None:
    documents = {
        "/all/team/herdctl.yaml": {"fleet": {"name": "team"}, "agents": [{"path": "a.yaml"}]},
        "/all/team/a.yaml": {
            "name": "a",
            "cwd": "src",
            "schedules": {"x": {"type": "interval", "interval": "5m"}},
        },
        "/all/b.yaml": {"name": "b"},
    }
    fleet = {"agents": ["b.yaml"], "fleets": [{"path": "team/herdctl.yaml"}]}
    imported = import_herdctl(fleet, documents.__getitem__, "/all")
    assert set(imported.document["agents"]) == {"b", "team-a"}
    assert imported.document["agents"]["team-a"]["cwd"] == "/all/team/src"
    assert any("named team-" in note for note in imported.notes)


@pytest.mark.parametrize(
    "document", [{"version": 1, "fleet": {"name": "x"}}, {"agents": []}, {"defaults": {"model": "m"}}]
)
def test_a_fleet_without_agents_is_a_file_of_herdctl(document: dict[str, Any]) -> None:
    assert import_herdctl(document, lambda path: None).document == {"agents": {}}


def test_what_is_left_out_of_an_agent_is_named() -> None:
    agent = {
        "name": "a",
        "description": "does things",
        "instances": {"max_concurrent": 2, "warm": 1},
        "schedules": {"odd": "hourly"},
    }
    notes = "\n".join(import_herdctl(agent, lambda path: None).notes)
    for left_out in ("agents.a.description", "agents.a.instances.warm", "agents.a.schedules.odd"):
        assert f"{left_out}: left out" in notes


def test_what_ductile_includes_is_read_and_its_limits_come_over() -> None:
    main = {
        "include": ["plugins.yaml"],
        "service": {"max_workers": 4},
        "plugin_roots": ["~/plugins"],
        "plugins": {"echo": {"parallelism": 2, "schedule": {"every": "1h"}}},
    }
    included = {"plugins": {"withings": {"schedule": {"every": "5m"}}}, "webhooks": {}}
    imported = import_ductile(main, {"plugins.yaml": included}.__getitem__)
    assert imported.document["service"] == {"max_workers": 4}
    assert imported.document["plugins"]["echo"]["max_concurrent"] == 2
    assert set(imported.document["plugins"]) == {"echo", "withings"}
    (folder,) = imported.document["plugin_dirs"]
    assert folder.endswith("/plugins") and not folder.startswith("~")
    assert "webhooks: left out, it is not part of the scheduler" in imported.notes


def test_a_plugin_that_ductile_uses_under_another_name_comes_over_once_and_the_rest_is_named() -> None:
    plugins = {
        "morning": {"uses": "fetch", "schedule": {"every": "1h"}},
        "evening": {"uses": "fetch", "schedule": {"every": "2h"}},
    }
    imported = import_ductile({"plugins": plugins})
    assert imported.document["plugins"] == {"fetch": {"schedule": {"every": "1h"}}}
    assert any(note.startswith("plugins.morning: is named fetch") for note in imported.notes)
    assert any(note.startswith("plugins.evening: left out, it uses fetch") for note in imported.notes)


def test_a_ductile_file_without_plugins_is_one_all_the_same() -> None:
    imported = import_ductile({"service": {"name": "home"}, "webhooks": {}})
    assert imported.document["service"] == {"name": "home"}
    assert "webhooks: left out, it is not part of the scheduler" in imported.notes


def test_periodic_tasks_that_an_application_adds_are_named() -> None:
    source = """
@app.on_after_configure.connect
def setup(sender, **kwargs):
    sender.add_periodic_task(10.0, test.s("hello"), name="add every 10")
"""
    imported = import_celery(source)
    assert imported.document["schedules"] == []
    (note,) = imported.notes
    assert note.startswith("line 4: left out, sender.add_periodic_task(10.0, test.s('hello')")
