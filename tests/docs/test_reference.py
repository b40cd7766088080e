"""The reference is what the source says, and everything that a user may look up has its place in it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import get_args

import pytest
from click.testing import CliRunner

import everwhen
from everwhen.cli import exit_codes
from everwhen.cli.main import everwhen as program
from everwhen.config.schema import FILE, json_schema
from everwhen.model import events, meanings, reasons, variables
from everwhen.model.fields import FIELDS, Column
from everwhen.model.kinds import Either, Headers, Key, Kind, ListOf, MapOf, Record, Refused
from everwhen.model.scalars import Word
from everwhen.signals import LEFT_BY_SIGNAL
from everwhen.store.schema.migrations import SQLITE_MIGRATIONS
from everwhen.store.schema.tables import TABLES
from everwhen.telemetry.metrics import METRICS
from tests.docs.pages import ROOT
from tools import reference
from tools.reference import command_line, configuration, rest
from tools.reference.examples import example_of, faults
from tools.reference.keys import shown
from tools.reference.metrics import full_name


@pytest.mark.parametrize("path", reference.FILES, ids=str)
def test_a_generated_file_is_what_the_source_says(path: Path) -> None:
    assert (ROOT / path).read_text(encoding="utf-8") == reference.FILES[path](), "run make reference"


@cache
def page(name: str) -> str:
    return (ROOT / reference.REFERENCE / name).read_text(encoding="utf-8")


def keys_in(path: str, kind: Kind) -> Iterator[tuple[str, Key]]:
    """Every key of a kind, however deep it is, with its path."""
    match kind:
        case Record():
            for name, key in kind.keys.items():
                yield f"{path}.{name}", key
                yield from keys_in(f"{path}.{name}", key.kind)
        case ListOf() | MapOf() | Headers():
            yield from keys_in(path, kind.kind)
        case Either():
            for one in (*(one for _, one in kind.kinds), kind.last):
                yield from keys_in(path, one)


EVERY_KEY = dict(keys_in("", FILE))


def test_every_key_of_the_configuration_has_its_row() -> None:
    rows = set(
        re.findall(r"^\| `(\w+)` \|", page("configuration.md") + page("schedule-keys.md"), re.MULTILINE)
    )
    rows |= set(re.findall(r"^\| \[`(\w+)`\]", page("configuration.md"), re.MULTILINE))
    rows |= set(re.findall(r"^### `(\w+)`", page("schedule-keys.md"), re.MULTILINE))  # kinds of targets
    assert len(EVERY_KEY) > 133
    assert {path.rpartition(".")[2] for path in EVERY_KEY} <= rows


@pytest.mark.parametrize(("section", "column"), [("plugins", "plugin"), ("agents", "agent")])
def test_the_table_of_a_group_has_the_defaults_of_that_group(section: str, column: Column) -> None:
    part = page("configuration.md").partition(f"### Inside `{section}.NAME`\n")[2].partition("\n#")[0]
    rows = {
        line.split(" | ")[0]: line.split(" | ")[2] for line in part.splitlines() if line.startswith("| `")
    }
    own = {
        f"| `{name}`": shown(row.defaults[column]) for name, row in FIELDS.items() if row.defaults.get(column)
    }
    assert {name: rows[name] for name in own if name in rows} == {
        name: value for name, value in own.items() if name in rows
    }
    assert "| `max_outstanding`" in rows


def test_every_mapping_of_the_configuration_has_its_table() -> None:
    for name, key in FILE.keys.items():
        section = page("configuration.md").partition(f"\n## `{name}`\n")[2].partition("\n## ")[0]
        assert "```yaml" in section, name
        for path, record in configuration.records_of(name, key.kind):
            is_listed = all(f"| `{inner}` |" in section for inner in record.keys)
            assert is_listed or record in configuration.ON_OTHER_PAGE, path


def test_every_key_has_an_example_that_it_takes() -> None:
    sections = [one.kind for one in FILE.keys.values()]
    for path, key in EVERY_KEY.items():
        if isinstance(key.kind, Refused) or key.kind in sections:
            continue
        value = example_of(path.rpartition(".")[2], key)
        if value is None:  # a large mapping, which has a table
            assert isinstance(key.kind, Record | ListOf | MapOf), path
        else:
            assert faults(key.kind, value) == [], path


@pytest.mark.parametrize("row", configuration.VALUES, ids=lambda row: row[0])
def test_the_examples_of_values_are_taken(row: tuple[str, Kind, tuple[object, ...], str]) -> None:
    _, kind, examples, _ = row
    assert [faults(kind, value) for value in examples] == [[] for _ in examples]


def test_the_words_of_a_key_are_those_that_have_a_meaning() -> None:
    explained = [key.kind for key in EVERY_KEY.values() if isinstance(key.kind, Word) and key.kind.meanings]
    for word in explained:
        assert tuple(word.meanings) == word.fields
    tables = [value for name, value in vars(meanings).items() if name.isupper()]
    assert all(any(word.meanings is table for word in explained) for table in tables)


def test_the_schema_for_editors_says_what_the_words_mean() -> None:
    keys = json_schema()["properties"]["schedules"]["items"]["properties"]
    assert "run_once: one job replaces all missed slots" in keys["catch_up"]["description"]


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        ("configuration.md", ["22:00-07:00", "`{from, to}`", "### Inside `quiet_hours.NAME.windows[]`"]),
        (
            "configuration.md",
            ["## `budgets`", "`cost_per_day`", "owner:ada", "`on_reached`", "| `fires_per_hour` |"],
        ),
        ("configuration.md", ["## `workflows`", "`triggers`", "trigger_node_id: start"]),
        ("schedule-keys.md", ["| `catch_up` |", "`run_all`: each missed slot gets a job"]),
        (
            "schedule-keys.md",
            ["## Inside `dst`", "`shift`: the slot fires", "`both`: the slot fires both times"],
        ),
        ("schedule-keys.md", ["| `max_retries` | none | none | none | `3` | none |"]),
    ],
)
def test_what_could_not_be_found_is_there(name: str, texts: list[str]) -> None:
    for text in texts:
        assert text in page(name)


def test_every_rest_call_has_its_place() -> None:
    text = page("rest.md")
    found = list(rest.calls())
    assert len(found) > 70
    for method, path, operation in found:
        assert f"\n### `{operation['operationId']}`\n\n`{method} {path}` · " in text
        for parameter in operation.get("parameters", ()):
            assert f"`{parameter['name']}`" in text
    for name in rest.document()["components"]["schemas"]:
        assert f"\n## `{name}`\n" in page("rest-shapes.md")


def test_every_command_and_option_has_its_place() -> None:
    text = page("command-line.md")
    found = dict(command_line.commands())
    assert len(found) > 50
    for name, command in found.items():
        section = text.partition(f"\n## `everwhen {name}`\n")[2].partition("\n## ")[0]
        listed = re.findall(r"--[a-z-]+", CliRunner().invoke(program, [*name.split(), "--help"]).output)
        options = {
            one for option in command.params if option.param_type_name == "option" for one in option.opts
        }
        assert options <= set(re.findall(r"`(-[\w-]+)`", section)) | {"--help"}, name
        assert "--help" in listed


def test_every_event_and_reason_has_its_place() -> None:
    text = page("events.md")
    assert set(events.MEANINGS) == set(get_args(events.EventType))
    assert set(events.DERIVED_MEANINGS) == set(get_args(events.DerivedType))
    for name in (*events.MEANINGS, *events.DERIVED_MEANINGS):
        assert f"\n| `{name}` | " in text
    lists = {
        reasons.SkipReason: reasons.SKIPPED,
        reasons.HoldReason: reasons.HELD,
        reasons.MissReason: reasons.MISSED,
        reasons.SpanReason: reasons.SPANS,
        reasons.CancelReason: reasons.CANCELLED,
        reasons.ScheduleSkipReason: reasons.CHECKED,
    }
    for words, sentences in lists.items():
        assert set(get_args(words)) == set(sentences)
        for word in sentences:
            assert f"\n| `{word}` | " in text


def test_every_metric_has_its_place() -> None:
    for name, kind in METRICS.items():
        assert f"\n| `{full_name(name, kind)}` | " in page("metrics.md")


def test_every_table_of_the_database_has_its_place() -> None:
    scripts = "".join(migration.before + migration.after for migration in SQLITE_MIGRATIONS)
    assert set(TABLES) == set(re.findall(r"CREATE (?:TABLE|VIEW) (\w+)", scripts))


def test_every_public_name_has_its_place() -> None:
    for name in everwhen.__all__:
        assert name == "__version__" or re.search(rf"^(### |\| )`{name}`", page("python.md"), re.MULTILINE), (
            name
        )


def test_types_are_shown_as_they_are_written_and_every_property_is_explained() -> None:
    text = page("python.md")
    assert "ForwardRef" not in text and " at 0x" not in text
    properties = re.findall(r"^\| property \| (.*)\n.*\n((?:\|.*\n)+)", text, re.MULTILINE)
    assert {columns for columns, _ in properties} == {"type | meaning |"}
    assert [row for _, rows in properties for row in rows.splitlines() if row.endswith("| |")] == []


def test_the_exit_codes_are_those_of_the_program() -> None:
    assert exit_codes.LEFT_BY_SIGNAL == LEFT_BY_SIGNAL
    assert exit_codes.MEANINGS.keys() == {0, exit_codes.FAILED, 2, exit_codes.CHANGES, LEFT_BY_SIGNAL}
    raised = {
        number
        for path in (ROOT / "src" / "everwhen" / "cli").glob("*.py")
        for number in re.findall(r"SystemExit\((\w+)\)", path.read_text(encoding="utf-8"))
    }
    assert raised == {"0", "FAILED", "CHANGES"}


INTERNAL = {"EVERWHEN_RUN_MARK", "EVERWHEN_OUTCOME"}  # between a node and processes of its own


def test_every_variable_of_the_source_has_its_place() -> None:
    named = {
        node.value
        for path in (ROOT / "src").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if re.fullmatch(r"EVERWHEN_[A-Z_]*[A-Z]", node.value)
    }
    listed = set(re.findall(r"^\| `(\w+)`", page("environment.md"), re.MULTILINE))
    assert named - INTERNAL <= listed
    assert {*variables.READ, *variables.SET} <= listed
