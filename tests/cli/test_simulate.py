"""`everwhen simulate`, in both forms."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from everwhen.cli.main import everwhen

FILE = """
schedules:
  - {id: backup, cron: "0 2 * * *", run: {command: [x]}}
  - {id: poll, every: 1h, only_between: "08:00-20:00", run: {command: [x]}}
"""


def simulated(directory: Path, *options: str) -> Result:
    path = directory / "everwhen.yaml"
    path.write_text(FILE)
    return CliRunner().invoke(everwhen, ["simulate", "--config", str(path), "--from", "2026-01-05", *options])


def test_a_person_sees_a_time_line_for_each_schedule_and_the_totals(tmp_path: Path) -> None:
    answer = simulated(tmp_path)
    assert answer.exit_code == 0
    assert "Mon 2026-01-05 00:00:00 UTC  →  Mon 2026-01-12 00:00:00 UTC" in answer.output
    poll = next(line for line in answer.output.splitlines() if line.startswith("poll"))
    assert poll.split()[:5] == ["poll", "84", "84", "·", "·"]
    assert poll.split()[5].startswith("▒▒█████▒▒▒▒█████▒")
    assert "175 slots of 2 schedules, 91 fired, at most 1 at once of 8 workers" in answer.output
    assert "skipped: 84 outside_window" in answer.output


def test_a_program_gets_the_same_as_json(tmp_path: Path) -> None:
    answer = json.loads(simulated(tmp_path, "--to", "2026-01-06T00:00Z", "--json").stdout)
    assert (answer["slots"], answer["fired"], answer["skipped"]) == (25, 13, {"outside_window": 12})
    assert answer["schedules"][0]["first_at"] == "2026-01-05T02:00:00Z"
    assert sum(answer["schedules"][1]["timeline"]["fired"]) == 12


def test_a_scenario_is_read(tmp_path: Path) -> None:
    scenario = tmp_path / "s.yaml"
    scenario.write_text("default: {fails: 100%}")
    answer = json.loads(simulated(tmp_path, "--scenario", str(scenario), "--json").stdout)
    assert answer["ended"] == {"failed": 91}


def test_runs_come_from_history_when_asked(tmp_path: Path) -> None:
    answer = simulated(tmp_path, "--history", "--database", f"sqlite:///{tmp_path}/none.db", "--json")
    assert json.loads(answer.stdout)["fired"] == 91
    assert not (tmp_path / "none.db").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--to", "2026-01-04"), "it is not after --from"),
        (("--to", "soon"), "soon"),
        (("--to", "2099-01-01"), "longer than 3,650 days"),
    ],
)
def test_a_span_that_makes_no_sense_is_refused(
    tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    answer = simulated(tmp_path, *options)
    assert answer.exit_code == 2
    assert message in answer.output
