"""Hostile files: importers read so much and no more, run nothing, and take over what the other scheduler reads."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from everwhen.cli.main import everwhen
from everwhen.compat.importers import MOST_ENTRIES, Imported
from everwhen.compat.importers.celery_beat import import_celery
from everwhen.compat.importers.crontab import import_crontab
from everwhen.compat.importers.ductile import import_ductile
from everwhen.compat.importers.herdctl import import_herdctl
from everwhen.config.yaml_text import MOST_BYTES
from everwhen.errors import ConfigError
from everwhen.targets.secrets import Secrets


def commands(imported: Imported) -> list[list[str]]:
    return [one["run"]["command"] for one in imported.document["schedules"]]


def beat(entry: str) -> Imported:
    return import_celery(f"from datetime import timedelta\nbeat_schedule = {{'a': {{'task': 't', {entry}}}}}")


# -- crontab --


@pytest.mark.parametrize("mark", ["\x0b", "\x0c", "\x1c", "\x85", "\u2028"])
def test_what_cron_reads_as_one_line_is_one_line(mark: str) -> None:
    hidden = f"# a comment{mark}* * * * * evil\n* * * * * true # {mark}* * * * * evil\n"
    assert not any(argv[2].startswith("evil") for argv in commands(import_crontab(hidden)))


def test_an_entry_with_control_characters_is_left_out_and_named() -> None:
    imported = import_crontab("* * * * * echo a\x00b\n* * * * * echo \x1b[31m\n* * * * * echo\tc\n")
    assert commands(imported) == [["/bin/sh", "-c", "echo\tc"]]
    assert [note.partition(":")[0] for note in imported.notes[:2]] == ["line 1", "line 2"]
    assert "\x1b" not in "".join(imported.notes)


def test_what_looks_like_a_reference_stays_what_it_was() -> None:
    """A shell reads `${NAME}`, Celery reads nothing in it; a node would put its own environment there."""
    (argv,) = commands(import_crontab("SHELL=/bin/${X}\n* * * * * echo ${HOME} $${A:-b}\n"))
    assert Secrets({}).resolve(argv) == ["/bin/${X}", "-c", "echo ${HOME} $${A:-b}"]
    (argv,) = commands(beat("'schedule': 5, 'args': ['${EVERWHEN_ADMIN_TOKEN}']"))
    resolved = Secrets({"EVERWHEN_ADMIN_TOKEN": "s3cret"}).resolve(argv)
    assert resolved[-1] == '["${EVERWHEN_ADMIN_TOKEN}"]'


def test_a_line_of_spaces_takes_no_time_to_speak_of() -> None:
    imported = import_crontab(f"A=x{' ' * 2_000_000}y\n* * * * * true\n")  # a quadratic search takes hours
    assert len(imported.document["schedules"][0]["run"]["env"]["A"]) == 2_000_002


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("* * * * * /usr/bin/job\n" * (MOST_ENTRIES + 1), "more than 20,000 entries"),
        ("".join(f"what {n}\n" for n in range(MOST_ENTRIES + 1)), "more than 20,000 times"),
        (
            "".join(f"A{n}=1\n" for n in range(2_000)) + "".join(f"* * * * * a{n}\n" for n in range(200)),
            "the variables of all entries",
        ),
    ],
    ids=["entries", "notes", "variables"],
)
def test_a_crontab_beyond_measure_is_refused(text: str, fault: str) -> None:
    with pytest.raises(ConfigError, match=fault):
        import_crontab(text)


# -- Celery --


@pytest.mark.parametrize(
    "entry",
    [
        "'schedule': 5, 'args': ['x' * 10**10]",
        "'schedule': 5, 'args': 'x' * 9999999999",
        "'schedule': 5, 'args': [0] * 9999999999",
        "'schedule': 1e999",
        "'schedule': timedelta(days=99999999999999)",
        "'schedule': 9999999999999999 * 9999999999999999",
        "'schedule': __import__('os').system('touch /nowhere')",
        "'schedule': crontab(minute=[[['x']]], hour={'a': 1})",
        "'schedule': 5, 'args': 7",
    ],
)
def test_a_value_without_end_or_of_another_type_is_left_out(entry: str) -> None:
    imported = beat(entry)
    assert imported.document["schedules"] == []
    assert imported.notes[0].startswith("a: left out: ")


@pytest.mark.parametrize(
    "nested",
    ["-" * 100_000 + "1", "(" * 300 + "1" + ")" * 300, "a" + ".b" * 100_000],
    ids=["signs", "parentheses", "attributes"],
)
def test_a_program_that_is_nested_too_deep_is_refused(nested: str) -> None:
    with pytest.raises(ConfigError, match="not valid Python"):
        beat(f"'schedule': {nested}")


def test_no_name_of_a_task_and_no_option_is_an_option_of_celery() -> None:
    assert beat("'schedule': 5, 'task': '--config=evil'").document["schedules"] == []
    (argv,) = commands(beat("'schedule': 5, 'options': {'queue': '--config=evil'}"))
    assert argv == ["celery", "-A", "t", "call", "t"]


# -- files that name files --


def files_without_end(count: int) -> Any:
    """Each file names the next, so many times."""

    def read(path: str) -> dict[str, Any]:
        following = [f"{path}x"] * count
        return {"include": following, "version": 1, "fleets": following}

    return read


@pytest.mark.parametrize("count", [1, 2])
def test_files_that_name_one_another_without_end_are_refused(count: int) -> None:
    for importer in (import_ductile, import_herdctl):
        with pytest.raises(ConfigError, match="does it name itself"):
            importer({"include": ["a"], "version": 1, "fleets": ["a"]}, files_without_end(count))


def test_files_that_name_very_many_are_refused() -> None:
    files: dict[str, Any] = {
        "a": {"include": ["b"] * 40, "version": 1, "fleets": ["b"] * 40},
        "b": {"version": 1, "agents": []},
    }
    for importer in (import_ductile, import_herdctl):
        with pytest.raises(ConfigError, match="more than 1,000 files"):
            importer({"include": ["a"] * 40, "version": 1, "fleets": ["a"] * 40}, files.__getitem__)


def test_overrides_of_a_fleet_that_are_no_mapping_are_noted() -> None:
    files = {"f.yaml": {"version": 1, "agents": [{"name": "a", "schedules": {}}]}}
    imported = import_herdctl(
        {"version": 1, "fleets": [{"path": "f.yaml", "overrides": 7}]}, files.__getitem__
    )
    assert "f.yaml: overrides are left out, they are not a mapping" in imported.notes


# -- what is no file --


def refusal(*argv: str) -> str:
    error = CliRunner().invoke(everwhen, ["import", *argv]).exception
    assert isinstance(error, ConfigError), error
    return str(error)


@pytest.mark.parametrize("kind", ["crontab", "ductile", "herdctl", "celery"])
def test_a_device_and_a_file_beyond_the_limit_are_refused(kind: str, tmp_path: Path) -> None:
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate(MOST_BYTES + 1)
    assert refusal(kind, "/dev/zero") == "/dev/zero: is not a file, but a device, a pipe or a socket"
    assert "is larger than 16 MiB" in refusal(kind, str(large))


def test_a_pipe_or_a_device_that_a_file_names_is_never_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/zero")
    for name in ("pipe", "link"):
        main = tmp_path / "main.yaml"
        main.write_text(f"version: 1\nagents: [{name}]\ninclude: [{name}]\n")
        for kind in ("ductile", "herdctl"):
            assert "is not a file, but a device, a pipe or a socket" in refusal(kind, str(main))


@pytest.mark.parametrize("kind", ["crontab", "ductile", "herdctl", "celery"])
def test_a_link_that_leads_to_itself_is_no_file(kind: str, tmp_path: Path) -> None:
    """Python could not tell where it leads, and said so in a traceback."""
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    assert refusal(kind, str(loop)) == f"{loop}: cannot be read: {os.strerror(errno.ELOOP)}"
