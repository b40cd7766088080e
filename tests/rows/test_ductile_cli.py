"""Row D30: the history of a plugin's breaker on the command line."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from everwhen.cli.main import everwhen
from everwhen.model.outcome import JobEnd, Outcome
from everwhen.model.schedule import Target
from everwhen.store.opened import store_of
from everwhen.wiring import open_stack
from tests.submissions import Submission, create_schedule


def a_plugin_that_failed(url: str) -> None:
    """One run of `withings:poll` fails, which is as many as its breaker bears."""
    stack = open_stack(url)
    fields = {"every": "1h", "command": "poll", "circuit_breaker": {"threshold": 1}}
    create_schedule(stack.runtime, Submission("withings.hourly", fields, Target("plugin"), group="withings"))
    slots, now = store_of(stack.runtime).slots, stack.runtime.clock.now
    slots.tick(now(), limit=10, behind=False)
    (claimed,) = slots.claim_jobs(now(), node="n", limit=10)
    slots.settle(now(), [JobEnd(claimed.job.job_id, claimed.job.fence, Outcome("failed", error="no"))])
    stack.close()


def test_d30_system_breaker_shows_the_history_of_a_plugin(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/d30.db"
    a_plugin_that_failed(url)
    asked = ["system", "breaker", "withings", "--database", url]
    shown = CliRunner().invoke(everwhen, asked).output
    assert "withings:poll  open" in shown and "closed → open" in shown and "failure_threshold" in shown
    (found,) = json.loads(CliRunner().invoke(everwhen, [*asked, "--json"]).stdout)
    (transition,) = found["transitions"]
    assert (found["key"], found["state"]) == ("withings:poll", "open")
    assert (transition["from_state"], transition["to_state"]) == ("closed", "open")
    assert "withings:poll  closed" in CliRunner().invoke(everwhen, [*asked, "--reset"]).output
