"""Kinds of targets of other packages in a file: checked by the keys that they register, with lines and suggestions."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from everwhen.config.problems import Report
from everwhen.config.read import examine
from everwhen.config.schema import json_schema
from everwhen.config.submission import SubmissionRules, read_submission
from everwhen.errors import SubmissionError
from everwhen.installed_kinds import installed_names
from tests.config.reading import NOW, host, mistakes, read, write
from tests.targets.brought import install

MODULE = """
class Plain:
    async def run(self, spec, run): ...

class Short(Plain):
    keys = {"loft": "string", "weight": "integer"}

class Full(Plain):
    keys = {
        "type": "object",
        "description": "A ship.",
        "required": ["port"],
        "additionalProperties": False,
        "properties": {
            "port": {"type": "string", "description": "Where it goes."},
            "crew": {"type": "array", "items": {"type": "string"}},
            "cargo": {"type": "object", "properties": {"tons": {"type": "integer"}}},
        },
    }

class Referring(Plain):
    keys = {"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"type": "string"}}}

class Wrong(Plain):
    keys = {"type": "object", "properties": {"port": {"type": "harbour"}}}

class Unwritable(Plain):
    keys = {"port": {"default": object()}}

class Listed(Plain):
    keys = ["port"]

class Broken(Plain):
    def __init__(self):
        raise RuntimeError("no feathers")
"""
KINDS = {
    "plain": "Plain",
    "pigeon": "Short",
    "ship": "Full",
    "referring": "Referring",
    "wrong": "Wrong",
    "listed": "Listed",
    "unwritable": "Unwritable",
    "broken": "Broken",
    "command": "Plain",  # the names of everwhen are everwhen's
    "cwd": "Plain",
}
NO_KIND = "must name exactly one of command, http, python, message, plugin, agent, workflow"


@pytest.fixture(autouse=True)
def brought(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sys.modules.pop("kinds_of_a_file", None)
    install(tmp_path, monkeypatch, "kinds_of_a_file", MODULE, KINDS)


def a_file(run: str) -> str:
    return f"schedules:\n  - id: letter\n    every: 1h\n    run: {{{run}}}\n"


def test_a_kind_of_another_package_is_read_with_its_keys(tmp_path: Path) -> None:
    found = read(tmp_path, a_file("ship: {port: Kiel, crew: [Ada], cargo: {tons: 3}}"))
    (one,) = found.declared.schedules
    assert one.definition.target.kind == "ship"
    assert json.loads(one.definition.target.spec) == {"port": "Kiel", "crew": ["Ada"], "cargo": {"tons": 3}}


@pytest.mark.parametrize(
    ("run", "said"),
    [
        ("ship: {prot: Kiel}", [".ship: port is required", '.ship.prot: unknown key, did you mean "port"?']),
        ("ship: {port: 7}", [".ship.port: 7 is not of type 'string'"]),
        ("ship: {port: Kiel, crew: [Ada, 1]}", [".ship.crew[1]: 1 is not of type 'string'"]),
        ("ship: {port: Kiel, cargo: {tons: x}}", [".ship.cargo.tons: 'x' is not of type 'integer'"]),
        ("ship: {port: null}", [".ship: port is required"]),
        ("broken: 3", [".broken: must be a mapping, not 3"]),
        ("ship: Kiel", ['.ship: must be a mapping, not "Kiel"']),
        ("pigeon: {loft: /tmp, weight: heavy}", [".pigeon.weight: 'heavy' is not of type 'integer'"]),
        ("pigeon: {lofd: /tmp}", ['.pigeon.lofd: unknown key, did you mean "loft"?']),
        ("referring: {a: 1}", [".referring.a: 1 is not of type 'string'"]),
        (
            "ship: {port: Kiel}, command: [ls]",
            [
                f": {NO_KIND}, broken, listed, pigeon, plain, referring, ship, unwritable, wrong, not command and ship"
            ],
        ),
        (
            "ship: {port: Kiel}, cwd: /tmp",
            [".cwd: is allowed only with command"],
        ),
    ],
)
def test_a_mistake_in_its_keys_is_found_at_its_line(tmp_path: Path, run: str, said: list[str]) -> None:
    found = mistakes(tmp_path, a_file(run))
    assert found == [f"everwhen.yaml:4: schedules[0].run{one}" for one in said]


def test_a_kind_that_is_not_installed_is_refused_with_the_list_of_what_there_is(tmp_path: Path) -> None:
    found = mistakes(tmp_path, a_file("fax: {loft: /tmp}"))
    installed = "broken, listed, pigeon, plain, referring, ship, unwritable, wrong"
    keys = "command, cwd, env, http, python, args, kwargs, isolate, message, plugin, agent, workflow"
    assert found == [
        f"everwhen.yaml:4: schedules[0].run: {NO_KIND}, {installed}",
        f"everwhen.yaml:4: schedules[0].run.fax: unknown key; known keys: {keys}, {installed}",
    ]


def test_without_keys_a_kind_takes_any_mapping(tmp_path: Path) -> None:
    assert mistakes(tmp_path, a_file("plain: {what: ever, and: [so, 1]}")) == []


@pytest.mark.parametrize(
    ("kind", "fault"),
    [
        ("broken", 'the target "broken" cannot be loaded: RuntimeError: no feathers'),
        ("wrong", 'the keys of the target "wrong" cannot be used: the schema is not a valid JSON Schema'),
        (
            "unwritable",
            'the keys of the target "unwritable" cannot be used: Object of type object is not JSON serializable',
        ),
        ("listed", 'the keys of the target "listed" cannot be used: they are not a mapping'),
    ],
)
def test_a_broken_package_names_itself_and_harms_nobody_else(tmp_path: Path, kind: str, fault: str) -> None:
    report = Report()
    text = a_file(f"{kind}: {{}}") + "  - {id: other, every: 1h, run: {ship: {port: Kiel}}}\n"
    found = examine(write(tmp_path, text), host(), report)
    assert [one.schedule_id for one in found.declared.schedules] == ["letter", "other"]
    (warning,) = report.warnings
    assert not report.errors and fault in str(warning)
    with pytest.raises(SubmissionError, match=fault):
        read_submission({"every": "1h", "run": {kind: {}}}, "letter", SubmissionRules(NOW, lambda: "UTC"))


def test_the_schema_for_editors_shows_installed_kinds() -> None:
    run = json_schema()["properties"]["schedules"]["items"]["properties"]["run"]["properties"]
    assert run["ship"]["required"] == ["port"] and run["ship"]["description"] == "A ship."
    assert run["ship"]["properties"]["port"] == {"type": "string", "description": "Where it goes."}
    assert run["pigeon"]["properties"] == {"loft": {"type": "string"}, "weight": {"type": "integer"}}
    assert run["referring"] == {"type": "object", "description": "A target of kinds-of-a-file."}
    assert run["command"]["type"] == "array" and run["cwd"]["type"] == "string"


def test_packages_are_imported_when_a_schedule_names_their_kind_and_not_before(tmp_path: Path) -> None:
    assert "ship" in installed_names()
    assert mistakes(tmp_path, a_file("command: [ls]")) == []
    assert mistakes(tmp_path, a_file("fax: {}"))
    assert "kinds_of_a_file" not in sys.modules
    assert mistakes(tmp_path, a_file("plain: {}")) == []
    assert "kinds_of_a_file" in sys.modules
