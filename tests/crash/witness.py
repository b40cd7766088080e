"""A witness inside PostgreSQL: every change to a job's place in guard and capacity, in the order in which it happened.

Instants in the ledger cannot prove that a limit was kept: each node's `now` is read before its transaction waits
for locks. What moves the counts of one key, though, holds that key's row until its commit, so the numbers that a
sequence hands out meanwhile are in the order of those commits. Triggers belong to the server: no node knows of them,
and what is rolled back was never seen.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

import psycopg

_INSTALL = """
CREATE TABLE witness (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    guard_key text, capacity_key text, outstanding integer NOT NULL, running integer NOT NULL);
CREATE FUNCTION see_new() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO witness (guard_key, capacity_key, outstanding, running)
    SELECT guard_key, capacity_key, count(*), 0 FROM new_jobs GROUP BY guard_key, capacity_key;
    RETURN NULL; END $$;
CREATE FUNCTION see_change() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO witness (guard_key, capacity_key, outstanding, running)
    SELECT n.guard_key, n.capacity_key,
        sum((n.status IN ('queued', 'running'))::int - (o.status IN ('queued', 'running'))::int),
        sum((n.status = 'running')::int - (o.status = 'running')::int)
    FROM new_jobs n JOIN old_jobs o USING (row_id) WHERE n.status <> o.status
    GROUP BY n.guard_key, n.capacity_key;
    RETURN NULL; END $$;
CREATE TRIGGER see_new AFTER INSERT ON jobs REFERENCING NEW TABLE AS new_jobs
    FOR EACH STATEMENT EXECUTE FUNCTION see_new();
CREATE TRIGGER see_change AFTER UPDATE ON jobs REFERENCING OLD TABLE AS old_jobs NEW TABLE AS new_jobs
    FOR EACH STATEMENT EXECUTE FUNCTION see_change();
"""
# One row per transaction and pair of keys: inside a transaction nobody can look.
_SEEN = """
SELECT guard_key, capacity_key, sum(outstanding)::int, sum(running)::int FROM witness
GROUP BY xid, guard_key, capacity_key ORDER BY max(id)"""


@dataclass(slots=True)
class Peaks:
    """The most that any key ever had at once, and what each has now."""

    outstanding: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    running: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    left: dict[str, int] = field(default_factory=lambda: defaultdict(int))


def install_witness(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(_INSTALL)


def succeeded_jobs(url: str) -> int:
    with psycopg.connect(url, autocommit=True) as connection:
        rows = connection.execute("SELECT count(*) FROM jobs WHERE status = 'succeeded'").fetchall()
    return int(rows[0][0])


def witnessed_peaks(url: str) -> Peaks:
    with psycopg.connect(url, autocommit=True) as connection:
        return _replayed(connection.execute(_SEEN))


def _replayed(seen: Iterable[tuple[str | None, str | None, int, int]]) -> Peaks:
    peaks = Peaks()
    for guard_key, capacity_key, outstanding, running in seen:
        if guard_key is not None:
            _move(peaks.left, peaks.outstanding, guard_key, outstanding)
        if capacity_key is not None:
            _move(peaks.left, peaks.running, capacity_key, running)
    return peaks


def _move(left: dict[str, int], peak: dict[str, int], key: str, by: int) -> None:
    left[key] += by
    peak[key] = max(peak[key], left[key])
