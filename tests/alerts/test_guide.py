"""The files that docs/guide/alerts.md shows, read and run as their readers do."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from everwhen.alerts.command import CommandChannel
from everwhen.config.read import Host, read_configuration
from everwhen.config.sections.notify import rules_in
from everwhen.model.alerts import CLASSES, AlertDelivery
from everwhen.model.instants import SECOND
from everwhen.model.webhooks import signature_of

GUIDE = (Path(__file__).parents[2] / "docs/guide/alerts.md").read_text()
FILES = re.findall(r"```yaml\n(.*?)```", GUIDE, re.DOTALL)
PROGRAM = re.findall(r"```python\n(# notify\.py\n.*?)```", GUIDE, re.DOTALL)


@pytest.mark.parametrize("text", FILES)
def test_a_file_of_the_guide_is_valid(text: str, tmp_path: Path) -> None:
    (tmp_path / "everwhen.yaml").write_text(text)
    host = Host({}, lambda: "UTC", 1_767_600_000_000_000)
    configuration = read_configuration(tmp_path / "everwhen.yaml", host)
    assert configuration.warnings == ()
    for rule in rules_in(configuration.sections["notify"]):
        assert rule.classes


def test_the_program_of_the_guide_takes_a_message(tmp_path: Path) -> None:
    (program,) = PROGRAM
    (tmp_path / "notify.py").write_text(program)
    body = json.dumps({"alert": {"severity": "error"}, "title": "[everwhen] FAILING s"})
    delivery = AlertDelivery(1, "d", "r", "opened", None, owner=None, body=body, created_at=0, next_at=0)
    sent = CommandChannel(timeout=60).send({"argv": [sys.executable, str(tmp_path / "notify.py")]}, delivery)
    assert sent.answer == "exit 0: ERROR [everwhen] FAILING s"


def test_the_receiver_of_the_guide_knows_a_signature() -> None:
    (program,) = re.findall(r"```python\n(# receiver\.py\n.*?)```", GUIDE, re.DOTALL)
    names: dict[str, Any] = {}
    exec(program, names)
    header = signature_of("secret", b"{}", 1_000 * SECOND)
    assert names["is_genuine"]("secret", header, b"{}", 1_100.0)
    assert not names["is_genuine"]("secret", header, b"[]", 1_100.0)
    assert not names["is_genuine"]("other", header, b"{}", 1_100.0)
    assert not names["is_genuine"]("secret", header, b"{}", 2_000.0)


def test_the_guide_names_every_class_and_no_other() -> None:
    table = GUIDE.partition("## What is reported")[2].partition("## What is not sent")[0]
    named = re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
    found = {name for cell in named for name in re.findall(r"`([a-z_.]+)`", cell)}
    assert CLASSES.keys() == found


def test_a_rule_without_a_name_gets_one_that_no_other_has() -> None:
    section: list[dict[str, Any]] = [
        {"name": "http", "command": ["a"]},
        {"http": {"url": "http://a"}},
        {"http": {"url": "http://b"}},
        {"command": ["b"]},
    ]
    assert [rule.name for rule in rules_in(section)] == ["http", "http-2", "http-3", "command"]
