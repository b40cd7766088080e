"""Prepared databases for flows: inspected from outside, and restored to the same state for every run.

`image` is the whole content, read without the store. A run that is rolled back leaves the image from before; a run
that was committed leaves the image that the flow leaves when no fault happens.
"""

from __future__ import annotations

import secrets
import shutil
import sqlite3
import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any, LiteralString, Protocol
from unittest import mock

import psycopg

from everwhen.errors import SchedulerError, StoreError
from everwhen.testing.manual import ManualClock
from everwhen.wiring import open_stack
from tests.boundaries.flows import Flow
from tests.boundaries.process import Arrivals, Process
from tests.boundaries.tap import Meet, tapped
from tests.conformance.stores import Site
from tests.conformance.tenant import START
from tests.servers.everwhen_database import PostgresDatabase

Image = dict[str, list[tuple[Any, ...]]]


class Bench(Protocol):
    """A prepared database: `lay_out` provides it as it was prepared, and `enter` opens a process on it."""

    flow: Flow
    moment: datetime

    def lay_out(self) -> Site: ...

    def enter(self, site: Site) -> Run: ...

    def begin(self) -> Run: ...


class Run:
    """One run of a flow. `known` is what its preparation returned; the first node has it, others rescue its jobs."""

    def __init__(self, flow: Flow, runtime: Process, known: Any) -> None:
        self.flow = flow
        self.runtime = runtime
        self.known = known
        self._others: list[Process] = []
        self._acts = 0

    def act(self, meet: Meet | None = None) -> None:
        """Run the flow; random draws are the same in every run."""
        self._acts += 1
        with drawn(self._acts):
            if meet is None:
                self.flow.act(self.runtime, self.known)
                return
            with tapped(meet):
                self.flow.act(self.runtime, self.known)

    def image(self) -> Image:
        return image_of(self.runtime.site.url)

    def another_node(self) -> Process:
        self._others.append(self.runtime.other(f"node-{len(self._others) + 2}"))
        return self._others[-1]

    def close(self) -> None:
        for runtime in (*self._others, self.runtime):
            runtime.close()


# Longer than a lease and every deadline.
PAUSES = ("2m", "20m")


def recover(run: Run, *runtimes: Process, pauses: Sequence[str] = PAUSES) -> None:
    """Let time pass while the remaining nodes work, and check that in the end every slot has exactly one entry, and
    that what watchers owe has arrived."""
    for runtime in runtimes:
        runtime.resume_system()
    for pause in pauses:
        run.runtime.clock.advance(pause)
        for runtime in runtimes:
            runtime.expectations.step(runtime.node)  # before a heartbeat, as a node does it
            runtime.beat()
            runtime.runtime.slots.put_orphans_back(runtime.now, node=runtime.node, held=())
            runtime.rescue()
            runtime.runtime.slots.end_overdue(runtime.now)
            runtime.step()
            runtime.run()
            if run.flow.prove is not None:
                runtime.watch()
    if run.flow.prove is not None:
        run.flow.prove(runtimes[0])
    for runtime in runtimes:
        assert runtime.check().is_clean, runtime.check()
        assert runtime.plans_not_on_record() == []
    assert [job.job_id for job in runtimes[0].jobs() if job.status == "running"] == []


def ask_again(run: Run) -> None:
    """Send the same request again, accept the answer that it was done already, and continue."""
    try:
        run.act()
    except SchedulerError as error:
        assert not isinstance(error, StoreError)
    recover(run, run.runtime)
    run.close()


@contextmanager
def drawn(seed: int) -> Iterator[None]:
    luck = Random(seed)
    with (
        mock.patch.object(secrets, "token_hex", lambda count=16: luck.randbytes(count).hex()),
        mock.patch.object(secrets, "token_urlsafe", lambda count=16: luck.randbytes(count).hex()),
        mock.patch.object(secrets, "randbits", luck.getrandbits),
        mock.patch.object(uuid, "uuid4", lambda: uuid.UUID(int=luck.getrandbits(128), version=4)),
    ):
        yield


# -- SQLite: one file is prepared, and copied for every run --


class SqliteBench:
    def __init__(self, folder: Path, flow: Flow) -> None:
        self.flow = flow
        self._folder = folder
        self._count = 0
        self._prepared = folder / "prepared.db"
        runtime = Process(site_of(self._prepared), ManualClock(START))
        with drawn(0):
            self._known = flow.prepare(runtime)
        self.moment, self._arrivals = runtime.clock.moment, runtime.arrivals
        runtime.close()

    def begin(self) -> Run:
        return self.enter(self.lay_out())

    def lay_out(self) -> Site:
        path = self._new_path()
        shutil.copyfile(self._prepared, path)
        return site_of(path)

    def enter(self, site: Site, node: str = "node-1", arrivals: Arrivals | None = None) -> Run:
        """Open a process on that file; `arrivals` is what has arrived before."""
        found = (arrivals or self._arrivals).copy()
        return Run(self.flow, Process(site, ManualClock(self.moment), node, found), self._known)

    def copy_files(self, run: Run) -> Path:
        """Return a copy of the files as a process leaves them that is killed now."""
        path = self._new_path()
        source = run.runtime.site.url.removeprefix("sqlite:///")
        for suffix in ("", "-wal"):
            if Path(source + suffix).exists():
                shutil.copyfile(source + suffix, f"{path}{suffix}")
        return path

    def _new_path(self) -> Path:
        self._count += 1
        return self._folder / f"{self._count}.db"


def site_of(path: Path) -> Site:
    url = f"sqlite:///{path}"
    return Site(url, lambda clock: open_stack(url, clock=clock), lambda: None)


# -- PostgreSQL: one database is prepared and kept as a template, and restored for every run --

_KEEP = """
DROP SCHEMA IF EXISTS kept CASCADE;
CREATE SCHEMA kept;
DO $$ DECLARE name text; BEGIN
    FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'everwhen_migrations'
    LOOP EXECUTE format('CREATE TABLE kept.%I AS TABLE public.%I', name, name); END LOOP;
END $$"""
_PUT_BACK = """
DO $$ DECLARE name text; columns text; BEGIN
    FOR name, columns IN
        SELECT table_name, string_agg(quote_ident(column_name), ', ') FROM information_schema.columns
        WHERE table_schema = 'public' AND is_generated = 'NEVER'
            AND table_name IN (SELECT tablename FROM pg_tables WHERE schemaname = 'kept')
        GROUP BY table_name
    LOOP
        EXECUTE format('DELETE FROM public.%I', name);
        EXECUTE format(
            'INSERT INTO public.%I (%s) OVERRIDING SYSTEM VALUE SELECT %s FROM kept.%I', name, columns, columns, name
        );
    END LOOP;
END $$"""


class PostgresBench:
    def __init__(self, database: PostgresDatabase, flow: Flow) -> None:
        self.flow = flow
        url = database.empty()
        self._site = Site(url, lambda clock: open_stack(url, clock=clock), lambda: None)
        runtime = Process(self._site, ManualClock(START))
        with drawn(0):
            self._known = flow.prepare(runtime)
        self.moment, self._arrivals = runtime.clock.moment, runtime.arrivals
        runtime.close()
        self._do(_KEEP)

    def begin(self) -> Run:
        return self.enter(self.lay_out())

    def lay_out(self) -> Site:
        self._do(_PUT_BACK)
        return self._site

    def enter(self, site: Site) -> Run:
        runtime = Process(site, ManualClock(self.moment), arrivals=self._arrivals.copy())
        return Run(self.flow, runtime, self._known)

    def _do(self, statement: LiteralString) -> None:
        with psycopg.connect(self._site.url, autocommit=True) as connection:
            connection.execute(statement)


def wait_for_what_was_cut_off(url: str) -> None:
    """Wait until the server has noticed a lost connection, because only then it rolls back what was open."""
    with psycopg.connect(url, autocommit=True) as connection:
        while connection.execute(_OPEN).fetchall():
            pass


# -- images --


def image_of(url: str) -> Image:
    return _image_on_postgres(url) if url.startswith("postgres") else _image_in_file(url)


def _image_in_file(url: str) -> Image:
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
        tables = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
        return {name: sorted(connection.execute(f'SELECT * FROM "{name}"'), key=repr) for (name,) in tables}


def _image_on_postgres(url: str) -> Image:
    """Return row counts, and the states of schedules and jobs: sequence numbers differ from run to run."""
    with psycopg.connect(url, autocommit=True) as connection:
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1")
        image = {name: connection.execute(f'SELECT count(*) FROM "{name}"').fetchall() for (name,) in tables}
        for table, columns in _STATE.items():
            image[table] = connection.execute(f"SELECT {columns} FROM {table} ORDER BY 1").fetchall()
        return image


_OPEN = """
SELECT 1 FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
    AND state <> 'idle'"""
_STATE = {
    "schedules": "uid, revision, status, next_run_at, held_slot_at, release_at, outstanding, running_jobs, run_count",
    "jobs": "job_id, status, attempt, fence, node, reason, ready_at, released_at",
    "limits": "key, outstanding, running",
    "circuit_breakers": "key, state, failure_count",
    "requests": "request_id, status, job_id, error",
    "nodes": "node, heartbeat_at, stopped_at, lost_at",
    "alerts": "key, state, count",
    "alert_deliveries": "rule, kind, attempts, next_at, delivered_at, given_up_at",
    "webhooks": "webhook_id, types, off_reason, delivery_id IS NULL, attempts, next_at, delivered",
    "event_cursors": "name, fence, node, held_until, failing, failures",
    "subscriptions": "subscriber, cursor > 0, node, held_until, failures",
}
