"""A warning for users of a database that `everwhen db copy` moved to another address."""

from __future__ import annotations

from everwhen.cli.terminal import secho
from everwhen.database import Stack, move_of


def warn_of_move(stack: Stack) -> None:
    """Print on stderr where the database is now; print nothing if it was not moved."""
    move = move_of(stack)
    if move is not None:
        word = "was moved to" if move.state == "moved" else "is being moved to"
        secho(
            f"warning: this database {word} {move.to}; you see its state at that time",
            err=True,
            fg="yellow",
        )
