"""Every instant that a command, a call or a message shows of a schedule is in its zone, and `why --at` finds its slot.

The schedules are in Asia/Kolkata and America/New_York, the machine is in America/New_York, the service in UTC.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from click.testing import CliRunner, Result

from everwhen import Scheduler
from everwhen.cli.main import everwhen
from everwhen.clock import SystemClock
from everwhen.config.read import Host, read_configuration
from everwhen.model.outcome import Outcome
from everwhen.operations.apply import apply
from everwhen.operations.next_runs import describe_next_runs
from everwhen.testing import ManualScheduler, manual_scheduler

SHOWN = re.compile(r"\w{3} \d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)? (?:UTC|(?:[A-Z]+ )?[+-]\d\d:\d\d)")
ANY_TIME = re.compile(r"\d\d:\d\d|\d{4}-\d\d-\d\d")
KOLKATA, NEW_YORK = "IST +05:30", ("EST -05:00", "EDT -04:00")
FILE = """
service: {timezone: UTC}
schedules:
  - {id: tea, cron: "*/20 * * * *", jitter: 19m, timezone: Asia/Kolkata, run: {message: {text: Tea}}}
  - {id: bad, cron: "10 * * * *", timezone: Asia/Kolkata, run: {command: ["false"]}}
  - {id: coffee, cron: "15 * * * *", timezone: America/New_York, run: {message: {text: Coffee}}}
  - {id: shut, cron: "5 * * * *", timezone: Asia/Kolkata, only_between: "00:00-00:01", run: {message: {text: x}}}
notify: [{on: [schedule.failing], command: ["true"]}]
"""


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine in New York with the database of a service that ran for three hours, until now."""

    config: str
    url: str
    scheduler: ManualScheduler

    def run(self, *line: str, code: int = 0) -> Result:
        done = CliRunner().invoke(everwhen, [*line, "--config", self.config, "--database", self.url])
        assert done.exit_code == code, done.output
        return done

    def text(self, *line: str, code: int = 0) -> str:
        return self.run(*line, code=code).stdout

    def json(self, *line: str) -> Any:
        return json.loads(self.run(*line, "--json").stdout)

    def slot_at(self, schedule: str, instant: str) -> str | None:
        """The slot that `why --at` finds when an instant is typed as it was shown."""
        found: str | None = self.json("why", schedule, "--at", instant)["slot_at"]
        return found


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    monkeypatch.setenv("TZ", "America/New_York")
    path, url = tmp_path / "everwhen.yaml", f"sqlite:///{tmp_path}/e.db"
    path.write_text(FILE)
    now = SystemClock().now() // 1_000_000
    manual = manual_scheduler(datetime.fromtimestamp(now - 3 * 3_600, UTC), database=url)
    manual.outcome = lambda _claimed: Outcome("failed", error="no")  # of the one that is no message
    host = Host({}, lambda: "UTC", manual.clock.now())
    apply(manual.runtime, read_configuration(path, host).declared)
    manual.advance(timedelta(seconds=SystemClock().now() // 1_000_000 - now + 3 * 3_600))
    manual.beat()
    yield Machine(str(path), url, manual)
    manual.close()


# Each command with what it prints of slots: the lines in which the schedule is named, or all of its lines.
OF_ONE = [
    ("upcoming", "tea"),
    ("schedules", "upcoming", "tea", "--limit", "5"),
    ("why", "tea"),
    ("jobs", "list", "--schedule", "tea"),
]
OF_ALL = [
    ("schedules", "list"),
    ("upcoming",),
    ("jobs", "list"),
    ("jobs", "list", "--limit", "5"),
]


@pytest.mark.parametrize("line", OF_ONE, ids=" ".join)
def test_what_a_command_shows_of_a_schedule_is_in_its_zone_and_finds_its_slot(
    machine: Machine, line: tuple[str, ...]
) -> None:
    output = machine.text(*line)
    shown = SHOWN.findall(output)
    assert shown, output
    assert not ANY_TIME.search(SHOWN.sub("", output)), output
    for instant in shown:
        assert instant.endswith(KOLKATA)
        assert machine.slot_at("tea", instant) is not None, instant


@pytest.mark.parametrize("line", OF_ALL, ids=" ".join)
def test_a_list_over_all_schedules_shows_each_in_its_own_zone(
    machine: Machine, line: tuple[str, ...]
) -> None:
    output = machine.text(*line)
    rows = [row for row in output.splitlines() if SHOWN.search(row)]
    assert len({name for name in ("tea", "bad", "coffee") for row in rows if named(row, name)}) > 1, output
    for row in output.splitlines():
        for name in filter(lambda name: named(row, name), ("tea", "bad", "coffee")):
            for instant in SHOWN.findall(row):
                assert instant.endswith(NEW_YORK if name == "coffee" else KOLKATA), row
                assert machine.slot_at(name, instant) is not None, row


def named(row: str, name: str) -> bool:
    return re.search(rf"\b{name}\b", row) is not None


@pytest.mark.parametrize("line", OF_ALL, ids=" ".join)
def test_with_a_zone_a_list_shows_all_in_it_and_says_so_once(machine: Machine, line: tuple[str, ...]) -> None:
    done = machine.run(*line, "--tz", "Asia/Tokyo")
    assert {instant[-10:] for instant in SHOWN.findall(done.stdout)} == {"JST +09:00"}
    assert done.stderr.count("times in Asia/Tokyo") == 1
    for row in done.stdout.splitlines():
        for instant in SHOWN.findall(row.partition(", until ")[0]):  # an opening is no slot
            name = next(name for name in ("tea", "bad", "coffee", "shut") if named(row, name))
            assert machine.slot_at(name, instant) is not None


def test_status_shows_what_is_of_a_schedule_in_its_zone_and_all_else_in_the_viewers(machine: Machine) -> None:
    done = machine.run("status")
    (following,) = [row for row in done.stdout.splitlines() if row.startswith("next ")]
    name, (instant,) = following.split()[1], SHOWN.findall(following)
    assert machine.slot_at(name, instant) is not None
    nodes = [row for row in done.stdout.splitlines() if row.startswith("manual-1")]
    assert nodes and all(instant.endswith(NEW_YORK) for row in nodes for instant in SHOWN.findall(row))
    assert done.stderr.count("times of no schedule are in America/New_York; see --tz") == 1


def test_the_audit_shows_when_it_was_recorded_for_the_viewer_and_the_slot_for_the_schedule(
    machine: Machine,
) -> None:
    rows = [row for row in machine.text("audit", "--limit", "500").splitlines() if "  slot " in row]
    assert {name for row in rows for name in ("tea", "shut", "coffee") if named(row, name)} == {
        "tea",
        "shut",
        "coffee",
    }
    for row in rows[:20]:
        name = next(name for name in ("tea", "bad", "shut", "coffee") if named(row, name))
        recorded, slot = SHOWN.findall(row)
        assert recorded.endswith(NEW_YORK)
        assert slot.endswith(NEW_YORK if name == "coffee" else KOLKATA)
        assert machine.slot_at(name, slot) is not None
    assert [line for line in machine.run("audit").stderr.splitlines() if "times of" in line] == [
        "times of events are in America/New_York, those of slots in their schedules' zones; see --tz"
    ]


def test_the_audit_of_one_schedule_is_in_its_zone_in_which_a_time_is_read(machine: Machine) -> None:
    done = machine.run("audit", "--schedule", "shut", "--limit", "500")
    rows = done.stdout.splitlines()
    shown = [SHOWN.findall(row)[0] for row in rows]
    assert all(instant.endswith(KOLKATA) for instant in shown)
    assert "times of" not in done.stderr
    middle = shown[len(shown) // 2]
    typed = middle.split(None, 1)[1].removesuffix(f" {KOLKATA}")
    assert machine.text("audit", "--schedule", "shut", "--limit", "500", "--from", typed).splitlines() == [
        row for row, instant in zip(rows, shown, strict=True) if instant.split()[1:3] >= middle.split()[1:3]
    ]
    assert all(
        SHOWN.findall(row)[0].endswith("JST +09:00")
        for row in machine.text("audit", "--schedule", "shut", "--tz", "Asia/Tokyo").splitlines()
    )


def test_what_a_schedule_shows_of_its_slots_finds_them(machine: Machine) -> None:
    rows = [row.split(None, 1) for row in machine.text("schedules", "show", "tea").splitlines() if " " in row]
    fields = {name: text for name, text in rows if SHOWN.match(text)}
    assert {"next_slot_at", "next_run_at", "last_fired_at", "created_at"} <= fields.keys()
    for name, text in fields.items():
        assert KOLKATA in text
        if name.startswith("next_"):
            assert machine.slot_at("tea", SHOWN.findall(text)[0]) is not None


def test_every_instant_of_a_job_finds_its_slot(machine: Machine) -> None:
    jobs = machine.json("jobs", "list", "--schedule", "tea")
    due = {job["due_at"][:19] for job in jobs}
    for job in jobs[:3]:
        # In the second of another slot, that one is meant.
        skipped = "deadline_at" if job["deadline_at"][:19] in due else "never"
        shown = machine.text("jobs", "show", job["id"])
        assert "\ndeadline_at" in shown
        rows = [row for row in shown.splitlines() if not row.startswith(skipped)]
        instants = [instant for row in rows for instant in SHOWN.findall(row)]
        assert len(instants) >= 4 and all(instant.endswith(KOLKATA) for instant in instants)
        times = [job[name] for name in ("slot_at", "due_at", "started_at", "ended_at")]
        for instant in (*instants, *times):  # also as --json has them
            assert machine.slot_at("tea", instant) == job["slot_at"], instant


def test_a_backfill_a_pause_and_a_simulation_show_and_read_the_same_zone(machine: Machine) -> None:
    slots = SHOWN.findall(
        machine.text("schedules", "backfill", "shut", "--from", "00:00", "--to", "23:59", "--dry-run")
    )
    assert all(slot.endswith(KOLKATA) for slot in slots)
    paused = machine.text(
        "schedules", "pause", "tea", "coffee", "--until", "2090-07-01 09:00", "--note", "tea break"
    )
    until = [row.partition(", until ")[2] for row in paused.splitlines()]
    assert until[0].startswith("Sat 2090-07-01 09:00:00 IST +05:30 (tea break)")
    assert until[1].startswith("Sat 2090-07-01 09:00:00 EDT -04:00 (tea break)")
    listed = machine.text("schedules", "list", "--status", "paused").splitlines()[-2:]
    assert sorted(row.partition(": ")[0] for row in listed) == ["coffee", "tea"]
    assert all(SHOWN.search(row) and row.endswith("(tea break)") for row in listed)
    simulated = machine.text("simulate", "--from", "2026-12-01", "--to", "2026-12-02")
    assert simulated.startswith("Tue 2026-12-01 00:00:00 EST -05:00  →  Wed 2026-12-02 00:00:00 EST -05:00")
    again = machine.text("simulate", "--from", "2026-12-01", "--to", "2026-12-02", "--tz", "Asia/Kolkata")
    assert again.startswith("Tue 2026-12-01 00:00:00 IST +05:30  →  Wed 2026-12-02 00:00:00 IST +05:30")


@pytest.mark.parametrize(
    ("line", "zone"),
    [
        (("jobs", "list"), "America/New_York"),
        (("jobs", "list", "--schedule", "tea"), "Asia/Kolkata"),
        (("jobs", "list", "--schedule", "tea", "--tz", "Asia/Tokyo"), "Asia/Tokyo"),
        (("audit", "--type", "schedule.skipped"), "America/New_York"),
        (("audit", "--type", "schedule.skipped", "--schedule", "shut"), "Asia/Kolkata"),
        (("audit", "--type", "schedule.skipped", "--tz", "Asia/Tokyo"), "Asia/Tokyo"),
    ],
)
def test_what_is_typed_without_an_offset_is_read_where_it_would_be_shown(
    machine: Machine, line: tuple[str, ...], zone: str
) -> None:
    """Of one schedule in its zone, over all in the viewer's, or in that of `--tz`."""
    entries = machine.json(*line)
    key = "slot_at" if "jobs" in line else "at"
    middle = sorted(entry[key] for entry in entries)[len(entries) // 2]
    wall = f"{datetime.fromisoformat(middle).astimezone(ZoneInfo(zone)).replace(microsecond=0):%Y-%m-%d %H:%M:%S}"
    found = machine.json(*line, "--from", wall)
    second = datetime.fromisoformat(middle).replace(microsecond=0)
    assert found == [entry for entry in entries if datetime.fromisoformat(entry[key]) >= second]
    assert 0 < len(found) < len(entries)


def test_the_lines_at_a_start_and_the_table_of_a_program_show_each_schedule_in_its_zone(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = describe_next_runs(machine.scheduler.runtime)
    program = Scheduler(machine.url, name="shop", timezone="UTC")
    program.print_schedules()
    program.close()
    rows = [*lines, *capsys.readouterr().out.splitlines()]
    assert len([row for row in rows if SHOWN.search(row)]) == 8
    for row in rows:
        name = row.split()[0]
        for instant in SHOWN.findall(row):
            assert instant.endswith(NEW_YORK if name == "coffee" else KOLKATA)
            assert machine.slot_at(name, instant) is not None


def test_sentences_of_calls_show_the_zone_of_the_schedule(machine: Machine) -> None:
    for line in (("why", "shut"), ("why", "tea"), ("why", "bad")):
        sentence = machine.json(*line)["sentence"]
        shown = SHOWN.findall(sentence)
        assert shown and all(instant.endswith(KOLKATA) for instant in shown)
        assert machine.slot_at(line[1], shown[0]) == machine.json(*line)["slot_at"]


def test_a_time_that_is_none_is_refused_with_the_option_and_how_to_write_it(machine: Machine) -> None:
    done = machine.run("why", "tea", "--at", "yesterday", code=2)
    assert "--at" in done.stderr and "write it like 2026-12-24T18:00" in done.stderr
    done = machine.run("jobs", "list", "--tz", "CEST", code=2)
    assert "--tz" in done.stderr and "Europe/Berlin" in done.stderr


# -- the two readings of a fold --


@pytest.mark.parametrize("viewer", ["America/New_York", "Asia/Kolkata", "UTC"])
def test_both_readings_of_a_fold_are_shown_and_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, viewer: str
) -> None:
    monkeypatch.setenv("TZ", viewer)
    url = f"sqlite:///{tmp_path}/e.db"
    manual = manual_scheduler("2026-11-01T04:45:00Z", database=url)
    manual.add("half", cron="*/30 * * * *", timezone="America/New_York")
    manual.advance("3h")
    done = CliRunner().invoke(everwhen, ["jobs", "list", "--database", url])
    shown = SHOWN.findall(done.stdout)
    assert [text for text in shown if " 01:30:00 " in text] == [
        "Sun 2026-11-01 01:30:00 EST -05:00",
        "Sun 2026-11-01 01:30:00 EDT -04:00",
    ]
    found = []
    for instant in (*shown, "2026-11-01 01:30 EST", "2026-11-01 01:30 EDT"):
        line = ["why", "half", "--at", instant, "--json", "--database", url]
        found.append(json.loads(CliRunner().invoke(everwhen, line).stdout)["slot_at"])
    jobs = json.loads(CliRunner().invoke(everwhen, ["jobs", "list", "--json", "--database", url]).stdout)
    assert found == [*(job["slot_at"] for job in jobs), "2026-11-01T06:30:00Z", "2026-11-01T05:30:00Z"]
    manual.close()
