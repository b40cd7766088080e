"""Text for people on stdout: tables and panels, coloured only on a terminal. Programs get JSON instead.

Every cell and line is a `Text` of this module, which escapes control characters (see `terminal`). Rich renders them.
Without colours, plain letters that fit are rendered here in the same way, because loading rich takes time.
"""

from __future__ import annotations

import functools
import json
import os
import re
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self

import click

from everwhen.cli.marks import mark_of, marked
from everwhen.cli.terminal import echo, escape_controls, print_json, print_json_line, redraw_line, secho
from everwhen.clock import SystemClock, now

if TYPE_CHECKING:
    from rich import text
    from rich.console import Console


WIDTH = 200  # where there is no terminal
# Letters that take one place each, wherever they are shown.
_PLAIN = re.compile("[ -~\u00a1-\u00ac\u00ae-\u02ff–—…→×✓✗●○]*")

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")


Answers = Generator[object, None, None]


def answering(
    command: Callable[..., Answers], print_answer: Callable[[object], None] = print_json
) -> Callable[..., None]:
    """Add `--json` to a command that yields its answer once, and then prints it for people.

    With `--json` the answer itself is printed, and the rest of the command does not run.
    """

    @functools.wraps(command)
    def wrapped(*args: Any, as_json: bool, **options: Any) -> None:
        steps = command(*args, **options)
        answer = next(steps)
        if as_json:
            print_answer(answer)
            steps.close()
        else:
            next(steps, None)

    return json_option(wrapped)


# The same with the answer on one line, so that the answers of several calls can be told apart.
answering_line = functools.partial(answering, print_answer=print_json_line)


def from_option(about: str, **more: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return click.option("--from", "start", metavar="TIME", help=about, **more)


def limit_of(default: int, most: int = 100_000, *, what: str = "List") -> Callable[..., Any]:
    about, kind = f"{what} at most this many.", click.IntRange(1, most)
    return click.option("--limit", default=default, show_default=True, type=kind, metavar="N", help=about)


limit_option = limit_of(50)


def word_option(
    name: str, words: Sequence[str], about: str, *, also: Sequence[str] = ()
) -> Callable[..., Any]:
    """Return an option that takes one of the words; `also` has further ones, which its help does not list."""
    kind = click.Choice((*words, *(one for one in also if one not in words)))
    return click.option(name, type=kind, metavar="WORD", help=f"{about}: {', '.join(words)}.")


@contextmanager
def until_interrupted() -> Iterator[None]:
    """End the block normally on Ctrl-C, which is how a user ends following."""
    try:
        yield
    except KeyboardInterrupt:
        return


class Text:
    """A cell or a line with styles, whose control characters are escaped; a block keeps its line breaks."""

    def __init__(self, content: str = "", style: str = "", *, is_block: bool = False) -> None:
        self._parts = [(escape_controls(content, keep="\n" if is_block else ""), style)]

    @classmethod
    def assemble(cls, *parts: str | Text | tuple[str, str]) -> Self:
        """Join plain parts, styled parts (text, style) and other texts."""
        found = cls()
        for part in parts:
            found.append(*part) if isinstance(part, tuple) else found.append(part)
        return found

    def append(self, content: Text | str, style: str = "") -> Self:
        self._parts += content._parts if isinstance(content, Text) else [(escape_controls(content), style)]
        return self

    @property
    def plain(self) -> str:
        return "".join(part for part, _ in self._parts)

    def to_rich(self) -> text.Text:
        from rich.text import Text as RichText

        (first, style), *others = self._parts
        found = RichText(first, style)
        for part, style in others:
            found.append(part, style or None)
        return found


def print_text(content: Text) -> None:
    plain = content.plain
    if _has_no_colours() and len(plain) <= WIDTH and _PLAIN.fullmatch(plain):
        click.echo(plain)
    else:
        _console().print(content.to_rich())


def _has_no_colours() -> bool:
    """Return whether stdout is not a terminal, and no variable makes rich treat it as one."""
    encoding = getattr(sys.stdout, "encoding", None) or ""
    return (
        not sys.stdout.isatty()
        and encoding.lower().startswith("utf")
        and not any(os.environ.get(name) for name in ("FORCE_COLOR", "TTY_COMPATIBLE"))
    )


def _console() -> Console:
    """Return a console on stdout: as wide as the terminal, or 200 columns where there is none."""
    from rich.console import Console

    found = Console(highlight=False, emoji=False, markup=False)
    return found if found.is_terminal else Console(highlight=False, emoji=False, markup=False, width=WIDTH)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str | Text]], *, empty: str = "none") -> None:
    """Print a table without frames.

    A column whose name begins with `>` is aligned to the right. Plain cells may have several lines.
    """
    cells = [[cell if isinstance(cell, Text) else Text(cell, is_block=True) for cell in row] for row in rows]
    if not cells:
        echo(empty)
        return
    lines = (
        plain_table(columns, [[cell.plain for cell in row] for row in cells]) if _has_no_colours() else None
    )
    if lines is not None:
        click.echo("\n".join(lines))
    else:
        _draw_table(columns, cells)


def plain_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str] | None:
    """Return the lines that rich would print without colours; None if cells would have to be wrapped or measured."""
    names = [column.removeprefix(">") for column in columns]
    table = [names, *rows] if any(columns) else list(rows)
    if not all(_PLAIN.fullmatch(cell) and cell == cell.strip() for row in table for cell in row):
        return None
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    if sum(widths) + 3 * (len(widths) - 1) > WIDTH or not any(widths):
        return None
    right = [column.startswith(">") for column in columns]
    lines = [
        "   ".join(
            cell.rjust(width) if is_right else cell.ljust(width)
            for cell, width, is_right in zip(row, widths, right, strict=True)
        )
        for row in table
    ]
    return [lines[0], "─" * len(lines[0]), *lines[1:]] if any(columns) else lines


def _draw_table(columns: Sequence[str], rows: Sequence[Sequence[Text]]) -> None:
    from rich import box
    from rich.table import Table

    table = Table(
        box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, show_header=any(columns), header_style="bold"
    )
    for column in columns:
        right = column.startswith(">")
        table.add_column(
            column.removeprefix(">"), justify="right" if right else "left", overflow="fold", no_wrap=right
        )
    for row in rows:
        table.add_row(*(cell.to_rich() for cell in row))
    _console().print(table)


def print_fields(fields: Mapping[str, Any], show_instant: Callable[[str], str]) -> None:
    """Print the fields of one object that are not empty, each on a line with its name."""
    rows = [(name, _field_text(name, value, show_instant)) for name, value in fields.items()]
    print_table(("", ""), [(Text(name, "dim"), value) for name, value in rows if value])


def _field_text(name: str, value: Any, show_instant: Callable[[str], str]) -> str | Text | None:
    if value in (None, "", [], {}, 0):
        return None
    if name == "status":
        return status_text(value)
    if name.endswith(("_at", "_since")) or name == "not_before":
        return f"{show_instant(value)}  {away(value)}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


class ProgressBar:
    """A progress bar on stderr, with the time that is left; it prints nothing where stderr is not a terminal."""

    def __init__(self, word: str, monotonic: Callable[[], float] | None = None) -> None:
        self._word = word
        self._is_shown = sys.stderr.isatty()
        self._last = ""
        self._monotonic = monotonic or SystemClock().monotonic
        self._began = self._monotonic()

    def show(self, share: float, note: str = "") -> None:
        """Show which share of the work is done, and a note about it."""
        if not self._is_shown:
            return
        share = max(0.0, min(share, 1.0))
        done = int(share * 30)
        line = f"{self._word}  {'█' * done}{'░' * (30 - done)} {share:4.0%}{self._left(share)}{note}"
        if line != self._last:
            self._last = line
            redraw_line(line)

    def _left(self, share: float) -> str:
        """Return how long the rest will take at this pace, once there is a pace."""
        spent = self._monotonic() - self._began
        if spent < 2 or not 0 < share < 1:
            return ""
        return f", about {span_text(max(round(spent * (1 - share) / share), 1)).replace('.0s', 's')} left"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._last:
            redraw_line()


def counted(count: int, noun: str, nouns: str | None = None) -> str:
    """Return a number with its noun.

    >>> counted(1, "schedule"), counted(1200, "entry", "entries")
    ('1 schedule', '1,200 entries')
    """
    return f"{count:,} {noun if count == 1 else nouns or f'{noun}s'}"


def status_text(status: str, text: str | None = None) -> Text:
    """Return an outcome or a state, or a text about it, with its mark and its colour."""
    return Text(marked(status, text), mark_of(status).colour)


def print_firing(found: Mapping[str, Any]) -> None:
    """Print the job that a request made, or why there is none."""
    if found["job"] is None:
        echo(f"skipped: {found['skipped']}")
    else:
        echo(f"job {found['job']['id']}; its output: everwhen logs -f {found['job']['id']}")
    print_warnings(found)


def print_warnings(found: Mapping[str, Any]) -> None:
    """Print what a request exceeds, and what nobody has approved; a service of release 0.2 does not say."""
    for warning in found.get("warnings", ()):
        secho(f"warning: {warning}", err=True, fg="yellow")


# Instants as the distance from now; `instants` has the rest.


_UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))


def away(text: str | None) -> str:
    """Format as `in 5m`, `3h ago`: the one or two largest units."""
    if text is None:
        return ""
    seconds = (datetime.fromisoformat(text) - now()).total_seconds()
    fields = span_text(abs(seconds))
    return f"in {fields}" if seconds >= 0 else f"{fields} ago"


def until(text: str) -> str:
    """Format an instant to come as `in 5m`; one that has come is due now."""
    return away(text) if datetime.fromisoformat(text) > now() else "due now"


def span_text(seconds: float) -> str:
    """Format as `1h 5m`, `0.3s`."""
    if seconds < 10:
        return f"{seconds:.1f}s"
    found, left = [], int(seconds)
    for size, unit in _UNITS:
        count, left = divmod(left, size)
        if count:
            found.append(f"{count}{unit}")
    return " ".join(found[:2])


def seconds_between(start: str, end: str | None) -> float:
    """Return the seconds from one instant of a response to another, or to now."""
    last = now() if end is None else datetime.fromisoformat(end)
    return (last - datetime.fromisoformat(start)).total_seconds()
