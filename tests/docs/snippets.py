"""Carry out the fences of a page, in their order, in one scratch folder, as a reader would.

| language | what is done |
|---|---|
| `python` | a session (`>>>`) is a doctest; a program is run, and one that runs for ever is started and stopped |
| `yaml` | a configuration is checked and becomes `everwhen.yaml`; alert rules, manifests and scenarios are read, too |
| `sh`, `console` | every command is run by bash and must succeed; of a console these are the lines after `$ ` |
| `json`, `toml` | parsed |
| `text` | nothing: output and drawings; commands are not allowed in it |

A table that a console shows has the columns that its command prints.

A title, or a first line such as `# shop/tasks.py`, makes a fence a file for further fences. A command that
starts a node runs in the background until the page ends, and the next command waits until the node is ready;
`127.0.0.1:8750` is replaced by its address. `pip install` installs nothing; its extras are checked. A mark on the line
before a fence changes what is done:

| mark | meaning |
|---|---|
| `<!-- not run: REASON -->` | the fence is a placeholder, or needs what a test cannot have |
| `<!-- run by: tests/….py -->` | that test carries the fence out |
| `<!-- exact output -->` | the output of a console must be the one that is shown |
| `<!-- hidden: COMMAND; COMMAND -->` | run these commands first, which a reader need not see |
| `<!-- file: NAME -->` | the fence is that file; a program with `#!` is executable, and a command of the page runs it |
"""

from __future__ import annotations

import contextlib
import doctest
import http.client
import json
import os
import re
import signal
import stat
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

import everwhen
from everwhen.config.read import Host, read_configuration
from everwhen.config.schema import SECTIONS
from everwhen.model.plugin import parse_manifest
from everwhen.targets.plugin_folders import PluginFolders
from everwhen.telemetry.metrics import METRICS
from tests.docs.pages import ROOT, Fence
from tests.environment import without_settings
from tests.servers.ports import HeldPort
from tools.reference.metrics import full_name

NOW = 1_795_000_000_000_000  # November 2026: dates to come in the pages are to come
PATIENCE = 120.0  # seconds for the commands of one fence
DEFAULT_ADDRESS = "127.0.0.1:8750"
SHELLS = ("sh", "bash", "console")
FOLLOWED = (
    "tutorial",
    "concepts",
)  # folders whose commands other tests run, with what they print: test_tutorial.py and tests/release
_FILE_NAME = re.compile(r"[\w./-]+\.\w+")
_FILE = re.compile(r"# (?P<name>[\w./-]+\.(?:py|yaml|yml|sh|json|toml))\n")
_NODE = re.compile(r"^\s*(?:everwhen|python -m everwhen) (?P<role>up|scheduler|worker|api)\b(?!.*--help)")
_COMMAND = re.compile(r"^(?:\$ |(?:everwhen|pip|curl|make|python3?|rq|celery) [\w<-])")
_BACKGROUND = re.compile(r"\s*&?\s*(?:#.*)?$")
_REFERENCE = re.compile(r"\$\{(\w+)[:}]")


class SnippetError(AssertionError):
    """A fence that does not work as it is written."""


class Page:
    """The scratch folder of one page, the names that its sessions share, and the nodes that it started."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self.nodes: list[subprocess.Popen[bytes]] = []
        self._held_port = HeldPort()
        self.port = self._held_port.number
        (folder / ".state").write_text("")
        (folder / ".curlrc").write_text("fail-with-body\nno-progress-meter\n")

    def carry_out(self, fence: Fence) -> None:
        """Do what a fence says; a fault is a SnippetError with its place."""
        try:
            if fence.mark == "not run":
                _require(len(fence.mark_text) > 5, "a fence that is not run needs a reason")
            elif fence.mark == "run by":
                self._check_runner(fence)
            else:
                if fence.mark == "hidden":
                    self._shell(fence.mark_text.split("; "))
                self._by_language(fence)
        except (AssertionError, Exception) as error:
            raise SnippetError(f"{fence}: {error}") from error

    def _check_runner(self, fence: Fence) -> None:
        text = (ROOT / fence.mark_text).read_text(encoding="utf-8")
        _require(
            fence.page.name in text or fence.page.parent.name in text,
            f"{fence.mark_text} does not read the page",
        )

    def _by_language(self, fence: Fence) -> None:
        named = _FILE.match(fence.text)
        name = named["name"] if named is not None and fence.language not in SHELLS else None
        if fence.mark == "file" or _FILE_NAME.fullmatch(fence.title):
            name = fence.title or fence.mark_text
        if fence.language in SHELLS and name is None and fence.page.parent.name in FOLLOWED:
            return
        if name is not None:
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(fence.text)
            if fence.text.startswith("#!") or fence.language in SHELLS:
                path.chmod(stat.S_IRWXU)
                return  # a command of the page runs it
        match fence.language:
            case "python" if ">>> " in fence.text:
                self._session(fence)
            case "python" if name is not None:
                self._import(self.folder / name)
            case "python":
                self._program(fence.text, str(fence))
            case "yaml":
                self._yaml(fence.text)
            case "sh" | "bash":
                self._shell(_joined(fence.text.splitlines()))
            case "console":
                self._console(fence)
            case "json":
                _parse_json(fence.text)
            case "toml":
                tomllib.loads(fence.text)
            case "text":
                commands = [line for line in fence.text.splitlines() if _COMMAND.match(line)]
                _require(not commands, f"has commands, which a console would run: {commands}")
            case language:
                kind = language or "fence without a language"
                raise SnippetError(f"what is a {kind}? Name one, or say why it is not run")

    # -- Python --

    def _session(self, fence: Fence) -> None:
        test = doctest.DocTestParser().get_doctest(fence.text, self.names, str(fence), None, 0)
        said: list[str] = []
        runner = doctest.DocTestRunner()
        runner.run(test, out=said.append, clear_globs=False)
        self.names.update(test.globs)
        _require(runner.failures == 0, "".join(said))

    def _program(self, text: str, name: str) -> None:
        with started_and_stopped():
            exec(compile(text, name, "exec"), self.names)

    def _import(self, path: Path) -> None:
        with started_and_stopped():
            exec(compile(path.read_text(), str(path), "exec"), {"__name__": path.stem, "__file__": str(path)})

    # -- YAML --

    def _yaml(self, text: str) -> None:
        document = yaml.safe_load(text)
        _require(isinstance(document, dict), "is not a mapping")
        if "manifest_spec" in document:
            parse_manifest(document)
        elif "groups" in document and "rules" in document["groups"][0]:
            for group in document["groups"]:
                for rule in group["rules"]:
                    check_rule(rule)
        elif {"default", "outages"} & document.keys():
            self._scenario(text)
        elif document.keys() <= SECTIONS.keys():
            self._configuration(text, document)
        else:
            raise SnippetError(f"has keys that no section has: {sorted(document.keys() - SECTIONS.keys())}")

    def _configuration(self, text: str, document: Mapping[str, Any]) -> None:
        path = self.folder / "everwhen.yaml"
        path.write_text(text)
        self._make_plugins(document)
        environ = {name: f"https://example.com/{name}" for name in _REFERENCE.findall(text)}
        configuration = read_configuration(path, Host(environ, lambda: "UTC", NOW, plugins_in=PluginFolders))
        _require(configuration.warnings == (), str(configuration.warnings))

    def _make_plugins(self, document: Mapping[str, Any]) -> None:
        """Make the plugins that the file names and the page does not show."""
        for name, plugin in (document.get("plugins") or {}).items():
            folder = self.folder / "plugins" / name
            if folder.exists():
                continue
            listed = [*(plugin.get("schedules") or ()), plugin.get("schedule") or {}]
            commands = {"poll", *(one["command"] for one in listed if "command" in one)}
            folder.mkdir(parents=True)
            (folder / "run.sh").write_text('#!/bin/sh\necho \'{"status": "ok"}\'\n')
            (folder / "run.sh").chmod(stat.S_IRWXU)
            described = [{"name": command, "type": "read"} for command in sorted(commands)]
            manifest = {
                "manifest_spec": "ductile.plugin",
                "manifest_version": 1,
                "name": name,
                "version": "1.0.0",
            }
            manifest |= {"protocol": 2, "entrypoint": "run.sh", "commands": described}
            (folder / "manifest.yaml").write_text(json.dumps(manifest))

    def _scenario(self, text: str) -> None:
        from everwhen.config.scenario import read_scenario

        path = self.folder / "scenario.yaml"
        path.write_text(text)
        read_scenario(path)

    # -- shell --

    def _console(self, fence: Fence) -> None:
        for command, shown in _exchanges(fence.text):
            said = self._shell([command])
            if fence.mark == "exact output":
                _require(said.split() == shown.split(), f"{command} printed:\n{said}")
            for heading in _headings(shown):
                _require(heading in _headings(said), f"{command} printed:\n{said}")

    def _shell(self, commands: list[str]) -> str:
        """Run commands one after another in bash; a node runs on in the background."""
        printed = ""
        for command in commands:
            command = command.replace(DEFAULT_ADDRESS, f"127.0.0.1:{self.port}")
            before, _, last = command.rpartition(" && ")
            if before and _NODE.match(last):
                self._run(before)
                command = last
            if (node := _NODE.match(command)) is not None:
                self._start(command, node["role"])
            elif command.startswith("pip install"):
                check_extras(command)
            elif command.strip():
                printed += self._run(command)
        return printed

    def _run(self, command: str) -> str:
        state = "set -a; . ./.state; set +a\n"
        script = f"{state}{command}\nstatus=$?\nexport -p > .state\nexit $status\n"
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=self.folder,
            env=self._environ(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        _require(
            done.returncode == 0, f"`{command}` ended with {done.returncode}:\n{done.stdout}{done.stderr}"
        )
        return done.stdout

    def _start(self, command: str, role: str) -> None:
        words = f". ./.state; exec {_BACKGROUND.sub('', command)}"
        log = self.folder / f"node-{len(self.nodes)}.log"
        with log.open("wb") as output:
            self.nodes.append(
                subprocess.Popen(
                    ["bash", "-c", words],
                    cwd=self.folder,
                    env=self._environ(),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )
            )
        if role in ("up", "api"):
            self._wait_until_ready(self.nodes[-1], log)

    def _wait_until_ready(self, node: subprocess.Popen[bytes], log: Path) -> None:
        until = time.monotonic() + PATIENCE
        while not is_ready(self.port):
            _require(
                node.poll() is None and time.monotonic() < until, f"the node is not ready:\n{log.read_text()}"
            )
            with contextlib.suppress(subprocess.TimeoutExpired):
                node.wait(0.1)

    def _environ(self) -> dict[str, str]:
        programs = str(Path(sys.executable).parent)
        own = {
            "HOME": str(self.folder),
            "TZ": "UTC",
            "NO_COLOR": "1",
            "COLUMNS": "120",
            "EVERWHEN_API_PORT": str(self.port),
        }
        return {**without_settings(), **own, "PATH": f"{programs}:{os.environ['PATH']}"}

    def close(self) -> None:
        """End the nodes that the page started; each ends in order."""
        for node in self.nodes:
            if node.poll() is None:
                node.send_signal(signal.SIGTERM)
        for node in self.nodes:
            try:
                node.wait(PATIENCE)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(node.pid, signal.SIGKILL)
        self._held_port.release()
        for value in self.names.values():
            if isinstance(value, everwhen.Scheduler):
                value.close()


def _require(is_true: bool, fault: str) -> None:
    if not is_true:
        raise SnippetError(fault)


def _exchanges(text: str) -> Iterator[tuple[str, str]]:
    """Return the commands of a console, each with the output that is shown."""
    lines = iter([*text.splitlines(), "$ "])
    command, shown = "", ""
    for line in lines:
        if line.startswith("$ "):
            if command:
                yield command, shown
            command, shown = line.removeprefix("$ "), ""
            while command.endswith("\\"):
                command += "\n" + next(lines).removeprefix("> ")
        else:
            shown += f"{line}\n"


def _headings(printed: str) -> list[list[str]]:
    """Return the names of the columns of each table."""
    lines = printed.splitlines()
    return [line.split() for line, rule in pairwise(lines) if rule.strip() and not rule.strip("─ ")]


def _joined(lines: list[str]) -> list[str]:
    """Return the commands of a script: all of it as one, apart from the nodes that it starts."""
    commands: list[str] = [""]
    for line in lines:
        if _NODE.match(line):
            commands += [line, ""]
        else:
            commands[-1] += f"{line}\n"
    return [
        f"set -e\n{command}" if not _NODE.match(command) else command
        for command in commands
        if command.strip()
    ]


def _parse_json(text: str) -> None:
    """Parse a document, or one document to a line."""
    try:
        json.loads(text)
    except json.JSONDecodeError:
        for line in text.splitlines():
            json.loads(line)


def check_extras(command: str) -> None:
    """Check what a reader installs: nothing is installed here, but every extra exists."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for extras in re.findall(r"everwhen\[([\w,]+)\]", command):
        unknown = set(extras.split(",")) - project["optional-dependencies"].keys()
        _require(not unknown, f"there is no extra {unknown}")


def check_rule(rule: Mapping[str, Any]) -> None:
    """Check an alert rule of Prometheus: its keys, and that the metrics and labels that it names exist."""
    known = {full_name(name, kind): kind for name, kind in METRICS.items()}
    _require(
        {"alert", "expr"} <= rule.keys() <= {"alert", "expr", "for", "labels", "annotations"},
        f"keys of {rule}",
    )
    _require(re.fullmatch(r"(\d+[smhd])+", str(rule.get("for", "1m"))) is not None, f"for of {rule}")
    for metric, labels in re.findall(r"\b(everwhen_\w+)(?:\{([^}]*)\})?", rule["expr"]):
        name = re.sub(r"_(bucket|sum|count)$", "", metric)
        _require(name in known, f"there is no metric {metric}")
        for label, value in re.findall(r'(\w+)=~?"([^"]*)"', labels):
            _require(label in known[name].labels, f"{metric} has no label {label}")
            values = known[name].labels[label]
            _require(
                not values or set(value.split("|")) <= {*values}, f"{label} of {metric} is never {value}"
            )


@contextlib.contextmanager
def started_and_stopped() -> Iterator[None]:
    """Let `run()` of a scheduler, which waits for a signal, start it and stop it again."""

    def run(scheduler: Any, *_: Any, **__: Any) -> None:
        with scheduler:
            pass

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(everwhen.Scheduler, "run", run)
        yield


def is_ready(port: int) -> bool:
    """Return whether a node answers there that it does its work."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()
