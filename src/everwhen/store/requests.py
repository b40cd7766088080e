"""Requests: rows that programs write inside their own transactions, and that nodes carry out after the commit.

The program's transaction inserts one row and sends one notification, by one statement on the program's connection. It
locks nothing that a node waits for, however long it stays open. A node finds the row when it is committed. The
transaction that carries the request out locks the row (SKIP LOCKED) and records the outcome in it: so several nodes
carry it out once, and a node that dies between two statements leaves the row as it was.

Requests about one schedule are carried out in the order in which they were written: only the first one that waits is
taken. Requests of different transactions are therefore in the order of their commits, as far as that can be observed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from everwhen.errors import ConfigError, SchedulerError, shown
from everwhen.model.changes import Decision
from everwhen.model.events import Event
from everwhen.model.instants import to_datetime
from everwhen.model.request import Request
from everwhen.store.catalogue import Catalogue
from everwhen.store.dialect import Queries, Statement, composed, storable
from everwhen.store.lanes import Lane
from everwhen.store.transaction import Store, StorePart, Transaction

if TYPE_CHECKING:
    import psycopg

    SyncConnection = psycopg.Connection[Any]
    AsyncConnection = psycopg.AsyncConnection[Any]
    CallerConnection = SyncConnection | AsyncConnection

T = TypeVar("T")

_REQUEST = ", ".join(Request._fields)
# The schema that has the table, for connections with another search path; and the database, for connections to
# another one.
_PLACE = Statement(
    sqlite="SELECT 'main', ''",
    postgres="""
SELECT relnamespace::regnamespace::text, current_database()::text FROM pg_class WHERE oid = to_regclass('requests')""",
)
# idx_requests_of_schedule. With :is_doubtful the request makes sense only after another one of the same transaction.
_SUBMIT = """
WITH written AS (
    INSERT INTO {schema}.requests (request_id, action, schedule_id, body, actor, created_at)
    SELECT :request_id::text, :action::text, :schedule_id::text, :body::text, :actor::text, :created_at::instant
    WHERE current_database()::text = :database::text AND (NOT :is_doubtful::boolean OR EXISTS (
        SELECT 1 FROM {schema}.requests WHERE schedule_id = :schedule_id::text AND status = 'waiting'))
    RETURNING 1)
SELECT pg_notify('everwhen', 'requests') FROM written"""
# idx_requests_waiting, from a row on; idx_requests_of_schedule.
WAITING = Statement(f"""
SELECT {_REQUEST} FROM requests AS first WHERE status = 'waiting' AND id > :after AND NOT EXISTS (
    SELECT 1 FROM requests AS earlier
    WHERE earlier.schedule_id = first.schedule_id AND earlier.status = 'waiting' AND earlier.id < first.id)
ORDER BY id LIMIT :limit""")
# The unique key on request_id.
_GET = Statement(f"SELECT {_REQUEST} FROM requests WHERE request_id = :request_id::text")
_TAKE = Statement("SELECT 1 FROM requests WHERE request_id = :request_id::text AND status = 'waiting'")
_END = Statement("""
UPDATE requests SET status = :status::text, ended_at = :now::instant, job_id = :job_id::text, reason = :reason::text,
    error = :error::text WHERE request_id = :request_id::text""")
# idx_requests_waiting, whole.
_ALL_WAITING = Statement(f"SELECT {_REQUEST} FROM requests WHERE status = 'waiting' ORDER BY id")


class RequestTaken(Exception):  # noqa: N818  # expected: another node carries it out
    """Another node carries the request out, or has done so."""


class Requests(StorePart):
    """The requests of one database."""

    @property
    def is_supported(self) -> bool:
        """Return whether programs have transactions of their own on this database: one SQLite file has one writer."""
        return not self._store.is_exclusive

    # -- in the program's transaction --

    def submit(self, request: Request, connection: CallerConnection, doubt: SchedulerError | None) -> None:
        """Write the request on the program's connection.

        `doubt` is raised unless an earlier request about the same schedule waits, of this transaction or a committed
        one: the schedule that does not exist yet may be created by it.
        """
        self._refuse_sqlite()
        import psycopg
        from psycopg.rows import tuple_row

        if isinstance(connection, psycopg.AsyncConnection):
            raise ConfigError("connection is asynchronous; use AsyncScheduler, or a psycopg.Connection")
        if not isinstance(connection, psycopg.Connection):
            raise _not_a_connection(connection)
        # Not `connection.execute`: its cursors may have other placeholders or rows.
        with _known_table(), psycopg.Cursor(connection, row_factory=tuple_row) as cursor:
            cursor.execute(self._submission.postgres, self._values(request, doubt))
            rows = cursor.fetchall()
        self._refuse_unwritten(rows, doubt)

    async def submit_async(
        self, request: Request, connection: CallerConnection, doubt: SchedulerError | None
    ) -> None:
        """Write the request on the program's connection, which may be asynchronous."""
        self._refuse_sqlite()
        import psycopg
        from psycopg.rows import tuple_row

        if not isinstance(connection, psycopg.AsyncConnection):
            await asyncio.to_thread(self.submit, request, connection, doubt)
            return
        statement = await asyncio.to_thread(lambda: self._submission)
        with _known_table():
            async with psycopg.AsyncCursor(connection, row_factory=tuple_row) as cursor:
                await cursor.execute(statement.postgres, self._values(request, doubt))
                rows = await cursor.fetchall()
        self._refuse_unwritten(rows, doubt)

    def _refuse_sqlite(self) -> None:
        if not self.is_supported:
            raise ConfigError(
                "connection= needs PostgreSQL, and this database is SQLite, which has one writer; leave it out, and "
                "call after the commit of your own transaction"
            )

    @cached_property
    def _place(self) -> tuple[str, str]:
        with self._store.look() as tx:
            schema, database = tx.rows(_PLACE)[0]
        return schema, database

    @property
    def _submission(self) -> Statement:
        return composed(_SUBMIT.format(schema=self._place[0].replace("%", "%%")))

    def _values(self, request: Request, doubt: SchedulerError | None) -> dict[str, object]:
        fields = ("request_id", "action", "schedule_id", "body", "actor")
        return {
            **{name: getattr(request, name) for name in fields},
            "created_at": to_datetime(request.created_at).isoformat(),
            "database": self._place[1],
            "is_doubtful": doubt is not None,
        }

    def _refuse_unwritten(self, rows: Sequence[Any], doubt: SchedulerError | None) -> None:
        if rows:
            return
        if doubt is not None:
            raise doubt
        raise ConfigError(
            f'connection is one of another database; connect to "{shown(self._place[1])}", the scheduler\'s'
        )

    # -- on a node --

    def waiting(self, *, after: int = 0, limit: int) -> list[Request]:
        """Return requests that may be carried out, in the order in which they were written; the first per schedule."""
        return self._many(Request._make, WAITING, after=after, limit=limit)

    def get(self, request_id: str) -> Request | None:
        """Return a request that is committed, and that retention has not deleted yet."""
        return self._one(Request._make, _GET, request_id=request_id)

    def catalogue_of(self, request: Request, now: int) -> Catalogue:
        """Return a catalogue whose one write also carries the request out, in the same transaction."""
        return _RequestCatalogue(self._store, request, now)

    def refuse(self, now: int, request: Request, error: str) -> bool:
        """Record that the request cannot be carried out, with an event; False when another node has ended it."""

        def work(tx: Transaction) -> bool:
            if not _take(tx, request):
                return False
            _refuse(tx, now, request, error)
            return True

        return self._store.write(Lane.API, work)


class _RequestCatalogue(Catalogue):
    """A catalogue that writes once, and records in the same transaction that the request is carried out."""

    def __init__(self, store: Store, request: Request, now: int) -> None:
        super().__init__(store)
        self._request = request
        self._now = now

    def _write(self, work: Callable[[Transaction], T]) -> T:
        def execute(tx: Transaction) -> T:
            if not _take(tx, self._request):
                raise RequestTaken
            result = work(tx)
            job_id = reason = None
            if self._request.action == "trigger" and isinstance(result, Decision):
                job_id = result.jobs[-1].job_id if result.jobs else None
                reason = result.refusal
            _end(tx, self._request, "done", now=self._now, job_id=job_id, reason=reason)
            return result

        return super()._write(execute)


def _take(tx: Transaction, request: Request) -> bool:
    return bool(tx.rows(_TAKE.skipping, request_id=request.request_id))


def _end(
    tx: Queries,
    request: Request,
    status: str,
    *,
    now: int,
    job_id: str | None = None,
    reason: str | None = None,
    error: str | None = None,
) -> None:
    tx.run(
        _END,
        request_id=request.request_id,
        status=status,
        now=now,
        job_id=job_id,
        reason=reason,
        error=error,
    )


def _refuse(tx: Transaction, now: int, request: Request, error: str) -> None:
    said = storable(error)
    _end(tx, request, "refused", now=now, error=said)
    detail = {"request_id": request.request_id, "action": request.action, "error": said}
    tx.insert_events([Event("request.refused", now, request.schedule_id, actor=request.actor, detail=detail)])


def refuse_all(tx: Transaction, now: int, error: str) -> int:
    """Refuse every request that waits, and return how many there were."""
    waiting = tx.many(Request._make, _ALL_WAITING)
    for request in waiting:
        _refuse(tx, now, request, error)
    return len(waiting)


def _not_a_connection(connection: object) -> ConfigError:
    kind = f"{type(connection).__module__}.{type(connection).__qualname__}"
    return ConfigError(
        f"connection must be a connection of psycopg 3, not {shown(kind)}; of Django that is "
        "`connection.connection`, of SQLAlchemy `session.connection().connection.driver_connection`"
    )


@contextmanager
def _known_table() -> Iterator[None]:
    """Name the mistake where the database of the connection has no such table."""
    from psycopg import errors

    try:
        yield
    except (errors.UndefinedTable, errors.InvalidSchemaName) as error:
        raise ConfigError(
            "the database of connection has no tables of everwhen; connect to the scheduler's database"
        ) from error
