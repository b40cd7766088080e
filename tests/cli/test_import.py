"""`everwhen import`: what it prints is a file that passes `everwhen config check`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from everwhen.cli.main import everwhen
from tests.importers.test_others import BEAT

CRONTAB = """
MAILTO=ops@example.org
CRON_TZ=Europe/Berlin
# with: a colon, and "quotes"
*/5 * * * * test -x /usr/bin/x && printf '%s' no | grep -q "a: b" # not a comment
0 0 1 1 * on
@reboot never
"""
AGENT = "name: reviewer\nschedules: {a: {type: interval, interval: 5m}, b: {type: chat}}"


@pytest.mark.parametrize(("kind", "text"), [("crontab", CRONTAB), ("celery", BEAT), ("herdctl", AGENT)])
def test_what_is_printed_passes_the_check(tmp_path: Path, kind: str, text: str) -> None:
    source, path = tmp_path / "source", tmp_path / "everwhen.yaml"
    source.write_text(text)
    printed = CliRunner().invoke(everwhen, ["import", kind, str(source)])
    assert printed.exit_code == 0, printed.output
    assert "note: " in printed.stderr
    path.write_text(printed.stdout)
    checked = CliRunner().invoke(everwhen, ["config", "check", "--config", str(path)])
    assert (checked.stdout, checked.exit_code) == ("", 0)


def test_a_crontab_is_read_from_standard_input_and_printed_as_json() -> None:
    result = CliRunner().invoke(everwhen, ["import", "crontab", "-", "--json"], input="0 2 * * * backup")
    answer = json.loads(result.stdout)
    assert answer["document"]["schedules"][0]["id"] == "backup"


def test_a_missing_file_is_one_sentence(tmp_path: Path) -> None:
    result = CliRunner().invoke(everwhen, ["import", "crontab", str(tmp_path / "none")])
    assert result.exit_code == 1
    assert "cannot be read: No such file or directory" in str(result.exception)
