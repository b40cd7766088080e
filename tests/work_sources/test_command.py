from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path

import pytest

from everwhen.errors import ConfigError, WorkSourceError
from everwhen.model.work_item import WorkOutcome
from everwhen.work_sources.command import CommandSource, open_command

QUEUE = f"""#!{sys.executable}
import json, os, sys
verb, asked = sys.argv[-1], json.load(sys.stdin)
state = os.path.join(os.path.dirname(__file__), "queue.json")
items = json.load(open(state))
free = [item for item in items if not item.get("by")]
if verb == "fetch":
    print(json.dumps({{"items": free[: asked["limit"]]}}))
    sys.exit()
found = [item for item in items if item["id"] == asked["id"]]
if verb in ("claim", "get"):
    if verb == "claim":
        found = [item for item in found if not item.get("by")]
        for item in found:
            item["by"] = asked["by"]
    print(json.dumps({{"item": found[0] if found else None}}))
else:
    for item in found:
        item["by"] = None if verb == "release" else item["by"]
        item["told"] = asked
with open(state, "w") as file:
    json.dump(items, file)
"""


def a_program(path: Path, text: str) -> list[str]:
    program = path / "queue"
    program.write_text(text)
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return [str(program)]


def a_queue(path: Path) -> CommandSource:
    (path / "queue.json").write_text(json.dumps([{"id": "7", "title": "Fix it", "labels": ["bug"]}]))
    return CommandSource(a_program(path, QUEUE))


def stored(path: Path) -> dict[str, object]:
    (item,) = json.loads((path / "queue.json").read_text())
    assert isinstance(item, dict)
    return item


def test_an_item_is_fetched_claimed_and_completed(tmp_path: Path) -> None:
    source = a_queue(tmp_path)
    (item,) = source.fetch_available()
    assert (item.id, item.title, item.labels, item.source) == ("7", "Fix it", ("bug",), "command")
    assert source.claim("7", by="job.1") == item
    assert source.claim("7", by="job.2") is None
    assert source.fetch_available() == []
    assert source.get("7") == item
    assert source.get("8") is None
    source.complete("7", WorkOutcome("failure", summary="tried", error="no luck", job_id="job"))
    reported = {"id": "7", "status": "failure", "summary": "tried", "error": "no luck", "job_id": "job"}
    assert stored(tmp_path)["told"] == reported


def test_a_released_item_is_free_again(tmp_path: Path) -> None:
    source = a_queue(tmp_path)
    source.claim("7", by="job.1")
    source.release("7", reason="unexpected")
    assert [item.id for item in source.fetch_available()] == ["7"]


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        ("echo broken >&2; exit 3", "fetch: exit code 3: broken"),
        ("echo hello", "fetch: the answer is not valid JSON: hello"),
        ("echo '[1]'", "fetch: the answer is not a JSON object"),
        ("true", "fetch: the answer is not valid JSON: "),
        ("""echo '{"items": {}}'; exit 0""", None),
        ("""echo '{"items": {"a": 1}}'""", "items is not a list"),
        ("""echo '{"items": [{"title": "no id"}]}'""", "is not a work item"),
        ("""echo '{"items": ["a"]}'""", "is not a work item"),
        ("kill -9 $$", "exit code -9"),
    ],
)
def test_whatever_a_source_does_wrong_is_reported(tmp_path: Path, script: str, complaint: str | None) -> None:
    source = CommandSource(a_program(tmp_path, f"#!/bin/sh\n{script}\n"))
    if complaint is None:
        assert source.fetch_available() == []
        return
    with pytest.raises(WorkSourceError) as caught:
        source.fetch_available()
    assert complaint in str(caught.value)


def test_a_source_that_never_answers_is_ended_with_what_it_started(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    source = CommandSource(a_program(tmp_path, f"#!/bin/sh\nexec 9>{pipe}\nsleep 600 &\nwait\n"), timeout=0.3)
    with pytest.raises(WorkSourceError, match=r"no answer within 0\.3s"):
        source.fetch_available()
    os.set_blocking(reader, True)
    assert os.read(reader, 1) == b""  # comes when the last of them has let go of its end
    os.close(reader)


def test_a_source_that_answers_without_end_is_ended_long_before_its_time(tmp_path: Path) -> None:
    source = CommandSource(a_program(tmp_path, "#!/bin/sh\nexec yes\n"))
    with pytest.raises(WorkSourceError, match="more than 10485760 bytes of answer"):
        source.fetch_available()


def test_a_program_that_is_not_there_is_reported(tmp_path: Path) -> None:
    with pytest.raises(WorkSourceError, match="cannot start"):
        CommandSource([str(tmp_path / "nothing")]).fetch_available()


def test_a_source_sees_its_own_variables_and_no_secret_of_the_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_PASSWORD", "hush")
    argv = a_program(
        tmp_path, """#!/bin/sh\necho "{\\"items\\": [{\\"id\\": \\"$DATABASE_PASSWORD-$MINE\\"}]}"\n"""
    )
    source = open_command({"type": "command", "command": argv, "env": {"MINE": "yes"}})
    assert [item.id for item in source.fetch_available()] == ["-yes"]


@pytest.mark.parametrize("argv", [None, [], "echo", [1]])
def test_a_command_source_needs_an_argv(argv: object) -> None:
    with pytest.raises(ConfigError, match="needs command"):
        open_command({"type": "command", "command": argv})
