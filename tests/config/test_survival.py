"""Random valid configurations survive being written, read and reloaded unchanged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from everwhen.config.problems import Report
from everwhen.config.read import read_configuration
from everwhen.config.yaml_text import read_document, written
from everwhen.operations.apply import apply, preview
from everwhen.store.opened import store_of
from everwhen.testing import manual_scheduler
from tests.config.reading import NOW, host

NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_-]{0,12}", fullmatch=True)
TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), max_size=20) | st.sampled_from(
    [
        "no",
        "on",
        "12:30",
        "1e3",
        "0x1f",
        "null",
        "~",
        "true",
        "2026-12-25",
        "<<",
        "a: b",
        "- x",
        "#",
        "*a",
        "&a",
        "%",
        "@",
    ]
)
WORDS = TEXTS.filter(str.strip)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**15), 10**15) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
DURATIONS = st.sampled_from(["90s", "5m", "1h30m", "2d"])
TRIGGERS = st.sampled_from(
    [
        {"every": "1h"},
        {"every": "monthly"},
        {"every": "7m", "jitter": "30s", "interval_from": "completion"},
        {"every": "2h", "jitter": "5%", "first_run": "after_interval"},
        {"cron": "*/5 8-18 * * 1-5", "dst": {"gap": "skip", "fold": "both"}},
        {"cron": "@daily", "jitter": "10m"},
        {"at": "2030-12-24T18:00:00+01:00"},
        {"at": "2030-12-24T18:00:00"},
        {"after": "3d"},
    ]
)
POLICIES = st.fixed_dictionaries(
    {},
    optional={
        "name": WORDS,
        "description": WORDS,
        "owner": WORDS,
        "enabled": st.booleans(),
        "timezone": st.sampled_from(["UTC", "Europe/Berlin", "local", "Australia/Lord_Howe"]),
        "only_between": st.sampled_from(["08:00-18:00", "22:00-06:00", "00:00-24:00"]),
        "not_on": st.lists(st.sampled_from(["sat", "sunday", 1, 7]), max_size=3),
        "outside_window": st.sampled_from(["skip", "defer"]),
        "quiet_hours": st.just("nights"),
        "catch_up": st.sampled_from(["skip", "run_once", "run_all", "run_all_capped"]),
        "if_running": st.sampled_from(["skip", "queue", "cancel", "allow"]),
        "max_outstanding": st.integers(0, 5),
        "max_retries": st.integers(0, 5),
        "retry_delay": DURATIONS,
        "timeout": DURATIONS | st.just(0),
        "circuit_breaker": st.just(False) | st.fixed_dictionaries({"threshold": st.integers(1, 9)}),
        "payload": st.dictionaries(TEXTS, VALUES, max_size=3),
    },
)
RUNS = st.one_of(
    st.fixed_dictionaries({"command": st.lists(TEXTS | st.integers(), min_size=1, max_size=4)}),
    st.fixed_dictionaries(
        {"http": st.fixed_dictionaries({"url": st.just("https://x/${TOKEN}"), "body": VALUES})}
    ),
    st.fixed_dictionaries({"message": st.fixed_dictionaries({"text": WORDS})}),
)


def schedule(name: str, *parts: dict[str, Any], run: dict[str, Any]) -> dict[str, Any]:
    return {"id": name, **parts[0], **parts[1], "run": run}


SCHEDULES = st.lists(
    st.builds(schedule, NAMES, TRIGGERS, POLICIES, run=RUNS),
    max_size=6,
    unique_by=lambda one: str(one["id"]),
)
QUIET = {"nights": {"windows": [{"days": ["mon", 7], "between": "22:00-07:00"}], "dates": ["2026-12-25"]}}


@given(VALUES)
def test_any_value_is_read_as_it_was_written(value: Any) -> None:
    report = Report()
    document = read_document(written({"key": value}), "f", report)
    assert report.errors == []
    assert document.root == {"key": value}


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(SCHEDULES)
def test_a_configuration_survives_write_read_and_reload(
    tmp_path: Path, schedules: list[dict[str, Any]]
) -> None:
    path = tmp_path / "everwhen.yaml"
    path.write_text(written({"quiet_hours": QUIET, "schedules": schedules}), encoding="utf-8")
    s = manual_scheduler("2026-01-05T00:00:00Z")
    assert s.clock.now() == NOW
    declared = read_configuration(path, host()).declared
    assert len(apply(s.runtime, declared).created) == len(schedules)
    stored = {one.state.schedule_id: one for one in store_of(s.runtime).catalogue.of_source("config")}
    for one in declared.schedules:
        assert stored[one.schedule_id].definition == one.definition
    s.clock.advance("1h")
    assert preview(s.runtime, read_configuration(path, host()).declared).is_empty
    s.stack.close()


@pytest.mark.parametrize(
    "text", ["a\nb", " a", "a ", "\ta", "a\n\n", "\n", "é\u2028x", "'", '"', "a\\b", "null ", "-"]
)
def test_awkward_texts_are_read_as_they_were_written(text: str) -> None:
    report = Report()
    assert read_document(written({"key": [text]}), "f", report).root == {"key": [text]}
