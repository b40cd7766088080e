"""What a person sees on stdout: tables and panels, coloured only on a terminal. Programs get JSON instead."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

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
    """`--json`, on every command."""
    return click.option("--json", "as_json", is_flag=True, help="JSON instead of text.")(command)


def print_json(value: object) -> None:
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def print_json_line(value: object) -> None:
    """One of many that come by and by: a line each, so that a reader knows where it ends."""
    click.echo(json.dumps(value, ensure_ascii=False))


@contextmanager
def until_interrupted() -> Iterator[None]:
    """Ctrl-C is how following ends; it is no mishap."""
    try:
        yield
    except KeyboardInterrupt:
        return


def console() -> Console:
    """On stdout; as wide as the terminal, and wide enough for any line where there is none."""
    found = Console(highlight=False, emoji=False, markup=False)
    return found if found.is_terminal else Console(highlight=False, emoji=False, markup=False, width=200)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str | Text]], *, empty: str = "none") -> None:
    """A table without frames; a column whose name begins with `>` is set to the right."""
    table = Table(
        box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, show_header=any(columns), header_style="bold"
    )
    for column in columns:
        right = column.startswith(">")
        table.add_column(
            column.removeprefix(">"), justify="right" if right else "left", overflow="fold", no_wrap=right
        )
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else Text(cell) for cell in row))
    if not table.row_count:
        click.echo(empty)
        return
    console().print(table)


def status_text(status: str) -> Text:
    return Text(status, STATUS_STYLES.get(status, ""))
