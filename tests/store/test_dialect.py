"""A statement is written once, and each driver gets it in its own words."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from importlib import import_module
from pkgutil import iter_modules

import pytest

from everwhen import store
from everwhen.store.dialect import Insert, Statement, composed
from everwhen.store.lanes import Lane
from everwhen.store.sqlite import transaction
from everwhen.store.sqlite.queries import SqliteQueries
from everwhen.wiring import open_stack

MODULES = (
    *(
        import_module(f"everwhen.store.{found.name}")
        for found in iter_modules(store.__path__)
        if not found.ispkg
    ),
    transaction,
)

ROWS_OF_JSON = (
    "(SELECT json_extract(value, '$[0]') AS a, json_extract(value, '$[1]') AS b FROM json_each(:batch))"
)


@pytest.mark.parametrize(
    ("written", "on_sqlite", "on_postgres"),
    [
        ("LIMIT :limit", "LIMIT :limit", "LIMIT %(limit)s"),
        ("at < :now::instant", "at < :now", "at < %(now)s::timestamptz"),
        (":owner::text IS NULL", ":owner IS NULL", "%(owner)s::text IS NULL"),
        ("id < :before::integer", "id < :before", "id < %(before)s::bigint"),
        (
            "uid = ANY(:uids::texts)",
            "uid IN (SELECT value FROM json_each(:uids))",
            "uid = ANY(%(uids)s::text[])",
        ),
        (
            "FROM unnest(:uids::texts) AS v(uid)",
            "FROM (SELECT value AS uid FROM json_each(:uids)) AS v",
            "FROM unnest(%(uids)s::text[]) AS v(uid)",
        ),
        (
            "FROM batch AS v(a, b)",
            f"FROM {ROWS_OF_JSON} AS v",
            "FROM unnest(%(each_a)s, %(each_b)s) AS v(a, b)",
        ),
        ("strpos(queue, '@')", "instr(queue, '@')", "strpos(queue, '@')"),
        ("greatest(a, least(b, c))", "max(a, min(b, c))", "greatest(a, least(b, c))"),
        (
            "number_in(detail, 'first')",
            "json_extract(detail, '$.first')",
            "(detail->>'first')::bigint",
        ),
        ("jobs INDEXED BY idx_jobs_ready WHERE", "jobs INDEXED BY idx_jobs_ready WHERE", "jobs WHERE"),
    ],
)
def test_each_driver_gets_its_own_text(written: str, on_sqlite: str, on_postgres: str) -> None:
    statement = Statement(written)
    assert statement.sqlite == on_sqlite
    assert statement.postgres.decode() == on_postgres


def test_a_cast_is_no_parameter() -> None:
    statement = Statement(postgres="SELECT xid::text::bigint WHERE xid < :since::bigint::text::xid8")
    assert statement.postgres == b"SELECT xid::text::bigint WHERE xid < %(since)s::bigint::text::xid8"
    assert statement.kinds == ()


def test_a_statement_knows_what_has_to_be_converted() -> None:
    statement = Statement("UPDATE a SET at = :now::instant FROM batch AS v(x) WHERE b = ANY(:keys::texts)")
    assert statement.lists == ("keys", "batch")
    assert statement.kinds == (("now", "instant"), ("keys", "texts"))
    assert statement.columns == ("x",)


def test_only_postgresql_locks_rows() -> None:
    statement = Statement("SELECT 1 FROM limits")
    assert statement.locking.sqlite == statement.skipping.sqlite == statement.sqlite
    assert statement.locking.postgres.endswith(b"FOR UPDATE")
    assert statement.skipping.postgres.endswith(b"FOR UPDATE SKIP LOCKED")
    assert statement.locking is statement.locking


def test_a_composed_text_is_rendered_once() -> None:
    assert composed("SELECT :a") is composed("SELECT :a")


def test_an_insert_says_what_happens_to_a_row_that_exists() -> None:
    assert (
        Insert("a", ("k", "v"), replaces="k").on_conflict == " ON CONFLICT (k) DO UPDATE SET v = excluded.v"
    )
    assert Insert("a", ("k", "v"), unless="k").on_conflict == " ON CONFLICT (k) DO NOTHING"
    assert Insert("a", ("k", "v")).on_conflict == ""


def test_a_nul_does_not_shorten_a_text_of_a_list() -> None:
    listed = Statement("SELECT text FROM unnest(:texts::texts) AS v(text)")
    rows = Statement("SELECT text, number FROM batch AS v(text, number)")
    with closing(sqlite3.connect(":memory:")) as connection:
        queries = SqliteQueries(connection)
        assert queries.rows(listed, texts=["a\0b", "é\\u0000"]) == [("a\ufffdb",), ("é\\u0000",)]
        assert queries.rows(rows, batch=[("a\0b", 1), (None, 2)]) == [("a\ufffdb", 1), (None, 2)]


# -- what SQLite does with them --

# One pass is what they are for: lists, counts and histories of everything, and searches that the comments call rare.
PASSES = {
    *("_REACHED", "_OF_SOURCE", "_FROM_BEFORE", "_USERS_OF_POLICY", "_ALL_OUTSTANDING", "_UNRELEASED"),
    *("_QUEUED_CATCH_UP", "_UIDS", "_ALL_JOBS", "_SCHEDULE_COUNTS", "JOB_COUNTS", "_OUTSTANDING"),
    *("_SCHEDULES", "_GATHERED", "_JOBS_SINCE"),
    *(
        "_CALLED",
        "_BEGINNING",
    ),  # a name that a person typed, or a shell completes; never on the way of a slot
    *(
        "_RESERVING",
        "_NOT_SETTLED",
    ),  # by the janitor, beside the writers; the second only after a worker of 0.1
    *("_NAMED", "_DELETED", "_DELETED_KEYS"),  # a name that a person searches the audit for
    "_BUDGETS_REACHED",  # by `db check`, which reads the whole ledger
    "_HOLDERS",  # outstanding jobs only, and only while a slot is held and somebody asks for the status
}


def statements() -> Iterator[tuple[str, Statement]]:
    for module in MODULES:
        for name, value in vars(module).items():
            for one in value if isinstance(value, list) else [value]:
                if isinstance(one, Statement):
                    yield name, one


def test_sqlite_passes_over_no_large_table_where_an_index_should_serve() -> None:
    plans: dict[str, list[str]] = {}

    def explain(connection: sqlite3.Connection) -> None:
        for name, statement in statements():
            names = set(re.findall(r":([a-z_]+)", statement.sqlite))
            values = {one: "[]" if one in statement.lists else 1 for one in names}
            rows = connection.execute(f"EXPLAIN QUERY PLAN {statement.sqlite}", values)
            plans.setdefault(name, []).extend(row[3] for row in rows)

    stack = open_stack("sqlite://")
    stack.database.write(Lane.API, explain)
    stack.close()
    large = re.compile(r"SCAN (jobs|j|schedules|s|audit_events|schedule_revisions|r|job_output)\b")
    passes = {name for name, plan in plans.items() if any(large.match(step) for step in plan)}
    assert passes <= PASSES | {"_UID_OF", "_HAS_OUTPUT"}
    assert len(plans) > 100
