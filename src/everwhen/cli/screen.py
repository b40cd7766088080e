"""Text for people on stdout: tables and panels, coloured only on a terminal. Programs get JSON instead.

Every cell and line is a `Text` of this module, which escapes control characters (see `terminal`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self

import click
from rich import box, text
from rich.console import Console
from rich.table import Table

from everwhen.cli.terminal import echo, escape_controls

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
    return click.option("--json", "as_json", is_flag=True, help="JSON instead of text.")(command)


@contextmanager
def until_interrupted() -> Iterator[None]:
    """End the block normally on Ctrl-C, which is how a user ends following."""
    try:
        yield
    except KeyboardInterrupt:
        return


class Text(text.Text):
    """A cell or a line with styles, whose control characters are escaped; a block keeps its line breaks."""

    def __init__(self, content: str = "", style: str = "", *, is_block: bool = False, **more: Any) -> None:
        super().__init__(escape_controls(content, keep="\n" if is_block else ""), style, **more)

    @classmethod
    def assemble(cls, *parts: str | text.Text | tuple[str, str], **more: Any) -> Self:  # type: ignore[override]
        """Join plain parts, styled parts (text, style) and other texts."""
        found = cls(**more)
        for part in parts:
            found.append(*part) if isinstance(part, tuple) else found.append(part)
        return found

    def append(self, content: text.Text | str, style: Any = None) -> Self:
        super().append(escape_controls(content) if isinstance(content, str) else content, style)
        return self


def print_text(content: Text) -> None:
    """Print one line."""
    _console().print(content)


def _console() -> Console:
    """Return a console on stdout: as wide as the terminal, or 200 columns where there is none."""
    found = Console(highlight=False, emoji=False, markup=False)
    return found if found.is_terminal else Console(highlight=False, emoji=False, markup=False, width=200)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str | Text]], *, empty: str = "none") -> None:
    """Print a table without frames.

    A column whose name begins with `>` is aligned to the right. Plain cells may have several lines.
    """
    table = Table(
        box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, show_header=any(columns), header_style="bold"
    )
    for column in columns:
        right = column.startswith(">")
        table.add_column(
            column.removeprefix(">"), justify="right" if right else "left", overflow="fold", no_wrap=right
        )
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else Text(cell, is_block=True) for cell in row))
    if not table.row_count:
        echo(empty)
        return
    _console().print(table)


def status_text(status: str) -> Text:
    return Text(status, STATUS_STYLES.get(status, ""))
