"""What strangers wrote reaches a terminal, and a pipe, with every control character spelled out.

Every command of the command line is run as a process, on a database in which all that strangers may name, say and
print is hostile: once at a terminal (a pty), once into a pipe. A command that is added is found by the walk; a new kind
of argument needs a line in ARGUMENTS.
"""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import pytest

from everwhen import Scheduler
from everwhen.cli.main import everwhen
from everwhen.cli.terminal import escape_controls
from everwhen.operations.tokens import create_token
from tests.api.serving import Client, Service, serving
from tests.scheduler.waiting import until

COMMAND = str(Path(sys.executable).parent / "everwhen")
TITLE, CLEAR, C1, REVERSED = "\x1b]0;owned\x07", "\x1b[2J\x1b[H", "\x9b31m", "\u202egnp.exe"
HOSTILE = f"nice{TITLE}{CLEAR}{C1}{REVERSED}\x1b[8m\r\x08\x7f"
PRINTED = f"\x1b[31mred\x1b[0m {HOSTILE}"
SAYS = f"import sys; sys.stdout.write({PRINTED!r}); sys.stderr.write({PRINTED!r}); sys.exit(3)"
MARK = "=== command:"
SGR = re.compile("\x1b\\[[0-9;]*m")
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
LONG_LIVED = {
    "up",
    "scheduler",
    "worker",
    "api",
    "bench",
    "mcp",  # JSON for a program
}  # they serve, or measure; their lines: test_progress
FILE = """
quiet_hours: {nights: {windows: [{between: "22:00-07:00"}]}}
agents: {bot: {command: ["true"]}}
schedules: [{id: filed, every: 1h, first_run: after_interval, run: {message: {text: hello}}}]
"""


@dataclass(frozen=True, slots=True)
class Scene:
    """A service on a database that strangers wrote, and what is in it."""

    folder: Path
    service: Service
    schedule: str
    job: str
    token: str

    @property
    def url(self) -> str:
        return f"sqlite:///{self.folder}/api.db"


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("terminal")
    with serving(folder, file=FILE, allow_code_targets=True) as service:
        stranger = create_token(service.runtime, HOSTILE, "admin")
        client = Client(service.url, stranger.secret)
        client.post(
            "/quiet-hours/", {"id": "theirs", "name": HOSTILE, "windows": [{"between": "12:00-13:00"}]}
        )
        client.create(name=HOSTILE, description=HOSTILE, payload={HOSTILE: HOSTILE}, owner=HOSTILE)
        with Scheduler(f"sqlite:///{folder}/api.db", name="terminal", max_workers=2) as scheduler:
            scheduler.add(
                "theirs",
                every="1h",
                name=HOSTILE,
                description=HOSTILE,
                payload={HOSTILE: HOSTILE},
                circuit_breaker={"threshold": 1},
                run={"command": [sys.executable, "-c", SAYS, HOSTILE]},
            )
            until(lambda: client.get("/schedules/theirs/").fields["error_count"] == 1)
        assert client.post("/schedules/theirs/pause/", {"note": HOSTILE}).status == 200
        (job,) = client.get("/jobs/?schedule_id=theirs").fields["items"]
        yield Scene(folder, service, "theirs", job["id"], stranger.token.token_id)


def arguments(scene: Scene) -> dict[str, list[str]]:
    """What to give for each argument of a command, by its name."""
    crontab = scene.folder / "crontab"
    crontab.write_text(f"5 4 * * * echo {HOSTILE}".replace("\r", "") + "\n")
    return {
        "shell": ["bash"],
        "schedule": [scene.schedule],
        "schedules": [scene.schedule],
        "job": [scene.job],
        "jobs": [scene.job],
        "policy": ["theirs"],
        "plugin": [scene.schedule],
        "alert": ["1"],
        "subject": [scene.schedule],
        "expression": [f"5 {HOSTILE}"],
        "name": [HOSTILE],
        "token_id": [scene.token],
        "file": [str(crontab)],
        "scheduler": ["tests.cli.hostile_scheduler:scheduler"],
        "target": [str(scene.folder / "backup")],
        "source": [str(scene.folder / HOSTILE.replace("/", ""))],
        "directory": [str(scene.folder / HOSTILE.replace("/", ""))],
    }


REQUIRED = {"--from": "2026-01-05T08:00", "--to": "2026-01-05T10:00", "--for": "2h"}


def commands() -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []

    def walk(names: tuple[str, ...], command: click.Command) -> None:
        if not isinstance(command, click.Group):
            found.append(names)
            return
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            walk((*names, name), inner)

    walk((), everwhen)
    return sorted(
        (names for names in found if names[0] not in LONG_LIVED),
        key=lambda names: (any(word in names for word in ("delete", "revoke", "prune", "reload")), names),
    )


def parameters(names: tuple[str, ...]) -> list[click.Parameter]:
    command: click.Command = everwhen
    for name in names:
        assert isinstance(command, click.Group)
        inner = command.get_command(click.Context(command), name)
        assert inner is not None
        command = inner
    return command.params


def fields_of(scene: Scene, names: tuple[str, ...]) -> list[str]:
    """A whole command line that reaches the scene."""
    given, fields = arguments(scene), [*names]
    known = {option for one in parameters(names) for option in one.opts}
    for parameter in parameters(names):
        if isinstance(parameter, click.Argument):
            assert parameter.name in given, f"say in `arguments` what {parameter.name} may be"
            fields += given[parameter.name]
        elif parameter.required:
            fields += [parameter.opts[0], REQUIRED.get(parameter.opts[0], "1")]
    reach = {"--config": str(scene.folder / "everwhen.yaml"), "--database": scene.url}
    fields += [word for option, value in reach.items() if option in known for word in (option, value)]
    return fields + (["--yes"] if "--yes" in known else [])


def at_a_terminal(argv: list[str], **more: Any) -> str:
    """What a terminal gets: both streams of the process."""
    terminal, side = pty.openpty()
    environ = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "300"}
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=side, stderr=side, env=environ, **more):
        os.close(side)
        found = _read_all(terminal)
    os.close(terminal)
    return found.decode().replace("\r\n", "\n")


def _read_all(terminal: int) -> bytes:
    pieces: list[bytes] = []
    with suppress(OSError):  # the other side is closed: that is how a pty ends
        while piece := os.read(terminal, 65_536):
            pieces.append(piece)
    return b"".join(pieces)


def piped(argv: list[str], **more: Any) -> str:
    with subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **more
    ) as process:
        return bytes(process.communicate()[0]).decode()


WAYS = {"terminal": at_a_terminal, "pipe": piped}
# Many command lines in one process, as a shell would give them one by one: each start costs a second.
DRIVER = f"""
import json, sys
from everwhen.cli.main import main
for words in json.load(open(sys.argv[1])):
    print({MARK!r}, *words[0], flush=True)
    sys.argv = ["everwhen", *words[1]]
    try:
        main()
    except SystemExit:
        pass
    sys.stdout.flush()
"""


@pytest.mark.parametrize("way", WAYS)
def test_no_control_character_of_a_stranger_gets_out_of_any_command(scene: Scene, way: str) -> None:
    lines = [
        ([*names, *more], [*fields_of(scene, names), *more]) for names in commands() for more in forms(names)
    ]
    file = scene.folder / f"{way}.json"
    file.write_text(json.dumps(lines))
    found = WAYS[way]([sys.executable, "-c", DRIVER, str(file)], cwd=scene.folder).split(MARK)[1:]
    assert len(found) == len(lines)
    for said in found:
        name, _, rest = said.partition("\n")
        is_output = name.strip() in ("jobs logs", "logs")  # whose colours stay on a terminal: below
        assert rest.strip(), name
        assert "Traceback" not in rest, said
        assert is_output or "\x1b[8m" not in rest, name
        assert (
            CONTROLS.findall(SGR.sub("", rest.replace("\r\x1b[K", "")) if way == "terminal" else rest) == []
        ), name


def forms(names: tuple[str, ...]) -> list[list[str]]:
    known = {option for one in parameters(names) for option in one.opts}
    return [[], ["--json"]] if "--json" in known else [[]]


def logs(scene: Scene, *more: str) -> list[str]:
    return [COMMAND, "jobs", "logs", scene.job, "--database", scene.url, *more]


@pytest.mark.parametrize("follow", [(), ("-f",)])
def test_output_keeps_its_colours_on_a_terminal_and_nothing_else(
    scene: Scene, follow: tuple[str, ...]
) -> None:
    said = at_a_terminal(logs(scene, *follow), cwd=scene.folder)
    assert "\x1b[31mred\x1b[0m nice\\x1b]0;owned\\x07\\x1b[2J\\x1b[H\\x9b31m\\u202egnp.exe" in said
    assert said.endswith("\x1b[0m")  # whatever it was, the prompt that follows has its own colours
    assert CONTROLS.findall(SGR.sub("", said)) == []


def test_output_in_a_pipe_has_no_colours_either(scene: Scene) -> None:
    said = piped(logs(scene), cwd=scene.folder)
    assert "\\x1b[31mred\\x1b[0m nice\\x1b]0;owned" in said and CONTROLS.findall(said) == []


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("follow", [(), ("-f",)])
def test_raw_gives_the_bytes(scene: Scene, way: str, follow: tuple[str, ...]) -> None:
    assert PRINTED in WAYS[way](logs(scene, "--raw", *follow), cwd=scene.folder)


def test_raw_and_json_are_two_things(scene: Scene) -> None:
    assert "give one of them" in piped(logs(scene, "--raw", "--json"), cwd=scene.folder)


@pytest.mark.parametrize("way", WAYS)
def test_the_mistakes_of_a_file_paint_nothing(tmp_path: Path, way: str) -> None:
    (tmp_path / "everwhen.yaml").write_text(f"schedules: [{{id: {json.dumps(HOSTILE)}, evry: 1s}}]")
    said = WAYS[way]([COMMAND, "up"], cwd=tmp_path)
    assert "unknown key" in said and CONTROLS.findall(SGR.sub("", said)) == []


@pytest.mark.parametrize("way", WAYS)
def test_what_was_typed_is_repeated_without_its_controls(tmp_path: Path, way: str) -> None:
    for fields in (["next", HOSTILE], [HOSTILE], ["jobs", HOSTILE], ["config", "check", "--config", HOSTILE]):
        said = WAYS[way]([COMMAND, *fields], cwd=tmp_path)
        assert said and CONTROLS.findall(SGR.sub("", said)) == [], fields


def test_a_mistake_of_ours_is_reported_without_controls_too(tmp_path: Path) -> None:
    program = f"""
import sys
from everwhen.cli.terminal import print_traceback
sys.excepthook = print_traceback
{{}}[{HOSTILE!r}]
"""
    said = piped([sys.executable, "-c", program], cwd=tmp_path)
    assert "KeyError" in said and CONTROLS.findall(said) == []


def test_a_colour_that_is_cut_in_two_is_whole_again(tmp_path: Path) -> None:
    pieces = ["a\x1b", "[3", "1mb\r", "\nc\x1b["]
    program = f"""
from everwhen.cli.terminal import OutputText
output = OutputText()
for piece in {pieces!r}:
    output.write(piece)
output.close()
"""
    said = at_a_terminal([sys.executable, "-c", program], cwd=tmp_path)
    assert said == "a\x1b[31mb\nc\\x1b[\x1b[0m"


@pytest.mark.parametrize("text", ["\n", "\r\n", "\x1b[31m", "\x85", "\u2028", "\ud800", "\u202e"])
def test_one_line_stays_one_line_that_can_be_printed(text: str) -> None:
    found = escape_controls(f"a{text}b")
    assert found.isprintable() and len(found.splitlines()) == 1
