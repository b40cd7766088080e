"""Copying an installation from one database to another: the protocols of the source and of the target."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    from everwhen.ports.upkeep import Progress

T = TypeVar("T")


class Move(NamedTuple):
    """The mark on a source: which copy is being made, or was made, to which address (shown without its password)."""

    copy_id: str
    to: str
    state: Literal["moving", "moved"]
    at: int


class SourceTable(Protocol):
    """One table of the source, read in the order of its key."""

    name: str
    columns: Sequence[str]
    key: Sequence[str]
    count: int

    def rows(self) -> Generator[tuple[Any, ...], None, None]:
        """Yield every row; texts come as their bytes."""
        ...

    def last_number(self) -> int:
        """Return the highest number that the table ever gave to a row, as far as the database remembers it."""
        ...


class SourceSchema(NamedTuple):
    """The tables to copy, when each step of a migration was applied, and tables of other programs."""

    tables: Sequence[SourceTable]
    migrated: Mapping[tuple[int, str], int]
    foreign: Sequence[str]


class ReplacedText(NamedTuple):
    """A text with characters that the target cannot hold (NUL, invalid UTF-8), each replaced by U+FFFD."""

    table: str
    key: str
    column: str


class Received(NamedTuple):
    """The rows of this copy in the target. `is_new` is False where the copy had arrived earlier."""

    rows: Mapping[str, int]
    replaced: Sequence[ReplacedText]
    replaced_count: int
    foreign: Sequence[str]
    is_new: bool


class CopySource(Protocol):
    """The database to move away from. Each method is one transaction under the lock of its writers."""

    def move(self) -> Move | None:
        """Return the mark; None where the database was never moved."""
        ...

    def begin_move(self, move: Move, *, now: int, silent: int) -> None:
        """Mark the database and close it for every other writer.

        Raises CopyError while a node is alive: one that has not signed off and whose last heartbeat is younger than
        `silent`.
        """
        ...

    def hand_over(self, move: Move, deliver: Callable[[SourceSchema], T]) -> T:
        """Call `deliver` with the tables while no other process can write; then mark the database as moved."""
        ...

    def forget_move(self) -> None:
        """Remove the mark and open the database for writers again."""
        ...


class CopyTarget(Protocol):
    """The database to move to."""

    def receive(self, move: Move, source: SourceSchema, progress: Progress) -> Received:
        """Write every row and the id of the copy, in one transaction.

        First checks, with every table locked, whether this copy exists already. Raises CopyError where the target has
        other rows or a row cannot be written, and UncertainCopyError where it is unknown whether the commit took
        place.
        """
        ...
