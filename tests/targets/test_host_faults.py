"""What the host cannot begin is no failure of the job; a program that is not there is one (R3)."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from everwhen.model.host_fault import NotBegunError, before_target, host_fault_of
from everwhen.targets.command import CommandTarget
from tests.crash.nodes import ROOT
from tests.targets.http_server import a_server, status
from tests.targets.plugins import put_plugin
from tests.targets.running import perform

KINDS = ("command", "plugin", "agent", "agent with work", "isolated", "imported", "http", "workflow")


def starved(folder: Path, *names: str) -> dict[str, list[str | None]]:
    """Return for each kind the fault of the host and the outcome without a descriptor, and the status with some."""
    with a_server(status(200)) as server:
        ended = subprocess.run(
            [sys.executable, "-m", "tests.targets.starved", str(folder), server.url, *names],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
            timeout=120,
            check=True,
        )
    found: dict[str, list[str | None]] = json.loads(ended.stdout)
    return found


def test_no_kind_of_target_fails_because_its_node_has_no_descriptor_left(tmp_path: Path) -> None:
    put_plugin(tmp_path / "plugins")
    (tmp_path / "inbox").mkdir()
    (tmp_path / "inbox" / "item.md").write_text("work")
    found = starved(tmp_path, *KINDS)
    assert {name: fault for name, (fault, *_) in found.items()} == dict.fromkeys(KINDS, "descriptors"), found
    assert {name: status for name, (*_, status) in found.items()} == dict.fromkeys(KINDS, "succeeded"), found
    assert not (tmp_path / "inbox" / "item.md").exists()  # it was released, and worked on then


def test_a_name_that_cannot_be_resolved_without_a_descriptor_is_no_failure(tmp_path: Path) -> None:
    """With one it is: nobody has that name."""
    assert starved(tmp_path, "http by name")["http by name"][::2] == [
        "descriptors",
        "failed",
    ]


@pytest.mark.parametrize(
    "spec",
    [
        {"argv": ["/nonexistent/program"]},
        {"argv": ["/bin/true"], "cwd": "/nonexistent"},
        {"argv": [sys.executable, "-c", ""], "cwd": "/nonexistent"},
        {"argv": ["/etc/passwd"]},
    ],
)
def test_a_program_that_is_not_there_is_a_failure(spec: dict[str, object]) -> None:
    outcome = perform(CommandTarget(), spec)
    assert (outcome.status, outcome.host_fault) == ("failed", None)


@pytest.mark.parametrize(
    ("number", "fault"),
    [
        (errno.EMFILE, "descriptors"),
        (errno.ENFILE, "descriptors"),
        (errno.ENOMEM, "memory"),
        (errno.EAGAIN, "processes"),
        (errno.ENOENT, None),
        (errno.EACCES, None),
        (errno.ECONNREFUSED, None),
    ],
)
def test_the_number_of_an_error_says_whether_the_host_is_at_fault(number: int, fault: str | None) -> None:
    assert host_fault_of(OSError(number, "text")) == fault
    caused = ValueError("another")
    caused.__cause__ = OSError(number, "text")
    assert host_fault_of(caused) == fault


def test_a_thread_that_cannot_be_started_is_known_by_where_it_failed_and_not_by_its_text() -> None:
    usual = threading.stack_size(1 << 46)  # more than there is
    try:
        with pytest.raises(NotBegunError) as refused, before_target():
            threading.Thread(target=int).start()
    finally:
        threading.stack_size(usual)
    assert refused.value.fault == "threads"
    assert host_fault_of(RuntimeError("can't start new thread")) is None
