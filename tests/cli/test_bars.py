"""Long work shows how far it is and what is left, at a terminal; in a pipe nothing of it is printed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from everwhen.cli import screen
from everwhen.cli.main import everwhen
from everwhen.cli.screen import ProgressBar
from everwhen.clock import SystemClock
from everwhen.config.yaml_text import written
from everwhen.model.instants import DAY, to_datetime
from everwhen.testing import manual_scheduler
from tests.cli.test_terminal import at_a_terminal, piped

COMMAND = str(Path(sys.executable).parent / "everwhen")


def test_a_bar_tells_the_time_that_is_left_once_there_is_a_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    monkeypatch.setattr(screen, "redraw_line", lambda line="": lines.append(line))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    seconds = iter([0.0, 1.0, 30.0, 100.0])
    with ProgressBar("checking", lambda: next(seconds)) as bar:
        for share in (0.1, 0.25, 1.0):
            bar.show(share)
    first, second, last, cleared = lines
    assert first.endswith(" 10%") and second.endswith(" 25%, about 1m 30s left") and last.endswith("100%")
    assert cleared == ""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("bars")
    url = f"sqlite:///{found}/everwhen.db"
    start = to_datetime(SystemClock().now() - 2 * DAY)
    s = manual_scheduler(start, database=url)
    s.add("minutely", every="1m", first_run="after_interval")
    s.close()
    (found / "everwhen.yaml").write_text(
        f"service: {{database: '{url}'}}\nschedules: [{{id: a, every: 1h, run: {{command: ['true']}}}}]\n"
    )
    (found / "crontab").write_text("5 4 * * * true\n")
    return found


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("simulate", "simulating"),
        ("config diff", "comparing"),
        ("db check", "checking"),
        ("db prune", "pruning"),
        ("db backup {name}", "copying"),
        ("import crontab crontab", "importing"),
    ],
)
def test_a_terminal_sees_a_bar_and_a_pipe_does_not(folder: Path, line: str, word: str) -> None:
    seen = at_a_terminal([COMMAND, *line.format(name="one").split()], cwd=folder)
    assert f"{word}  " in seen and "%" in seen and ("█" in seen or "░" in seen)
    assert f"{word}  " not in piped([COMMAND, *line.format(name="two").split()], cwd=folder)


def test_a_long_backfill_is_done_in_steps_when_that_is_meant(folder: Path) -> None:
    now = SystemClock().now()
    span = ["--from", to_datetime(now - DAY).isoformat(), "--to", to_datetime(now).isoformat()]
    reach = ["--database", f"sqlite:///{folder}/everwhen.db"]
    line = ["schedules", "backfill", "minutely", *span, *reach]
    refused = CliRunner().invoke(everwhen, line)
    assert "at most 1,000 are filled at once" in str(refused.exception)
    found = json.loads(CliRunner().invoke(everwhen, [*line, "--yes", "--json"]).stdout)
    assert found["count"] == len(found["slots"]) == 1_440
    assert found["slots"] == sorted(set(found["slots"]))
    again = json.loads(CliRunner().invoke(everwhen, [*line, "--yes", "--json"]).stdout)
    assert again["count"] == 0


@pytest.mark.parametrize("count", [0, 1, 2, 199, 200, 201, 299, 301, 1_000])
def test_a_list_that_is_written_in_portions_is_the_same_file(count: int) -> None:
    items = [
        {"id": f"s{number}", "cron": "5 4 * * *", "run": {"command": ["true"]}} for number in range(count)
    ]
    shares: list[float] = []
    text = written({"service": {"name": "a"}, "schedules": items}, shares.append)
    assert shares[-1] == 1 and shares == sorted(shares)
    import yaml

    assert yaml.safe_load(text) == {"service": {"name": "a"}, "schedules": items}
    assert text.count("schedules:") == 1
