"""SQL that is written once, and what differs between the databases.

A statement is written in PostgreSQL's terms with named parameters. A parameter that is not a plain number has its kind
behind it, in the manner of a cast: an instant is a number of microseconds on SQLite and a timestamptz on PostgreSQL,
and a list is JSON on SQLite and an array on PostgreSQL. Every statement is rendered once, for both drivers:

| written | SQLite | PostgreSQL |
|---|---|---|
| `:limit` | `:limit` | `%(limit)s` |
| `:now::instant`, `:owner::text` | `:now`, `:owner` | `%(now)s::timestamptz`, `%(owner)s::text` |
| `uid = ANY(:uids::texts)` | `uid IN (SELECT value FROM json_each(:uids))` | `uid = ANY(%(uids)s::text[])` |
| `unnest(:uids::texts) AS v(uid)` | `(SELECT value AS uid FROM json_each(:uids)) AS v` | `unnest(…) AS v(uid)` |
| `batch AS v(row_id, fence)` | the same for a list of rows | `unnest(…, …) AS v(row_id, fence)` |
| `strpos`, `greatest`, `least` | `instr`, `max`, `min`: no argument may be NULL | the same |
| `number_in(detail, 'first')` | `json_extract(detail, '$.first')` | `(detail->>'first')::bigint` |
| `jobs INDEXED BY idx_jobs_outstanding` | the same | `jobs` |

Where the databases need different statements, `Statement(sqlite=…, postgres=…)` has both.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, TypeVar

from everwhen.store.records import Row

R = TypeVar("R")

EARLIEST = -(1 << 55)  # an instant before every other: the eleventh century before Christ

_PARAMETER = re.compile(r"(?<!:):([a-z_]+)(?:::(texts|text|instants|instant|integers|integer)\b)?")
_CASTS = {
    "text": "::text",
    "texts": "::text[]",
    "instant": "::timestamptz",
    "instants": "::timestamptz[]",
    "integer": "::bigint",
    "integers": "::bigint[]",
}
_LISTS = ("texts", "instants", "integers")
_BATCH = re.compile(r"\bbatch AS (\w+)\(([\w, ]+)\)")
_NUMBER_IN = re.compile(r"\bnumber_in\((\w+), '(\w+)'\)")
_ON_SQLITE = (
    (re.compile(r"= ANY\(:([a-z_]+)::\w+\)"), r"IN (SELECT value FROM json_each(:\1))"),
    (
        re.compile(r"\bunnest\(:([a-z_]+)::\w+\) AS (\w+)\((\w+)\)"),
        r"(SELECT value AS \3 FROM json_each(:\1)) AS \2",
    ),
    (_NUMBER_IN, r"json_extract(\1, '$.\2')"),
    (re.compile(r"\bstrpos\("), "instr("),
    (re.compile(r"\bgreatest\("), "max("),
    (re.compile(r"\bleast\("), "min("),
)
_ON_POSTGRES = ((_NUMBER_IN, r"(\1->>'\2')::bigint"), (re.compile(r" INDEXED BY \w+"), ""))


class Statement:
    """One statement for both drivers: its texts, and which parameters have to be converted."""

    def __init__(self, text: str = "", *, sqlite: str = "", postgres: str = "") -> None:
        self._on_sqlite, self._on_postgres = sqlite or text, postgres or text

    @cached_property
    def sqlite(self) -> str:
        return _render_sqlite(self._on_sqlite)

    @cached_property
    def postgres(self) -> bytes:
        return _render_postgres(self._on_postgres).encode()

    @cached_property
    def lists(self) -> tuple[str, ...]:
        """Return the parameters that are JSON on SQLite."""
        found = dict.fromkeys(name for name, kind in _PARAMETER.findall(self._on_sqlite) if kind in _LISTS)
        return (*found, "batch") if _BATCH.search(self._on_sqlite) else tuple(found)

    @cached_property
    def kinds(self) -> tuple[tuple[str, str], ...]:
        """Return the parameters that are converted for PostgreSQL, with their kinds."""
        found = _PARAMETER.findall(self._on_postgres)
        return tuple({name: kind for name, kind in found if kind and kind != "integer"}.items())

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Return the columns of the batch that PostgreSQL gets as arrays."""
        batch = _BATCH.search(self._on_postgres)
        return tuple(batch[2].split(", ")) if batch else ()

    @cached_property
    def locking(self) -> Statement:
        """Return the same statement, which also locks the rows that it reads where transactions run concurrently."""
        return self._followed_by(" FOR UPDATE")

    @cached_property
    def skipping(self) -> Statement:
        """Return the same statement, which locks the rows that it reads, without those that are locked already."""
        return self._followed_by(" FOR UPDATE SKIP LOCKED")

    def _followed_by(self, clause: str) -> Statement:
        return Statement(sqlite=self._on_sqlite, postgres=self._on_postgres + clause)


@dataclass(frozen=True, eq=False)
class Insert:
    """An INSERT of rows into one table, in their order.

    `sparse`: columns that are often empty, or booleans. `replaces`: a row with the same value of that column is
    overwritten. `unless`: nothing is inserted where a row has the same value of that column (of any unique key: "").
    """

    table: str
    columns: tuple[str, ...]
    sparse: tuple[str, ...] = ()
    replaces: str | None = None
    unless: str | None = None

    @cached_property
    def on_conflict(self) -> str:
        if self.replaces is not None:
            others = [name for name in self.columns if name != self.replaces]
            changes = ", ".join(f"{name} = excluded.{name}" for name in others)
            return f" ON CONFLICT ({self.replaces}) DO UPDATE SET {changes}"
        if self.unless is not None:
            return f" ON CONFLICT {f'({self.unless})' if self.unless else ''} DO NOTHING"
        return ""


@lru_cache(maxsize=512)
def composed(text: str) -> Statement:
    """Return the statement of a text that is put together for a request: they are few, and each is rendered once."""
    return Statement(text)


def _render_sqlite(text: str) -> str:
    text = _BATCH.sub(_json_rows, text)
    for pattern, replacement in _ON_SQLITE:
        text = pattern.sub(replacement, text)
    return _PARAMETER.sub(r":\1", text)


def _json_rows(batch: re.Match[str]) -> str:
    columns = enumerate(batch[2].split(", "))
    values = ", ".join(f"json_extract(value, '$[{number}]') AS {name}" for number, name in columns)
    return f"(SELECT {values} FROM json_each(:batch)) AS {batch[1]}"


def _render_postgres(text: str) -> str:
    for pattern, replacement in _ON_POSTGRES:
        text = pattern.sub(replacement, text)
    text = _PARAMETER.sub(lambda found: f"%({found[1]})s{_CASTS.get(found[2], '')}", text)
    return _BATCH.sub(_arrays, text)


def _arrays(batch: re.Match[str]) -> str:
    arrays = ", ".join(f"%(each_{name})s" for name in batch[2].split(", "))
    return f"unnest({arrays}) AS {batch[1]}({batch[2]})"


# Text that any database can store: programs may print anything, and no run may be lost because of it.


def storable(text: str) -> str:
    """Return the text with NUL, which PostgreSQL refuses, and lone surrogates, which are not valid UTF-8, replaced.

    >>> storable("a\\0b")
    'a\\ufffdb'
    """
    if "\0" in text:
        text = text.replace("\0", "\ufffd")
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


# Statements on one connection of any database: what reads and writes of this package are made of.


class DuplicateError(Exception):
    """A row has the unique key of one that exists, or of another in the same batch."""


class Queries(ABC):
    """A connection that runs statements; instants are integers in both directions.

    The parameter `batch` of a statement is a sequence of rows in the order of its columns.
    """

    @abstractmethod
    def rows(self, statement: Statement, **values: Any) -> list[Any]:
        """Return all rows that the statement finds."""

    @abstractmethod
    def stream(self, statement: Statement) -> Iterable[Any]:
        """Return the rows of a whole table, a portion in memory at a time."""

    @abstractmethod
    def run(self, statement: Statement, **values: Any) -> int:
        """Run a statement, and return how many rows it changed."""

    @abstractmethod
    def insert(self, insert: Insert, rows: Sequence[Row]) -> int:
        """Insert rows, and return how many were inserted or overwritten."""

    @abstractmethod
    def insert_unique(self, insert: Insert, rows: Sequence[Row]) -> None:
        """Insert rows; raise DuplicateError where one exists."""

    @abstractmethod
    def update(self, table: str, columns: tuple[str, ...], rows: Sequence[Row]) -> None:
        """Update these columns of rows whose last value is their row_id."""

    @abstractmethod
    def expect_long_statements(self) -> None:
        """Announce that a statement of this transaction may take its time."""

    def rows_to_change(self, statement: Statement, **values: Any) -> list[Any]:
        """Return rows that this transaction may change: where transactions run concurrently, it locks them."""
        return self.rows(statement, **values)

    def expect(self, count: int, changed: int) -> None:
        """Refuse a change of fewer rows than were read, where others may have changed them meanwhile."""
        return

    def many(self, make: Callable[[Any], R], statement: Statement, **values: Any) -> list[R]:
        """Return what `make` makes of each row that the statement finds."""
        return [make(row) for row in self.rows(statement, **values)]

    def one(self, make: Callable[[Any], R], statement: Statement, **values: Any) -> R | None:
        """Return the same of the first row, or None."""
        found = self.rows(statement, **values)
        return make(found[0]) if found else None

    def column(self, statement: Statement, **values: Any) -> list[Any]:
        """Return the first column of all rows."""
        return [row[0] for row in self.rows(statement, **values)]

    def value(self, statement: Statement, **values: Any) -> Any:
        """Return the first column of the first row, or None."""
        found = self.rows(statement, **values)
        return found[0][0] if found else None

    def number(self, statement: Statement, **values: Any) -> int | None:
        """Return the same, which is a number or an instant."""
        found: int | None = self.value(statement, **values)
        return found

    def text(self, statement: Statement, **values: Any) -> str | None:
        """Return the same, which is a text."""
        found: str | None = self.value(statement, **values)
        return found


# Streams of events and of messages, in the order of their commits.
#
# On SQLite there is one writer, so numbers follow the order of commits. On PostgreSQL numbers are assigned before
# their transactions commit, so a larger one may become visible before a smaller one. Every row therefore also has the
# number of its transaction, `xid`. A stream reads rows of transactions older than the oldest one still open, in the
# order (xid, id): nothing can appear before what it has passed. Its cursor is still one number, the id of the last
# row; the xid is looked up. Where retention has deleted that row, the stream continues with the ids above it. After a
# dump and restore into another cluster old rows may have numbers of transactions that this cluster has yet to assign;
# no transaction of its own can have made them visible, so they count as committed.


_COMMITTED = """
(xid < pg_snapshot_xmin(pg_current_snapshot()) OR xid >= pg_snapshot_xmax(pg_current_snapshot()))"""


class Stream:
    """The rows of one table that a reader follows. The primary key; on PostgreSQL the index on (xid, id)."""

    def __init__(self, table: str, columns: str) -> None:
        select = f"SELECT {columns} FROM {table} WHERE"
        above = f"{select} id > :id"
        self._is_there = Statement(f"SELECT 1 FROM {table} WHERE id = :id")
        self._after = Statement(
            sqlite=f"{above} ORDER BY id LIMIT :limit",
            postgres=f"""
{select} (xid, id) > ((SELECT xid FROM {table} WHERE id = :id), :id) AND {_COMMITTED} ORDER BY xid, id LIMIT :limit""",
        )
        self._above = Statement(
            sqlite=f"{above} ORDER BY id LIMIT :limit",
            postgres=f"{above} AND {_COMMITTED} ORDER BY xid, id LIMIT :limit",
        )

    def after(self, queries: Queries, row_id: int, limit: int) -> list[Any]:
        """Return the rows that follow the cursor, which retention may have deleted."""
        statement = self._after if queries.rows(self._is_there, id=row_id) else self._above
        return queries.rows(statement, id=row_id, limit=limit)


def last_committed(table: str) -> str:
    """Return the query of PostgreSQL for the last row that a stream would read."""
    return f"SELECT id FROM {table} WHERE {_COMMITTED} ORDER BY xid DESC, id DESC LIMIT 1"
