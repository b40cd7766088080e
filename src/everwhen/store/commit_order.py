"""Streams of events and of messages, in the order of their commits (L4).

On SQLite there is one writer, so numbers follow the order of commits. On PostgreSQL numbers are assigned before their
transactions commit, so a larger one may become visible before a smaller one. Every row therefore also has the number of
its transaction, `xid`. A stream reads rows of transactions older than the oldest one still open, in the order (xid,
id): nothing can appear before what it has passed. Its cursor is still one number, the id of the last row; the xid is
looked up. Where retention has deleted that row, the stream continues with the ids above it. After a dump and restore
into another cluster old rows may have numbers of transactions that this cluster has yet to assign; no transaction of
its own can have made them visible, so they count as committed.
"""

from __future__ import annotations

from typing import Any

from everwhen.store.dialect import Queries, Statement

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
