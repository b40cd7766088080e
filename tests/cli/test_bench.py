"""`everwhen bench`, in both forms."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from everwhen.cli.main import everwhen
from everwhen.model.schedule import Target
from everwhen.store.opened import store_of
from everwhen.wiring import open_stack
from tests.submissions import Submission, create_schedule


def test_every_figure_is_measured_and_all_of_it_was_done(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/b.db"
    answer = CliRunner().invoke(everwhen, ["bench", "--count", "100", "--json", "--database", url])
    figures = json.loads(answer.stdout)["figures"]
    assert [figure["count"] for figure in figures] == [200, 100, 300, 300, 500]
    assert all(figure["per_second"] > 0 for figure in figures)
    stack = open_stack(url)
    assert store_of(stack.runtime).ledger.counts().jobs.get("queued", 0) == 0
    stack.close()


def test_a_person_gets_a_table() -> None:
    answer = CliRunner().invoke(everwhen, ["bench", "--count", "100"])
    assert answer.exit_code == 0
    assert "slots fired" in answer.output and "a second" in answer.output


def test_a_database_in_use_is_left_alone(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/used.db"
    stack = open_stack(url)
    create_schedule(stack.runtime, Submission("mine", {"every": "1h"}, Target("command")))
    stack.close()
    answer = CliRunner().invoke(everwhen, ["bench", "--database", url])
    assert "needs an empty database" in str(answer.exception)
