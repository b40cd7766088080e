"""`everwhen bench`: measure the speed on this machine."""

from __future__ import annotations

import platform
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import click

from everwhen.cli.configuration import database_option_with
from everwhen.cli.screen import Answers, ProgressBar, answering, print_table
from everwhen.cli.terminal import echo
from everwhen.errors import shown_url
from everwhen.operations.bench import Figure, bench
from everwhen.runtime import Runtime
from everwhen.wiring import open_stack


@click.command(name="bench")
@database_option_with(
    "Use this empty database, sqlite:///FILE or postgresql://…, instead of a new SQLite file."
)
@click.option(
    "--count",
    default=10_000,
    show_default=True,
    type=click.IntRange(100, 1_000_000),
    help="Create this many schedules.",
)
@answering
def command(database: str | None, count: int) -> Answers:
    """Measure creating, firing, running and reading, on a new SQLite file, or on an empty --database.

    Every commit is durable, as in production. For the comparison with other schedulers run `make bench` in the
    sources.
    """
    with _runtime(database) as runtime, ProgressBar("measuring") as bar:
        found = list(bench(runtime, count, bar.show))
    where = "a new SQLite file" if database is None else shown_url(database)
    figures = [_figure_to_json(figure) for figure in found]
    yield {"database": where, "python": platform.python_version(), "figures": figures}
    echo(f"{where}, Python {platform.python_version()}")
    echo()
    rows = [(f.what, f"{f.count:,}", f"{f.seconds:.2f} s", f"{f.per_second:,.0f}") for f in found]
    print_table(("", ">how many", ">took", ">a second"), rows)


def _figure_to_json(figure: Figure) -> dict[str, object]:
    seconds, per_second = round(figure.seconds, 4), round(figure.per_second, 1)
    return {"what": figure.what, "count": figure.count, "seconds": seconds, "per_second": per_second}


@contextmanager
def _runtime(database: str | None) -> Iterator[Runtime]:
    with tempfile.TemporaryDirectory(prefix="everwhen-bench-") as folder:
        stack = open_stack(database or f"sqlite:///{folder}/bench.db")
        try:
            yield stack.runtime
        finally:
            stack.close()
