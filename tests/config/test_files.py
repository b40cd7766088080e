"""Includes, references to the environment, and the twins of service keys."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest

from everwhen.config.problems import Report
from everwhen.config.read import examine, read_configuration
from everwhen.config.settings import Settings
from everwhen.model.instants import DAY
from tests.config.reading import host, mistakes, read, write

A = "schedules: [{id: a, every: 1m, run: {command: [ls]}}]"


def ids(folder: Path, text: str) -> list[str]:
    return [schedule.schedule_id for schedule in read(folder, text).declared.schedules]


def test_included_files_are_read_by_name_from_the_folder_of_the_file(tmp_path: Path) -> None:
    write(tmp_path, A.replace("id: a", "id: c"), "more/c.yaml")
    write(tmp_path, A.replace("id: a", "id: b"), "more/b.yaml")
    write(tmp_path, "left: alone", "more/.hidden.yaml")
    assert ids(tmp_path, f"include: ['more/*.yaml', 'more/b.yaml']\n{A}") == ["a", "b", "c"]


def test_a_pattern_without_files_is_fine(tmp_path: Path) -> None:
    assert ids(tmp_path, "include: ['none/*.yaml']") == []


def test_a_file_that_includes_itself_is_read_once(tmp_path: Path) -> None:
    assert ids(tmp_path, f"include: ['*.yaml']\n{A}") == ["a"]


def test_a_link_that_leads_to_itself_is_a_mistake_of_the_file_that_includes_it(tmp_path: Path) -> None:
    """Python could not tell where it leads, and the command ended with a traceback."""
    (tmp_path / "more").mkdir()
    (tmp_path / "more/loop.yaml").symlink_to("loop.yaml")
    (complaint,) = mistakes(tmp_path, f"include: ['more/*.yaml']\n{A}")
    assert complaint.startswith("more/loop.yaml: cannot be read: ")


def test_mistakes_of_included_files_name_their_file(tmp_path: Path) -> None:
    write(tmp_path, "schedules:\n- {id: b, evry: 1m, run: {command: [ls]}}", "more/b.yaml")
    write(tmp_path, "service: {name: x}\ninclude: []", "more/c.yaml")
    write(tmp_path, A, "more/d.yaml")
    assert mistakes(tmp_path, f"include: ['more/*.yaml']\n{A}") == [
        'more/b.yaml:2: schedules[0].evry: unknown key, did you mean "every"?',
        "more/c.yaml:1: service: is allowed only in the main file",
        "more/c.yaml:2: include: is allowed only in the main file",
        'more/d.yaml:1: schedules[0]: duplicate schedule id "a", first in everwhen.yaml:2',
    ]


def test_quiet_hours_of_two_files_may_not_share_a_name(tmp_path: Path) -> None:
    nights = "quiet_hours:\n  nights: {windows: [{between: '22:00-07:00'}]}"
    write(tmp_path, nights, "b.yaml")
    assert mistakes(tmp_path, f"include: [b.yaml]\n{nights}") == [
        "b.yaml:2: quiet_hours.nights: is already defined in everwhen.yaml:3"
    ]


def test_a_file_that_is_no_text_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "b.yaml").write_bytes(b"name: \xff\xfe")
    assert mistakes(tmp_path, "include: [b.yaml]") == ["b.yaml: is not UTF-8 text (byte 6)"]


def test_references_are_resolved_at_load_and_keep_their_types(tmp_path: Path) -> None:
    text = """
service:
  max_workers: "${WORKERS}"
  name: ${NAME:-fallback}
  lease: ${LEASE:-1m}
"""
    assert mistakes(tmp_path, text, {"WORKERS": "4"}) == [
        'everwhen.yaml:3: service.max_workers: must be a whole number from 1 to 1,000, not "4"'
    ]
    found = read(tmp_path, text.replace('"${WORKERS}"', "${WORKERS}"), {"WORKERS": "4"}).settings
    assert (found.max_workers, found.name, found.lease) == (4, "fallback", 60.0)


def test_what_jobs_are_handed_keeps_its_references(tmp_path: Path) -> None:
    text = """
schedules:
  - id: a
    every: "${EVERY}"
    payload: {text: "$${EVERY} is ${EVERY}"}
    run: {command: [curl, "${TOKEN}"], env: {KEY: "${KEY}"}}
"""
    (declared,) = read(tmp_path, text, {"EVERY": "5m", "TOKEN": "secret"}).declared.schedules
    assert declared.fields["every"] == "5m"
    assert declared.fields["payload"] == {"text": "${EVERY} is 5m"}
    assert declared.target.spec == '{"argv":["curl","${TOKEN}"],"env":{"KEY":"${KEY}"}}'


def test_every_service_key_has_a_twin_that_stands_before_the_file(tmp_path: Path) -> None:
    environ = {
        "EVERWHEN_DATABASE": "sqlite:///other.db",
        "EVERWHEN_MAX_WORKERS": "3",
        "EVERWHEN_TIMEZONE": "local",
        "EVERWHEN_RETENTION_JOBS": "2d",
        "EVERWHEN_NAME": "",
    }
    found = read(tmp_path, "service: {max_workers: 5, retention: {audit: 3d}}", environ).settings
    assert (found.database, found.max_workers, found.timezone) == ("sqlite:///other.db", 3, "Europe/Berlin")
    assert (found.retention.jobs, found.retention.audit) == (2 * DAY, 3 * DAY)
    assert found.name == Settings().name


def test_a_wrong_twin_is_named(tmp_path: Path) -> None:
    assert mistakes(tmp_path, "", {"EVERWHEN_MAX_WORKERS": "many", "EVERWHEN_LEASE": "soon"}) == [
        'EVERWHEN_LEASE: Invalid interval "soon". Expected format: "{number}{unit}"',
        'EVERWHEN_MAX_WORKERS: must be a whole number from 1 to 1,000, not "many"',
    ]


def said_about(folder: Path, include: str) -> list[str]:
    return [line.split(": ", 1)[1] for line in mistakes(folder, f"include: [{include}]")]


@pytest.mark.timeout(60)  # a pipe without a writer is waited for, and a device never ends
def test_what_a_pattern_matches_and_is_no_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    os.mkfifo(tmp_path / "more" / "pipe.yaml")
    (tmp_path / "more" / "device.yaml").symlink_to("/dev/zero")
    (tmp_path / "more" / "folder.yaml").mkdir()
    (tmp_path / "more" / "nowhere.yaml").symlink_to("gone.yaml")
    assert said_about(tmp_path, "more/*.yaml") == [
        "is not a file, but a device, a pipe or a socket",
        "is a directory; name the files in it, as in include: [schedules.d/*.yaml]",
        "cannot be read: No such file or directory; is it a link to nowhere?",
        "is not a file, but a device, a pipe or a socket",
    ]


def test_a_directory_is_no_include(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    assert said_about(tmp_path, "more") == [
        "is a directory; name the files in it, as in include: [schedules.d/*.yaml]"
    ]


def test_the_main_file_may_come_out_of_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writing = threading.Thread(target=pipe.write_text, args=("service: {name: piped}",))
    writing.start()
    assert read_configuration(pipe, host()).settings.name == "piped"
    writing.join()


def test_lines_may_end_as_on_windows(tmp_path: Path) -> None:
    (tmp_path / "everwhen.yaml").write_bytes(b"\xef\xbb\xbfservice:\r\n  name: x\r\n  jobs: 1\r\n")
    report = Report()
    examine(tmp_path / "everwhen.yaml", host(), report)
    assert [(problem.place.line, problem.path) for problem in report.errors] == [(3, "service.jobs")]


def test_a_long_number_stays_what_it_is(tmp_path: Path) -> None:
    number = "12345678901234567890123"
    text = f"schedules: [{{id: a, every: 1h, payload: {{n: {number}, m: {'9' * 2000}}}, run: {{command: [ls]}}}}]"
    (declared,) = read(tmp_path, text).declared.schedules
    assert json.loads(declared.definition.payload) == {"n": int(number), "m": "9" * 2000}
