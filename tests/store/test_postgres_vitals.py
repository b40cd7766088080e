"""Counts on PostgreSQL while transactions are open: rows that appear late are counted, and none is counted twice."""

from __future__ import annotations

import psycopg

from everwhen.model.schedule import Target
from everwhen.operations.jobs import trigger_schedule
from everwhen.store.opened import store_of
from everwhen.testing import ManualClock
from everwhen.wiring import open_stack
from tests.submissions import Submission, create_schedule

_COPY = """
INSERT INTO jobs SELECT (jsonb_populate_record(jobs, jsonb_build_object(
    'row_id', nextval(pg_get_serial_sequence('jobs', 'row_id')), 'job_id', 'copy', 'number', 1000))).*
FROM jobs LIMIT 1"""


def test_a_row_that_was_drawn_early_and_committed_late_is_counted_once(postgres_url: str) -> None:
    stack = open_stack(postgres_url, clock=ManualClock())
    try:
        runtime, vitals = stack.runtime, store_of(stack.runtime).vitals
        create_schedule(
            runtime, Submission("a", {"every": "1h", "if_running": "allow"}, Target("command", "{}"))
        )
        trigger_schedule(runtime, "a")
        mark = vitals.mark()
        with psycopg.connect(postgres_url) as other:
            other.execute(_COPY)  # it has its number, and nobody sees it yet
            trigger_schedule(runtime, "a")
            first = vitals.tally(mark)
            assert first.fired == {}  # the row behind the gap waits for the one in it
            other.commit()
        second = vitals.tally(first.mark)
        third = vitals.tally(second.mark)
        assert second.fired == {"manual": 2}
        assert third.fired == {}
    finally:
        stack.close()
