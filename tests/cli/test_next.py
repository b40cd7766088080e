"""`everwhen next`, run as a person runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from everwhen.cli.main import everwhen
from everwhen.version import __version__


def run(*arguments: str) -> Result:
    return CliRunner().invoke(everwhen, ["next", *arguments])


def test_words_come_first_then_instants_with_zone_and_offset() -> None:
    result = run("0 9 * * 1-5", "--tz", "Australia/Sydney", "--count", "2", "--after", "2026-11-15T20:00:00Z")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "At 09:00, Monday to Friday (Australia/Sydney)",
        "",
        "  Mon 2026-11-16 09:00:00 AEDT +11:00  in 2 hours",
        "  Tue 2026-11-17 09:00:00 AEDT +11:00  in 1 day 2 hours",
    ]


def test_a_shifted_instant_is_noted() -> None:
    result = run("30 2 * * *", "--tz", "Europe/Berlin", "--count", "1", "--after", "2026-03-29T00:00")
    assert "03:00:00 CEST +02:00" in result.stdout
    assert "↳ shifted: the clock jumps from 02:00 to 03:00" in result.stdout


def test_a_doubled_instant_is_noted_in_json() -> None:
    result = run(
        "*/30 2 * * *", "--tz", "Europe/Berlin", "--count", "4", "--after", "2026-10-25T00:00", "--json"
    )
    answer = json.loads(result.stdout)
    assert answer["description"] == "every day at 02:00 and 02:30"
    assert answer["timezone"] == "Europe/Berlin"
    assert [instant["at"][11:] for instant in answer["instants"]] == [
        "02:00:00+02:00",
        "02:30:00+02:00",
        "02:00:00+01:00",
        "02:30:00+01:00",
    ]
    assert answer["instants"][2]["utc"] == "2026-10-25T01:00:00Z"
    assert answer["instants"][2]["note"] == "doubled: 02:00 comes twice, this is the second (both count)"


@pytest.mark.parametrize(
    ("expression", "fields", "first"),
    [
        ("@daily", "Every day at 00:00", "2026-11-16 00:00:00"),
        ("90s", "Every 1 minute 30 seconds", "2026-11-15 12:01:30"),
        ("1h 30m", "Every 1 hour 30 minutes", "2026-11-15 13:30:00"),
        ("weekly", "Every 7 days", "2026-11-22 12:00:00"),
        ("monthly", "Every month, at the same day and time", "2026-12-15 12:00:00"),
    ],
)
def test_shorthands_intervals_and_aliases_are_understood(expression: str, fields: str, first: str) -> None:
    result = run(expression, "--after", "2026-11-15T12:00:00Z")
    assert result.exit_code == 0
    assert result.stdout.startswith(f"{fields} (UTC)\n")
    assert first in result.stdout.splitlines()[2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["0 25 * * *"],
            'Invalid cron expression "0 25 * * *" - hour must be 0-23\nA working example: 0 9 * * *',
        ),
        (["0 9 * *"], "expected 5 fields, got 4"),
        (["0 9 1 1"], "expected 5 fields, got 4"),
        (["@dayly"], 'unknown shorthand "@dayly"'),
        (["5x"], 'Invalid time unit "x". Valid units are: s, m, h, d'),
        (["0 0 30 2 *"], "never matches"),
        (["5m", "--tz", "Europe/Berln"], 'did you mean "Europe/Berlin"?'),
        (["5m", "--after", "soon"], 'Invalid value for --after: "soon" is not an instant'),
        (["5m", "--count", "0"], "0 is not in the range 1<=x<=1000"),
        ([""], "Interval cannot be empty"),
        (["-5m"], "Negative intervals are not allowed"),
        (["5m", "--after", "9999-12-31T23:59:00Z"], "is not an RFC 3339 time"),
        (["0 0 * * *", "--after", "0001-01-01T00:00:00Z"], "is not an RFC 3339 time"),
    ],
)
def test_a_mistake_is_one_clear_sentence_on_stderr_and_exit_code_2(
    arguments: list[str], message: str
) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_the_end_of_the_calendar_is_the_end() -> None:
    result = run("3650d", "--after", "9999-01-01T00:00:00Z")
    assert (result.exit_code, result.stdout.splitlines()[-1]) == (0, "  no further instant")


def test_the_installed_command_works_and_writes_no_colours_into_a_pipe() -> None:
    command = Path(sys.executable).parent / "everwhen"
    environment = {**os.environ, "TZ": "Asia/Tokyo"}
    done = subprocess.run(
        [command, "next", "0 9 * * *", "--tz", "local"],
        capture_output=True,
        text=True,
        env=environment,
        check=True,
    )
    assert "(Asia/Tokyo)" in done.stdout
    assert "\x1b" not in done.stdout


def test_version_and_help() -> None:
    assert CliRunner().invoke(everwhen, ["--version"]).stdout == f"everwhen, version {__version__}\n"
    result = CliRunner().invoke(everwhen, ["--help"])
    assert "next" in result.stdout and "Explain a cron expression or an interval" in result.stdout
    assert CliRunner().invoke(everwhen, ["nonsense"]).exit_code == 2
