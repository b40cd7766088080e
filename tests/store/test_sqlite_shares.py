"""A claim on SQLite finds the jobs of an owner behind those of another without reading them."""

from __future__ import annotations

import sqlite3

from everwhen.model.share import Share, WorkersInUse
from everwhen.store.ready import ShareWindow, next_ready_of_others
from everwhen.store.records import ReadyQuery
from everwhen.store.sqlite.transaction import SqliteSnapshot
from everwhen.wiring import open_stack

_HERD = """
WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 20003)
INSERT INTO jobs (job_id, uid, schedule_id, revision, number, retry, origin, status, slot_at, due_at, is_ready,
    is_counted, queue, created_at, ready_at, share)
SELECT 'job-' || n, 'u' || n, 'herd', 1, 1, 0, 'manual', 'queued', 1, 1, 1, 1, 'default', 1, 1000 + n,
    CASE WHEN n > 20000 THEN '["bob", null]' ELSE '["ann", null]' END FROM numbers"""
STEP = 100


def test_a_claim_reads_the_first_jobs_of_each_share_alone() -> None:
    stack, steps = open_stack("sqlite://"), 0

    def count() -> None:
        nonlocal steps
        steps += STEP

    def look(connection: sqlite3.Connection) -> tuple[list[str], int | None]:
        connection.execute(_HERD)
        connection.set_progress_handler(count, STEP)
        tx = SqliteSnapshot(connection)
        full = WorkersInUse({Share("ann", None): 5}, 5)
        shares = [share for share, _ in tx.ready_shares(ReadyQuery(2_000, 10), "")]
        jobs = tx.ready_jobs(ReadyQuery(50_000, 2, shares=shares))
        assert [job.job_id for job in jobs] == ["job-1", "job-2", "job-20001", "job-20002"]
        ready_at = next_ready_of_others(tx, 2_000, None, full, ShareWindow())
        connection.set_progress_handler(None, 0)
        return shares, ready_at

    shares, ready_at = stack.database.write(0, look)
    stack.close()
    assert shares == ['["ann", null]', '["bob", null]']
    assert ready_at == 21_001
    assert steps < 5_000
