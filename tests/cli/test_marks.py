"""Outcomes look the same in every command, and can be read without colour."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from everwhen import Scheduler
from everwhen.cli.marks import mark_of, marked
from everwhen.decide.explain import Fate
from everwhen.model.job import JobStatus
from everwhen.model.limits import BreakerState
from everwhen.model.schedule import Status
from tests.cli.test_terminal import at_a_terminal
from tests.scheduler.waiting import until

COMMAND = str(Path(sys.executable).parent / "everwhen")


@pytest.mark.parametrize("kind", [JobStatus, Status, Fate, BreakerState])
def test_every_outcome_and_state_has_a_mark(kind: object) -> None:
    assert [state for state in get_args(kind) if not mark_of(state).sign] == []


def test_what_went_well_wrong_or_not_at_all_differs_without_colour() -> None:
    assert (
        len({mark_of(state).sign for state in ("succeeded", "failed", "cancelled", "running", "queued")}) == 5
    )


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A database in which one job failed and one succeeded."""
    found = f"sqlite:///{tmp_path_factory.mktemp('marks')}/everwhen.db"
    with Scheduler(found, name="marks", max_workers=2) as scheduler:
        scheduler.add("well", every="1h", run={"command": ["echo", "\x1b[31mred\x1b[0m"]})
        scheduler.add("wrong", every="1h", run={"command": ["false"]})
        until(lambda: all(scheduler.get_schedule(one).last_completed_at for one in ("well", "wrong")))
    return found


def shown(url: str, *fields: str) -> str:
    argv = [COMMAND, *fields, "--database", url]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


def test_the_marks_stand_in_lists_sentences_and_events(url: str) -> None:
    jobs = shown(url, "jobs", "list")
    assert marked("succeeded") in jobs and marked("failed") in jobs
    assert "✗ failed" in shown(url, "schedules", "list") and "● active" in shown(url, "schedules", "list")
    assert shown(url, "why", "wrong").startswith("✗ ") and shown(url, "why", "well").startswith("✓ ")
    assert "✗ job.failed" in shown(url, "audit") and "· schedule.created" in shown(url, "audit")


def test_successes_and_failures_are_called_so_and_firings_too(url: str) -> None:
    """`run_count` counts successes alone, and so nothing calls it runs."""
    head, _, *rows = shown(url, "schedules", "list").splitlines()
    begin, end = head.index("succeeded"), head.index("last")
    assert "runs" not in head
    assert {row.split()[0]: row[begin:end].split() for row in rows} == {
        "well": ["1", "0"],
        "wrong": ["0", "1"],
    }
    lines = shown(url, "schedules", "show", "wrong").splitlines()[2:]
    fields = {name: value.strip() for name, value in (line.split(None, 1) for line in lines)}
    assert (fields["fired"], fields["failed"]) == (
        "1",
        "1",
    ) and "succeeded" not in fields  # zeros are left out
    assert not {"run_count", "error_count"} & fields.keys()


@pytest.mark.parametrize("noun", ["alerts", "budgets", "quiet-hours", "token"])
def test_an_empty_list_says_what_there_is_none_of(url: str, noun: str) -> None:
    what = {"alerts": "no open alerts", "budgets": "no budgets: ", "quiet-hours": "no quiet hours"}
    assert shown(url, noun, "list").startswith(what.get(noun, f"no {noun}s"))


def test_a_terminal_gets_colours_unless_they_are_declined(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    argv = [
        [COMMAND, *fields, "--database", url]
        for fields in (["jobs", "list"], ["jobs", "list", "--limit", "0"])
    ]
    assert "\x1b[32m" in at_a_terminal(argv[0])
    monkeypatch.setenv("NO_COLOR", "1")
    for one in argv:
        said = at_a_terminal(one)
        assert "\x1b[3" not in said and said.strip()


def test_output_of_a_job_has_no_colours_where_they_are_declined(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (job,) = shown(url, "jobs", "list", "--schedule", "well").splitlines()[2:]
    argv = [COMMAND, "jobs", "logs", job.split()[0], "--database", url]
    assert "\x1b[31mred" in at_a_terminal(argv)
    monkeypatch.setenv("NO_COLOR", "1")
    assert at_a_terminal(argv) == "red\n"
    assert os.environ["NO_COLOR"]
