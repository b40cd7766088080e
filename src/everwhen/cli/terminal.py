"""Output to the terminal: lines, JSON and documents in which control characters of a value have no effect.

Names, notes, errors and output come from untrusted sources. An escape sequence in one of them could move the cursor,
change the title, or hide or forge a line. So every command prints through this module, or through the tables of
`screen`. Both escape what they print, on a terminal and into a pipe alike. The linter refuses `click.echo` and
similar functions in every other module. Styles are passed as values and rendered here, after the text is escaped.
"""

from __future__ import annotations

import atexit
import io
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

# C0, DEL and C1; marks that change the text direction; line separators and surrogates.
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_COLOUR = re.compile("\x1b\\[[0-9;:]{0,40}m")
_UNFINISHED = re.compile("(\x1b(\\[[0-9;:]{0,40})?|\r)$")
_RESET = "\x1b[0m"
_LONGEST_GUESSED = 40


class Styled(NamedTuple):
    """Text and its style; `echo` renders it."""

    text: str
    style: dict[str, Any]


def styled(text: str, **style: Any) -> Styled:
    """Attach a style of `click.style` to a text, such as fg="red"."""
    return Styled(text, style)


def escape_controls(text: str, *, keep: str = "") -> str:
    """Escape control characters, so that a terminal shows them and does not act on them.

    >>> escape_controls("red \\x1b[31m\\n"), escape_controls("a\\nb", keep="\\n")
    ('red \\\\x1b[31m\\\\n', 'a\\nb')
    """

    def escape(found: re.Match[str]) -> str:
        return found[0] if found[0] in keep else found[0].encode("unicode_escape").decode()

    return _CONTROLS.sub(escape, text)


# Takes a line for stderr, with its colour and its event, and returns whether it did: the log of a node.
TakeLine = Callable[[str, str | None, str | None], bool]
_take_line: TakeLine | None = None


def on_stderr_line(take: TakeLine | None) -> None:
    """Have a function take the lines for stderr."""
    global _take_line  # noqa: PLW0603 - stderr, too, exists once
    _take_line = take


def echo(*parts: str | Styled, err: bool = False, event: str | None = None) -> None:
    """Print one line; a line break in a value is escaped, so that a value cannot forge a line.

    A line for stderr that cannot be written is lost: a full disk, or a reader that went away, must not stop the work
    that the line is about. `event` names the event in the log of a node; a line with an empty one is printed as it is.
    """
    if err and event != "" and _take_line is not None and _is_taken(parts, event):
        return
    line = "".join(_render(part) for part in parts)
    if err:
        _write_stderr(line)
    else:
        click.echo(line)


def _is_taken(parts: Sequence[str | Styled], event: str | None) -> bool:
    assert _take_line is not None
    text = "".join(part.text if isinstance(part, Styled) else part for part in parts)
    colours = (part.style.get("fg") for part in parts if isinstance(part, Styled))
    return not text or _take_line(text, next(filter(None, colours), None), event)


def write_json_log(value: object) -> None:
    """Write one object of a log on a line of stderr."""
    _write_stderr(_to_json(value))


def _write_stderr(line: str) -> None:
    try:
        click.echo(line, err=True)
    except (OSError, ValueError):
        _forgive_last_flush()


@lru_cache(maxsize=1)
def _forgive_last_flush() -> None:
    """Have what could not be written discarded at the end: Python would make it the exit code 120 of a clean stop."""
    atexit.register(_discard_stderr)


def _discard_stderr() -> None:
    with suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 2)
        os.close(nowhere)


def secho(text: str, *, err: bool = False, event: str | None = None, **style: Any) -> None:
    """Print one line in one style."""
    echo(Styled(text, style), err=err, event=event)


def _render(part: str | Styled) -> str:
    if isinstance(part, Styled):
        style = part.style if may_colour() else {key: part.style[key] for key in part.style if key != "fg"}
        return click.style(escape_controls(part.text, keep="\t"), **style)
    return escape_controls(part, keep="\t")


def may_colour() -> bool:
    """Return whether the user has not declined colours (https://no-color.org)."""
    return not os.environ.get("NO_COLOR")


def redraw_line(line: str = "") -> None:
    """Replace the last line on stderr, where that is a terminal."""
    click.echo(f"\r\x1b[K{escape_controls(line)}", err=True, nl=False, color=True)


def print_lines(text: str, *, err: bool = False, event: str | None = None, **style: Any) -> None:
    """Print a text whose line breaks are intended: the problems of a file, a document."""
    if err and event != "" and _take_line is not None and _is_taken([Styled(text, style)], event):
        return
    for line in text.removesuffix("\n").split("\n"):
        secho(line, err=err, event="", **style)


def print_json(value: object) -> None:
    click.echo(_to_json(value, indent=2))


def print_json_line(value: object) -> None:
    """Print one of a series of values on a line of its own, so that a reader knows where each ends."""
    click.echo(_to_json(value))


def _to_json(value: object, indent: int | None = None) -> str:
    """Encode a value with all control characters escaped.

    `json.dumps` escapes C0 itself; the others occur in strings only, where they can be escaped as well.
    """
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    return _CONTROLS.sub(lambda found: found[0] if found[0] == "\n" else f"\\u{ord(found[0]):04x}", text)


class OutputText:
    """Prints the output of a job piece by piece: its colours on a terminal, and of other controls line breaks and tabs.

    The end of a piece may cut a sequence in two: the first half is kept until the rest arrives.
    """

    def __init__(self, *, err: bool = False) -> None:
        self._err = err
        self._has_colours = (sys.stderr if err else sys.stdout).isatty()
        self._is_coloured = False
        self._waiting = ""

    def write(self, text: str) -> None:
        text = self._waiting + text
        unfinished = _UNFINISHED.search(text)
        cut = unfinished.start() if unfinished else len(text)
        self._waiting = text[cut:]
        self._print(text[:cut])

    def close(self) -> None:
        """Print the kept rest, and reset the colours of the terminal."""
        self._print(self._waiting)
        self._waiting = ""
        if self._is_coloured:
            click.echo(_RESET, err=self._err, nl=False, color=True)

    def _print(self, text: str) -> None:
        text = text.replace("\r\n", "\n")
        if self._has_colours and not may_colour():
            text = _COLOUR.sub("", text)
        if not self._has_colours:
            click.echo(escape_controls(text, keep="\n\t"), err=self._err, nl=False)
            return
        self._is_coloured = self._is_coloured or _COLOUR.search(text) is not None
        click.echo(_escape_between_colours(text), err=self._err, nl=False, color=True)


def _escape_between_colours(text: str) -> str:
    found, start = [], 0
    for colour in _COLOUR.finditer(text):
        found += [escape_controls(text[start : colour.start()], keep="\n\t"), colour[0]]
        start = colour.end()
    return "".join([*found, escape_controls(text[start:], keep="\n\t")])


def print_bytes(raw: bytes, *, err: bool = False) -> None:
    """Print bytes unescaped, for commands with an option for it."""
    click.echo(raw, err=err, nl=False, color=True)


# -- a reader of a pipe that goes away --


class _PipeEnd(io.FileIO):
    """Stdout into a pipe; once its reader has gone away (`| head -1`), what is written is discarded.

    So the command ends as it would have ended: quietly, and with its own exit code.
    """

    has_reader = True

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data) or 0
        except BrokenPipeError:
            self.has_reader = False
            with suppress(OSError):
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, self.fileno())
                os.close(nowhere)
            return len(data)


def survive_closed_pipe() -> None:
    """Replace stdout, if it is a pipe, with a stream that does not fail when its reader goes away."""
    if not isinstance(sys.stdout, io.TextIOWrapper) or sys.stdout.isatty() or _pipe_end() is not None:
        return
    try:
        raw = _PipeEnd(sys.stdout.fileno(), "wb", closefd=False)
    except (OSError, ValueError):  # stdout is closed
        return
    sys.stdout.flush()
    encoding, errors = sys.stdout.encoding, sys.stdout.errors
    sys.stdout = io.TextIOWrapper(io.BufferedWriter(raw), encoding, errors, line_buffering=False)


def _pipe_end() -> _PipeEnd | None:
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    return raw if isinstance(raw, _PipeEnd) else None


def has_reader() -> bool:
    """Return whether stdout still has a reader; a command that follows something ends without one."""
    end = _pipe_end()
    return end is None or end.has_reader


class SuggestingGroup(click.Group):
    """A group that names the nearest command where one does not exist."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from difflib import get_close_matches

            near = get_close_matches(args[0][:_LONGEST_GUESSED], self.list_commands(ctx), n=1)
            if not near:
                raise
            raise click.UsageError(f'{error.message} Did you mean "{near[0]}"?', ctx) from None


class EscapingGroup(SuggestingGroup):
    """A group whose usage errors are escaped like all other output: they quote what was typed or pasted."""

    def make_context(self, *args: Any, **more: Any) -> click.Context:
        with _escaped_errors():
            return super().make_context(*args, **more)

    def invoke(self, ctx: click.Context) -> Any:
        with _escaped_errors():
            return super().invoke(ctx)


class SentenceGroup(SuggestingGroup):
    """A group that shows the first sentence of each command whole; click would cut it to one line."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(self._sentences(ctx))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        rows = [row for row in self._sentences(ctx) if row[0].startswith(incomplete)]
        options = click.Command.shell_complete(self, ctx, incomplete)
        return [*(CompletionItem(name, help=about) for name, about in rows), *options]

    def _sentences(self, ctx: click.Context) -> list[tuple[str, str]]:
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        return [
            (name, first_sentence(command.help or "")) for name, command in commands if command is not None
        ]


def first_sentence(text: str) -> str:
    """Return the first sentence of a help text.

    >>> first_sentence("Run it. It ends\\nby itself."), first_sentence("Keep .yaml\\nfiles, e.g. two.\\n\\nMore.")
    ('Run it.', 'Keep .yaml files, e.g. two.')
    """
    paragraph = " ".join(text.strip().partition("\n\n")[0].split())
    return re.split(r"(?<=[.)])\s+(?=[A-Z`])", paragraph, maxsplit=1)[0]


@contextmanager
def _escaped_errors() -> Iterator[None]:
    try:
        yield
    except click.ClickException as error:
        vars(error)["message"] = escape_controls(error.message, keep="\n\t")
        raise


def print_traceback(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print an unexpected error, as `sys.excepthook`: its traceback may quote a value, so it is escaped too."""
    import traceback

    print_lines("".join(traceback.format_exception(kind, error, trace)), err=True)
