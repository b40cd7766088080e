"""`everwhen up` as a real process."""

from __future__ import annotations

import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import IO

import pytest
from click.testing import CliRunner

from everwhen.cli.main import everwhen
from everwhen.model.instants import SECOND
from everwhen.store.opened import store_of
from everwhen.verify.ledger import check_ledger
from everwhen.wiring import open_stack
from tests.targets.running import until

CONFIG = """
schedules:
  - id: tick
    every: 1s
    run: {command: [echo, tock]}
  - id: once
    after: 1s
    run: {command: [echo, done]}
"""


MANY = 1_000
EVERY_SECOND = "".join(
    f"  - {{id: s{number}, every: 1s, run: {{message: {{text: hello}}}}}}\n" for number in range(MANY)
)


def start(folder: Path, config: str = CONFIG) -> subprocess.Popen[str]:
    (folder / "everwhen.yaml").write_text(config)
    command = Path(sys.executable).parent / "everwhen"
    return subprocess.Popen([command, "up"], cwd=folder, stderr=subprocess.PIPE, text=True)


def lines_until(stream: IO[str] | None, word: str, count: int) -> list[str]:
    """Lines up to the count-th that holds the word; the process is alive, so they come."""
    assert stream is not None
    found: list[str] = []
    while sum(word in line for line in found) < count:
        line = stream.readline()
        assert line, found
        found.append(line)
    return found


NOTING = """
schedules: [{id: tick, every: 1s, run: {command: [sh, -c, "echo $EVERWHEN_SLOT_AT >> slots"]}}]
"""


def slots_in(folder: Path) -> int:
    path = folder / "slots"
    return len(path.read_text().splitlines()) if path.exists() else 0


def test_work_goes_on_while_the_log_is_on_a_full_disk(tmp_path: Path) -> None:
    (tmp_path / "everwhen.yaml").write_text(NOTING)
    command = [str(Path(sys.executable).parent / "everwhen"), "up"]
    with Path("/dev/full").open("w") as full:
        up = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=full)
        until(lambda: slots_in(tmp_path) >= 3)
        up.send_signal(signal.SIGTERM)
        assert up.wait(60) == 0


def test_work_goes_on_when_the_reader_of_the_log_goes_away(tmp_path: Path) -> None:
    up = start(tmp_path, NOTING)
    lines_until(up.stderr, "started", 1)
    assert up.stderr is not None
    up.stderr.close()
    seen = slots_in(tmp_path)
    until(lambda: slots_in(tmp_path) >= seen + 3)
    up.send_signal(signal.SIGTERM)
    assert up.wait(60) == 0


def test_the_api_listens_before_the_first_job_starts(tmp_path: Path) -> None:
    """A job that checks the health of its own service finds it there."""
    up = start(tmp_path)
    lines = lines_until(up.stderr, "succeeded", 1)
    up.send_signal(signal.SIGTERM)
    up.communicate(timeout=60)
    api, job = (next(n for n, line in enumerate(lines) if word in line) for word in ("API on", "started"))
    assert api < job, lines


YEARLY = """
service: {timezone: UTC}
schedules:
  - {id: yearly, cron: "0 9 1 7 *", timezone: Europe/Berlin, start_at: "2090-01-01T00:00", run: {command: [echo, hi]}}
  - {id: at-once, every: 1d, run: {command: [echo, hi]}}
"""


def test_what_it_says_about_stopping_and_what_runs_next_comes_when_the_api_listens(tmp_path: Path) -> None:
    up = start(tmp_path, YEARLY)
    lines = lines_until(up.stderr, "Ctrl-C stops", 1)
    address = (
        next(line for line in lines if "API on" in line).split()[2].removesuffix(",").partition("/api")[0]
    )
    with urllib.request.urlopen(f"{address}/healthz") as answer:
        assert answer.status == 200
    following = lines_until(up.stderr, "next run", 1)
    up.send_signal(signal.SIGTERM)
    up.communicate(timeout=60)
    assert lines[-1].startswith("everwhen: 2 schedules on sqlite:///everwhen.db (2 new); Ctrl-C stops")
    assert [" ".join(line.split()) for line in following] == [
        "at-once every 24 hours due now",
        "yearly at 09:00, on the 1st of the month, in July next run Sat 2090-07-01 09:00:00 CEST +02:00",
    ]


def test_a_start_with_a_thousand_schedules_of_every_second_misses_nothing_as_down(tmp_path: Path) -> None:
    """How soon it decides depends on the machine. What it decides first, and the words for what is late, do not."""
    up = start(tmp_path, CONFIG + EVERY_SECOND)
    lines = lines_until(up.stderr, " ✓ succeeded  tock", 3)
    up.send_signal(signal.SIGTERM)
    up.communicate(timeout=60)
    api, job = (next(n for n, line in enumerate(lines) if word in line) for word in ("API on", "started"))
    assert api < job, lines
    stack = open_stack(f"sqlite:///{tmp_path}/everwhen.db")
    runtime = store_of(stack.runtime)
    (node,) = runtime.upkeep.nodes()
    with runtime.ledger.history() as record:
        histories = [
            (history.revisions[0].in_force_at, history.events, list(history.jobs))
            for history in record.histories
            if history.schedule_id.startswith("s")
        ]
        assert check_ledger(record, stack.runtime.clock.now()).is_clean
    stack.close()
    assert len(histories) == MANY
    firsts = set()
    for created_at, events, jobs in histories:
        assert node.started_at <= created_at, "the node is on record before its schedules"
        missed = [event for _, event in events if event.type == "schedule.missed"]
        for event in missed:
            last = int(str(event.detail.get("last", event.slot_at)))
            assert event.reason == "late" or last < node.started_at, event
        began_at = min([*(job.created_at for job in jobs), *(event.at for event in missed)])
        firsts.add((created_at, began_at, len([event for event in missed if event.at == began_at])))
        # The first evaluation takes the second before it for itself: where the first slot is the only one, it fires.
        if began_at < created_at // SECOND * SECOND + SECOND:
            assert not any(event.at == began_at for event in missed)
    assert len(firsts) == 1, "all are decided as of one instant, in whichever batch"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_fires_stops_cleanly_and_goes_on_where_it_was(tmp_path: Path, number: signal.Signals) -> None:
    for round_number in range(2):
        process = start(tmp_path)
        seen = lines_until(process.stderr, "tock", 2)
        (start_line,) = [line for line in seen if "Ctrl-C stops" in line]
        assert ("2 new" in start_line) is (round_number == 0)
        process.send_signal(number)
        _, rest = process.communicate(timeout=60)
        assert process.returncode == 0
        assert rest.splitlines()[-1] == "stopped"
    stack = open_stack(f"sqlite:///{tmp_path}/everwhen.db")
    with store_of(stack.runtime).ledger.history() as history:
        assert check_ledger(history, stack.runtime.clock.now()).is_clean
    schedule = store_of(stack.runtime).catalogue.get("once")
    assert schedule is not None
    assert (schedule.state.status, schedule.state.fire_count) == ("done", 1)
    stack.close()


def test_a_missing_file_is_one_sentence_and_exit_code_1(tmp_path: Path) -> None:
    result = CliRunner().invoke(everwhen, ["up", "--config", str(tmp_path / "nowhere.yaml")])
    assert result.exit_code == 1
    assert "cannot be read: No such file or directory" in str(result.exception)
