"""Text for people on stdout: tables and panels, coloured only on a terminal. Programs get JSON instead.

Every cell and line is a `Text` of this module, which escapes control characters (see `terminal`). Rich renders them.
Without colours, plain letters that fit are rendered here in the same way, because loading rich takes time.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

import click

from everwhen.cli.terminal import echo, escape_controls

if TYPE_CHECKING:
    from rich import text
    from rich.console import Console

WIDTH = 200  # where there is no terminal
# Letters that take one place each, wherever they are shown.
_PLAIN = re.compile("[ -~\u00a1-\u00ac\u00ae-\u02ff–—…→×]*")

STATUS_STYLES = {
    "active": "green",
    "succeeded": "green",
    "running": "cyan",
    "queued": "blue",
    "paused": "yellow",
    "cancelled": "yellow",
    "done": "dim",
    "invalid": "red",
    "dead": "red",
    "failed": "red",
    "timed_out": "red",
    "lost": "red",
}


def json_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--json`, as on every command."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")(command)


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
    """Print one line."""
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


def status_text(status: str) -> Text:
    return Text(status, STATUS_STYLES.get(status, ""))
