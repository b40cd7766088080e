"""A fault at any statement of a restore: the database is the old one or the whole new one, and the next one succeeds.

In the short form faults happen at the beginnings and the ends of transactions, and on SQLite the disk fills up at
every seventh statement; in the long form every fault happens at every statement.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from everwhen.testing.manual import ManualClock
from everwhen.wiring import restore_database
from tests.boundaries.benches import (
    Bench,
    PostgresBench,
    SqliteBench,
    drawn,
    image_of,
    recover,
    wait_for_what_was_cut_off,
)
from tests.boundaries.crowd import crowd
from tests.boundaries.faults import (
    DEADLOCK,
    DISK_FULL,
    SERIALIZATION,
    Strike,
    cut_the_connection,
    fail_to_write,
    fill_the_disk,
    keep_it_locked,
    refuse,
)
from tests.boundaries.flows import Flow
from tests.boundaries.process import Process
from tests.boundaries.watcher_flows import asked, make_webhook, notified, notifying, refusing
from tests.boundaries.whole_databases import Where, statements_of, strike_once
from tests.conformance.stores import Site
from tests.restore.places import Place
from tests.servers.everwhen_database import PostgresDatabase

STRIDE = 7


def leave_everything_pending(backup: Path, process: Process) -> None:
    """Prepare whatever can be open, back it up, and go on until the process ends."""
    crowd(process)
    _, person = asked(process)
    make_webhook(process, person)
    process.listener.begin()
    process.subscription.subscribe()
    notified(process)
    refusing(notifying)(process, None)
    Place(process.site.url, backup, process.clock).back_up(process)
    process.wait_and_step("1m")
    process.run()
    process.watch()
    process.runtime.slots.sign_off_node(process.now, node=process.node)
    process.wait("5m")


def restoring(backup: Path) -> Flow:
    return Flow("restore", partial(leave_everything_pending, backup), lambda _runtime, _known: None)


class Course:
    """A restore without faults: its statements, and the images of the database before and after it."""

    def __init__(self, bench: Bench, backup: Path) -> None:
        self.bench, self._backup = bench, backup
        site = bench.lay_out()
        self.before = image_of(site.url)
        self.boundaries = statements_of(partial(self.restore, site))
        self.after = image_of(site.url)
        assert self.before != self.after

    def restore(self, site: Site) -> None:
        with drawn(1):
            restore_database(site.url, self._backup, clock=ManualClock(self.bench.moment))

    def statements(self, *beginnings: str) -> list[Where]:
        """Return where statements with these beginnings stand; every statement where none is given."""
        return [
            (one.number, one.side)
            for one in self.boundaries
            if one.side == "before" and one.statement.startswith(beginnings or ("",))
        ]

    def strike(self, where: Where, strike: Strike, *, is_committed: bool = False) -> None:
        """Let the fault happen, look at what is left, restore again, and let a node go on."""
        site = self.bench.lay_out()
        error = strike_once(partial(self.restore, site), where, strike)
        if strike is cut_the_connection:
            wait_for_what_was_cut_off(site.url)
        assert image_of(site.url) == (self.after if error is None or is_committed else self.before)
        self.restore(site)
        run = self.bench.enter(site)
        recover(run, run.runtime)
        run.close()


@pytest.fixture
def on_sqlite(folder: Path) -> Course:
    return Course(SqliteBench(folder, restoring(folder / "backup")), folder / "backup")


@pytest.fixture
def on_postgres(everwhen_on_18: PostgresDatabase, tmp_path: Path) -> Course:
    bench = PostgresBench(everwhen_on_18, restoring(tmp_path / "backup"))
    return Course(bench, tmp_path / "backup")


def test_a_fault_in_a_restore_leaves_one_of_two_files_whole(on_sqlite: Course) -> None:
    for where in on_sqlite.statements("BEGIN"):
        on_sqlite.strike(where, keep_it_locked)
    for where in on_sqlite.statements("COMMIT"):
        on_sqlite.strike(where, fail_to_write)
    for where in on_sqlite.statements()[::STRIDE]:
        on_sqlite.strike(where, fill_the_disk)


def test_no_restore_leaves_a_copy_behind(on_sqlite: Course, folder: Path) -> None:
    files = {path.name for path in folder.iterdir()}
    for where in on_sqlite.statements("COMMIT"):
        on_sqlite.strike(where, fail_to_write)
    new = {path.name for path in folder.iterdir()} - files
    assert [name for name in new if not name.partition(".")[0].isdigit()] == []


def test_a_fault_at_the_commit_of_a_restore_leaves_one_of_two_databases_whole(on_postgres: Course) -> None:
    (commit,) = on_postgres.statements("COMMIT")
    on_postgres.strike(commit, cut_the_connection)
    on_postgres.strike(commit, refuse(SERIALIZATION))
    number, _ = commit
    on_postgres.strike((number, "after"), cut_the_connection, is_committed=True)


@pytest.mark.long
def test_every_fault_at_every_statement_of_a_restore_on_sqlite(on_sqlite: Course) -> None:
    for where in on_sqlite.statements():
        for strike in (fill_the_disk, keep_it_locked, fail_to_write):
            on_sqlite.strike(where, strike)


@pytest.mark.long
def test_every_fault_at_every_statement_of_a_restore_on_postgresql(on_postgres: Course) -> None:
    for where in on_postgres.statements():
        on_postgres.strike(where, cut_the_connection)
        for state in (SERIALIZATION, DEADLOCK, DISK_FULL):
            on_postgres.strike(where, refuse(state))
