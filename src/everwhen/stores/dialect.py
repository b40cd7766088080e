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
from dataclasses import dataclass
from functools import cached_property, lru_cache

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
        """The parameters that are JSON on SQLite."""
        found = dict.fromkeys(name for name, kind in _PARAMETER.findall(self._on_sqlite) if kind in _LISTS)
        return (*found, "batch") if _BATCH.search(self._on_sqlite) else tuple(found)

    @cached_property
    def kinds(self) -> tuple[tuple[str, str], ...]:
        """The parameters that are converted for PostgreSQL, with their kinds."""
        found = _PARAMETER.findall(self._on_postgres)
        return tuple({name: kind for name, kind in found if kind and kind != "integer"}.items())

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns of the batch that PostgreSQL gets as arrays."""
        batch = _BATCH.search(self._on_postgres)
        return tuple(batch[2].split(", ")) if batch else ()

    @cached_property
    def locking(self) -> Statement:
        """The same, which also locks the rows that it reads where transactions run concurrently."""
        return self._followed_by(" FOR UPDATE")

    @cached_property
    def skipping(self) -> Statement:
        """The same, which locks the rows that it reads, without those that another transaction has locked."""
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
