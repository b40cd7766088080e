"""What a program's scheduler logs: as Python people expect, and nothing is printed."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator

import pytest

from everwhen import Run, Scheduler
from tests.scheduler import signatures

LONG = 30.0
NEVER = "0 0 1 1 *"

PROGRAM = """
import logging
from everwhen import Scheduler

logging.basicConfig()
scheduler = Scheduler("sqlite://", name="shop")

@scheduler.cron("0 0 1 1 *", id="broken")
def broken():
    raise ValueError("no luck today")

with scheduler:
    scheduler.trigger("broken").wait(30)
"""


def test_a_job_that_raises_is_seen_in_plain_logging() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == ""
    first, *rest = done.stderr.splitlines()
    assert first.startswith("ERROR:everwhen:job sched-")
    assert "of broken failed: Traceback (most recent call last):" in first
    assert rest[-1] == "ValueError: no luck today"
    assert "raise ValueError" in done.stderr or "line 10, in broken" in done.stderr


@pytest.fixture
def records(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.DEBUG, logger="everwhen"):
        yield caplog


def test_starts_and_stops_are_information_and_firings_are_details(records: pytest.LogCaptureFixture) -> None:
    with Scheduler("sqlite://", name="shop") as scheduler:
        scheduler.add("a", signatures.defaults, after="1s")
        scheduler.add("b", signatures.defaults, cron=NEVER)
        assert scheduler.trigger("b").wait(LONG).is_success
    said = [(record.levelname, record.getMessage()) for record in records.records]
    assert ("INFO", "scheduler shop stopped") in said
    assert any(
        level == "INFO" and text.startswith("scheduler shop started as node shop-") for level, text in said
    )
    ends = [record for record in records.records if record.getMessage().endswith("of b succeeded")]
    assert [record.levelname for record in ends] == ["DEBUG"]


def test_a_record_carries_the_fields_of_its_job(records: pytest.LogCaptureFixture) -> None:
    seen: list[Run] = []

    def broken(run: Run) -> None:
        seen.append(run)
        raise ValueError("no")

    with Scheduler("sqlite://", name="shop") as scheduler:
        scheduler.add("a", broken, cron=NEVER)
        scheduler.trigger("a").wait(LONG)
    (record,) = [record for record in records.records if record.levelno == logging.ERROR]
    fields = vars(record)
    assert (fields["schedule_id"], fields["job_id"]) == ("a", seen[0].job_id)
    assert fields["slot_at"] == seen[0].slot_at


def test_the_logger_of_a_scheduler_hears_all_of_it_and_the_root_nothing() -> None:
    own, heard, root = logging.getLogger("shop"), Recorder(), Recorder()
    own.addHandler(heard)
    own.setLevel(logging.DEBUG)
    own.propagate = False
    logging.getLogger().addHandler(root)
    try:
        with Scheduler("sqlite://", name="shop", logger=own) as scheduler:
            scheduler.add("a", signatures.greet, kwargs={"name": "Ada"}, cron=NEVER)
            scheduler.trigger("a").wait(LONG)
    finally:
        logging.getLogger().removeHandler(root)
        own.removeHandler(heard)
    assert {"scheduler shop stopped"} <= {record.getMessage() for record in heard.records}
    assert any(vars(record).get("schedule_id") == "a" for record in heard.records)
    assert root.records == []


class Recorder(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)
