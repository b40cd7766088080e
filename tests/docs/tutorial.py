"""Does what a page of the tutorial tells its reader to do, and compares what the reader would see.

A fence with a file's name as its title is that file. In a fence `console`, a line after `$ ` is a command, and the
lines below it are what it prints. With a title, the fence is a terminal of its own, where the last command goes on: a
later fence of the same title continues it, and `^C` in it stops it. `…` stands for anything, also for several lines.

What differs from run to run (instants, durations, ids, addresses) is compared by its form. An id, token or address
that a command mentions is the one that was printed in this run where the page shows it.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from time import monotonic
from typing import TextIO

from tests.environment import without_settings

FENCE = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
NOT_RUN = re.compile(r"<!-- not run: [^>]+ -->\n$")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
ANYTHING = "…"
DIGITS = r"\d+"
PATIENCE = 60.0  # seconds
# Commands that only look. Who asks in the very moment in which a job runs sees that, and asks again.
ASKS = re.compile(
    r"everwhen (?:why|status|logs|audit|schedules list|schedules show|jobs list|jobs show)\b|ls "
)
_ZONE = r"[A-Z][\w/+-]*"
_WEEKDAY = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*"
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*"
# Forms of what differs from run to run. The names of those that a later command may mention begin with `known`.
FORMS = {
    "known_job": rf"sched-[0-9a-f]{{12}}-n\d+-rc{DIGITS}",
    "known_token": r"ew_[\w-]{20,}",
    "known_address": r"127\.0\.0\.1:\d+",
    "token_id": r"tok_[0-9a-f]{12}",
    "node": r"[a-z]+(?:-[0-9a-f]{8})?-[0-9a-f]{16}",
    "instant": r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)",
    "shown": rf"{_WEEKDAY} \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)? (?:UTC|(?:[A-Z]+ )?[+-]\d\d:\d\d)",
    "day": rf"{_WEEKDAY} \d\d? {_MONTH} \d\d:\d\d:\d\d {_ZONE}",
    "clock": r"^\d\d:\d\d:\d\d(?= )",
    "in": r"(?:in )?\d+(?:\.\d+)?(?:ms|s|m|h|d)(?: \d+[smh])?(?: ago)?\b",
    "counts": r"(?<= )\d+ \d+(?= [✓✗])",
    "disk": r"\d+(?:\.\d+)? [KMGT]iB free \(\d+ %\)",
    "event": r"event \d+",
    "number": r"(?<= )\d+(?= slots?| jobs?\b)",
}
_VARIABLE = re.compile("|".join(f"(?P<{name}>{form})" for name, form in FORMS.items()) + f"| ?{ANYTHING} ?")


@dataclass(frozen=True, slots=True)
class Fence:
    """A piece of a page that its reader types or sees."""

    line: int
    language: str
    title: str | None
    text: str


def fences_of(page: str) -> Iterator[Fence]:
    """Yield the fences of a page that are to be run, in order."""
    for found in FENCE.finditer(page):
        if not NOT_RUN.search(page, 0, found.start()):
            yield Fence(page.count("\n", 0, found.start()) + 1, found[1], found[2], found[3])


class MismatchError(AssertionError):
    """A command printed something else than the page shows."""


@dataclass(slots=True)
class Terminal:
    """A process that goes on while the reader does other things, in a terminal of its own."""

    process: subprocess.Popen[str]
    screen: TextIO

    def lines(self) -> Iterator[str]:
        with suppress(OSError):  # Linux: when the last process has closed the terminal
            for line in self.screen:
                yield COLOUR.sub("", line)

    def kill(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)

    def close(self) -> None:
        self.kill()
        self.process.wait()
        self.screen.close()


class Reader:
    """Somebody who follows one page in one folder, with the programs of one environment."""

    def __init__(self, folder: Path, environ: Mapping[str, str], stack: ExitStack) -> None:
        self.folder = folder
        self._environ = environ
        self._stack = stack
        self._terminals: dict[str, Terminal] = {}
        self._known: dict[str, str] = {}

    def follow(self, fence: Fence) -> None:
        try:
            if fence.language != "console":
                self._write(fence)
            elif fence.title is None:
                for command, shown in _commands(fence.text):
                    self._run(command, shown)
            else:
                self._go_on(fence.title, fence.text)
        except MismatchError as error:
            raise MismatchError(f"line {fence.line}: {error}") from None

    def _write(self, fence: Fence) -> None:
        if fence.title is None:
            return
        path = self.folder / fence.title
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(fence.text, encoding="utf-8")

    def _run(self, command: str, shown: Sequence[str]) -> None:
        if command.startswith("cd "):
            self.folder = self.folder / command.removeprefix("cd ")
            return
        until = monotonic() + PATIENCE
        form, names = _form_of("\n".join(shown))
        while True:
            with self._started(command) as process:
                printed, _ = process.communicate(timeout=PATIENCE)
            if found := re.fullmatch(form, _squeezed(printed)):
                self._known.update(zip(names, found.groups(), strict=True))
                return
            if not ASKS.match(command) or monotonic() > until:
                raise MismatchError(
                    f"`{command}` printed\n{printed}\nwhere the page shows\n" + "\n".join(shown)
                )

    def _go_on(self, title: str, text: str) -> None:
        if text.startswith("$ "):
            command, shown = next(_commands(text))
            master, slave = os.openpty()
            terminal = Terminal(self._started(command, slave), os.fdopen(master, encoding="utf-8"))
            self._stack.callback(terminal.close)
            self._terminals[title] = terminal
            os.close(slave)
        else:
            command, shown = title, text.splitlines()
            terminal = self._terminals[title]
        before, interrupted, after = _parted(shown, "^C")
        patience = Timer(PATIENCE, terminal.kill)  # what is shown and never comes ends with the process
        patience.start()
        try:
            self._watch(command, before, terminal.lines(), is_open=command == title)
            if interrupted:
                os.killpg(terminal.process.pid, signal.SIGINT)
                self._watch(command, after, terminal.lines(), is_open=True)
        finally:
            patience.cancel()

    def _started(self, command: str, output: int = subprocess.PIPE) -> subprocess.Popen[str]:
        for shown, real in self._known.items():
            command = command.replace(shown, real)
        return subprocess.Popen(
            ["bash", "-c", command],
            cwd=self.folder,
            env=dict(self._environ),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def _watch(self, command: str, shown: Sequence[str], printed: Iterator[str], *, is_open: bool) -> None:
        """Wait for lines in their order. While `is_open`, as after a line of `…`, others may come first."""
        seen: list[str] = []
        for line in shown:
            if line.strip() == ANYTHING:
                is_open = True
                continue
            form, names = _form_of(line)
            for real in printed:
                seen.append(real)
                if found := re.fullmatch(form, _squeezed(real)):
                    self._known.update(zip(names, found.groups(), strict=True))
                    is_open = False
                    break
                if not is_open:
                    raise MismatchError(f"`{command}` printed\n{''.join(seen)}\nwhere the page shows\n{line}")
            else:
                raise MismatchError(f"`{command}` printed\n{''.join(seen)}\nand never\n{line}")


def _commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each command of a fence with the lines below it; a line after `> ` continues the command."""
    command, shown = "", list[str]()
    for line in text.splitlines():
        if line.startswith("$ "):
            if command:
                yield command, shown
            command, shown = line.removeprefix("$ "), []
        elif line.startswith("> ") and not shown:
            command += "\n" + line.removeprefix("> ")
        else:
            shown.append(line)
    if command:
        yield command, shown


def _parted(lines: Sequence[str], mark: str) -> tuple[Sequence[str], bool, Sequence[str]]:
    if mark not in lines:
        return lines, False, ()
    at = list(lines).index(mark)
    return lines[:at], True, lines[at + 1 :]


def _squeezed(text: str) -> str:
    """Return a text without what aligns its columns, and in one line: a terminal breaks lines where it ends."""
    return re.sub("─+", "─", re.sub(r"\s+", " ", text.strip()))


def _form_of(text: str) -> tuple[str, list[str]]:
    """Return the pattern of what the page shows, and the texts for which this run has texts of its own."""
    line = _squeezed(text)
    form, names, end = "", [], 0
    for found in _VARIABLE.finditer(line):
        form += re.escape(line[end : found.start()])
        end = found.end()
        kind = found.lastgroup
        if kind is None:
            form += ".*"
        elif kind.startswith("known"):
            retry = found[0].rpartition("-rc")[2]  # which attempt it is, does not differ from run to run
            form += f"({FORMS[kind].replace(f'-rc{DIGITS}', f'-rc{retry}')})"
            names.append(found[0])
        else:
            form += f"(?:{FORMS[kind]})"
    return form + re.escape(line[end:]), names


def follow(page: Path, folder: Path, environ: Mapping[str, str]) -> None:
    """Do everything that a page says; raise MismatchError where its reader would see something else."""
    with ExitStack() as stack:
        reader = Reader(folder, environ, stack)
        for fence in fences_of(page.read_text(encoding="utf-8")):
            reader.follow(fence)


def newcomers_environment(home: Path, programs: Path) -> dict[str, str]:
    """Return the environment of somebody who has just installed everwhen into the folder `programs`."""
    home.mkdir()
    path = f"{programs}:{without_settings()['PATH']}"
    return {**without_settings(), "HOME": str(home), "PATH": path}
