"""The copy of an installation from one database to another: the mark on its source, and what the target received."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple


class Move(NamedTuple):
    """The mark on a source: which copy is being made, or was made, to which address (shown without its password)."""

    copy_id: str
    to: str
    state: Literal["moving", "moved"]
    at: int


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
