from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from everwhen.errors import ConfigError
from everwhen.model.work_item import WorkOutcome
from everwhen.work_sources.directory import DirectorySource, open_directory

SUCCESS, FAILURE = WorkOutcome("success"), WorkOutcome("failure", error="no luck")

CLAIM_AND_WAIT = """
import sys
from everwhen.work_sources.directory import DirectorySource
item = DirectorySource(sys.argv[1]).claim("a.md", by="sched-x-n1-rc0.1")
print(item.id, flush=True)
sys.stdin.read()
"""


def an_inbox(path: Path, **files: str) -> DirectorySource:
    for name, text in files.items():
        (path / f"{name}.md").write_text(text)
    return DirectorySource(path)


def names(path: Path, folder: str = ".") -> list[str]:
    return sorted(p.name for p in (path / folder).rglob("*") if p.is_file())


def test_items_come_in_the_order_of_their_names(tmp_path: Path) -> None:
    source = an_inbox(tmp_path, b="second", a="first", c="third")
    assert [item.title for item in source.fetch_available()] == ["a", "b", "c"]
    assert [item.title for item in source.fetch_available(limit=1)] == ["a"]


def test_a_text_file_is_its_own_description(tmp_path: Path) -> None:
    (item,) = an_inbox(tmp_path, a="Fix it.").fetch_available()
    assert (item.id, item.external_id, item.title, item.description) == ("a.md", "a.md", "a", "Fix it.")
    assert item.source == "directory"


def test_a_json_file_holds_the_fields_of_an_item(tmp_path: Path) -> None:
    fields = {"title": "Fix it", "priority": "high", "labels": ["bug"], "id": "is not taken from here"}
    (tmp_path / "a.json").write_text(json.dumps(fields))
    (item,) = DirectorySource(tmp_path).fetch_available()
    assert (item.id, item.title, item.priority, item.labels) == ("a.json", "Fix it", "high", ("bug",))


def test_half_a_json_file_is_a_text(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"title": ')
    (item,) = DirectorySource(tmp_path).fetch_available()
    assert (item.title, item.description) == ("a", '{"title": ')


def test_hidden_files_folders_and_links_are_no_items(tmp_path: Path) -> None:
    source = an_inbox(tmp_path)
    (tmp_path / ".half-written").write_text("…")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("/etc/hostname")
    assert source.fetch_available() == []


def test_a_claimed_item_is_nobody_elses(tmp_path: Path) -> None:
    source = an_inbox(tmp_path, a="first")
    item = source.claim("a.md", by="job.1")
    assert item is not None and item.id == "claimed/job.1/a.md"
    other = DirectorySource(tmp_path)
    assert other.fetch_available() == []
    assert other.claim("a.md", by="job.2") is None
    assert other.claim(item.id, by="job.2") is None
    assert other.get(item.id) == item


@pytest.mark.parametrize(("outcome", "folder"), [(SUCCESS, "done"), (FAILURE, "failed")])
def test_a_finished_item_is_filed_away(tmp_path: Path, outcome: WorkOutcome, folder: str) -> None:
    source = an_inbox(tmp_path, a="first")
    item = source.claim("a.md", by="job.1")
    assert item is not None
    source.complete(item.id, outcome)
    assert names(tmp_path) == ["a.md"] == names(tmp_path, folder)
    assert source.fetch_available() == []


def test_a_finished_item_never_replaces_another(tmp_path: Path) -> None:
    for number in (1, 2):
        source = an_inbox(tmp_path, a=f"number {number}")
        item = source.claim("a.md", by=f"job-{number}.1")
        assert item is not None
        source.complete(item.id, SUCCESS)
    assert names(tmp_path, "done") == ["a.md", "job-2.1.a.md"]


def test_a_released_item_can_be_claimed_again(tmp_path: Path) -> None:
    source = an_inbox(tmp_path, a="first")
    item = source.claim("a.md", by="job.1")
    assert item is not None
    source.release(item.id, reason="unexpected")
    (again,) = source.fetch_available()
    assert again.id == "a.md"
    assert source.claim("a.md", by="job.2") is not None


def test_an_item_released_beside_a_new_one_of_its_name_is_kept(tmp_path: Path) -> None:
    source = an_inbox(tmp_path, a="old")
    item = source.claim("a.md", by="job.1")
    an_inbox(tmp_path, a="new")
    assert item is not None
    source.release(item.id, reason="unexpected")
    assert sorted(item.description for item in source.fetch_available()) == ["new", "old"]


def test_the_claim_of_a_process_that_was_killed_is_found_again(tmp_path: Path) -> None:
    source = an_inbox(tmp_path, a="first")
    argv = [sys.executable, "-c", CLAIM_AND_WAIT, str(tmp_path)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        claimed = worker.stdout.readline().strip()
        assert source.fetch_available() == []
        worker.send_signal(signal.SIGKILL)
        worker.wait()
    (dead,) = source.fetch_available()
    assert dead.id == claimed == "claimed/sched-x-n1-rc0.1/a.md"
    again = source.claim(dead.id, by="sched-x-n1-rc0.2")
    assert again is not None and again.description == "first"
    source.complete(again.id, SUCCESS)
    assert names(tmp_path) == names(tmp_path, "done") == ["a.md"]


def test_of_many_who_claim_at_once_one_gets_the_item(tmp_path: Path) -> None:
    an_inbox(tmp_path, **{f"item-{n}": "…" for n in range(20)})
    start = threading.Barrier(8)
    got: list[str] = []

    def work(number: int) -> None:
        source = DirectorySource(tmp_path)
        start.wait()
        for n in range(20):
            item = source.claim(f"item-{n}.md", by=f"job-{number}-{n}.1")
            if item is not None:
                got.append(item.external_id)
                source.complete(item.id, SUCCESS)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(got) == sorted(f"item-{n}.md" for n in range(20))
    assert len(names(tmp_path, "done")) == 20


def test_an_item_that_is_gone_cannot_be_claimed(tmp_path: Path) -> None:
    assert an_inbox(tmp_path).claim("a.md", by="job.1") is None
    assert an_inbox(tmp_path).get("a.md") is None


def test_nothing_outside_the_inbox_is_an_item(tmp_path: Path) -> None:
    (tmp_path / "inbox").mkdir()
    (tmp_path / "secret").write_text("…")
    source = DirectorySource(tmp_path / "inbox")
    with pytest.raises(ValueError, match="is not an item"):
        source.claim("../secret", by="job.1")
    with pytest.raises(ValueError, match="is not an item"):
        source.get("/etc/hostname")


def test_a_report_that_fails_leaves_the_item_to_be_found_again(tmp_path: Path) -> None:
    source = an_inbox(tmp_path, a="first")
    item = source.claim("a.md", by="job.1")
    assert item is not None
    (tmp_path / "done").write_text("a file in the way")
    with pytest.raises(OSError):
        source.complete(item.id, SUCCESS)
    assert [found.id for found in DirectorySource(tmp_path).fetch_available()] == [item.id, "done"]


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    source = an_inbox(tmp_path, a="first")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(20):
        item = source.claim("a.md", by="job.1")
        assert item is not None
        source.release(item.id, reason="again")
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@pytest.mark.parametrize("fields", [{}, {"path": 5}, {"path": "/nowhere/at/all"}])
def test_a_directory_must_be_there(fields: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        open_directory(fields)
