"""A PostgreSQL database as a store uses it: connections, whole transactions, and the meaning of its errors.

It does not depend on schedules. A transaction that lost a deadlock or a race for a key is run again from its start, a
few times. A lost connection becomes a StoreError, and the next request gets another one. The effect of a COMMIT
without a response is unknown: a caller that retries needs keys that allow a repetition, and jobs have them.
"""

from __future__ import annotations

import logging
import os
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import psycopg
from psycopg import Connection, errors, pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

from everwhen.errors import StoreError, StoreFault, shown, shown_url
from everwhen.store.postgres.adapters import register
from everwhen.store.postgres.builder import PostgresBuilder, TablesInUseError
from everwhen.store.postgres.query_connection import QueryConnection
from everwhen.store.schema.migrate import Builder

T = TypeVar("T")

ATTEMPTS = 6
BUILD_PATIENCE = 60.0  # seconds that a change of the schema waits for tables in use
MOST_CONNECTIONS = 10
# Seconds to wait for a connection. The pool by itself doubles its pause after each attempt, for minutes, even when
# the server has long been back. So it gives up at once, and a thread that waits for a connection makes it try again
# twice a second.
PATIENCE = 5.0
GIVE_UP, TRY_AGAIN = 0.3, 0.5

# A server that disappears silently (a cable, a firewall, a host that died) is noticed within ten seconds.
SILENCE = {
    "connect_timeout": int(PATIENCE),
    "tcp_user_timeout": 10_000,  # milliseconds
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
}

# Generic plans: the statements are few, and a plan of its own for each batch costs as much as the batch. Timeouts
# bound how long a node that hangs can block others; a bulk load or a migration stays well below them. A generic plan
# is made once, perhaps while a table is empty, and is used when ten thousand rows have been added. So it must use the
# index that the statement was written for, and neither scan the table nor sort everything that is ready.
SETTINGS = {
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "synchronous_commit": "on",
    "statement_timeout": "60s",
    "lock_timeout": "20s",
    "idle_in_transaction_session_timeout": "5s",
    # A node that disappears (a machine without power, a cable) leaves sessions behind that wait for locks, get one
    # after the other, and keep each for as long as an idle transaction may: all others are blocked meanwhile. So the
    # server checks its clients while it works for them. Two seconds without a sign of life are enough, both for a
    # client that owes an acknowledgement (it holds a lock, and the response was lost) and for one that waits for a
    # lock.
    "client_connection_check_interval": "500ms",
    "tcp_user_timeout": "2s",
    "tcp_keepalives_idle": "1",
    "tcp_keepalives_interval": "1",
    "tcp_keepalives_count": "2",
}


# A reader of many rows, with arbitrary filters, may use every kind of plan.
_BEGIN_READING = """BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
SET LOCAL enable_seqscan = on; SET LOCAL enable_bitmapscan = on"""

# A server that hangs (a stopped process, a disk that does not respond) keeps its connections alive: its kernel
# continues to acknowledge. The server's own timeouts hang with it. So the wait for a response ends here, later than
# the server itself would have ended it; a single query must be answered much sooner.
LONGEST_WAIT = 75.0
LONGEST_QUESTION = 10.0


class PatientConnection(Connection[Any]):
    """A connection that waits for a response only so long; after that it is closed."""

    patience = LONGEST_WAIT

    def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
        if timeout is not None:
            return super().wait(gen, interval, timeout)
        began = time.monotonic()
        try:
            return super().wait(gen, interval, self.patience)
        except psycopg.OperationalError:
            if self.closed or time.monotonic() - began < self.patience:
                raise  # a response, though an error
            self.pgconn.finish()
            raise psycopg.OperationalError(f"no answer within {self.patience:g}s") from None


class Overtaken(Exception):  # noqa: N818  # expected, and resolved when the work is run again
    """A row has changed since it was read."""


# The server has rolled these back: it says so before any commit. It ends a transaction that a busy machine left idle.
_AGAIN = (
    errors.DeadlockDetected,
    errors.SerializationFailure,
    errors.IdleInTransactionSessionTimeout,
    Overtaken,
)
_GONE = (psycopg.OperationalError, psycopg.InterfaceError)
_FAULTS: dict[type[psycopg.Error], StoreFault] = {
    errors.DiskFull: "full",
    errors.ReadOnlySqlTransaction: "read_only",
}

# The pool's errors become StoreErrors; without a handler Python would write its log lines to stderr as well.
logging.getLogger("psycopg.pool").addHandler(logging.NullHandler())


def _close_pool(pool: ConnectionPool[Any], process: int) -> None:
    """Close the pool at the end of the program; a forked child has the parent's connections and must not close them."""
    if os.getpid() == process:
        pool.close()


class PostgresDatabase:
    """One database, for all threads of one process."""

    def __init__(self, url: str, *, patience: float = PATIENCE, longest_wait: float = LONGEST_WAIT) -> None:
        self._process = os.getpid()
        self.url = url
        self._patience = patience
        self._longest_wait = longest_wait
        self.where = where(url)
        self._refuse_refusal()
        self._busy: set[Connection[Any]] = set()
        self._pool: ConnectionPool[Any] = ConnectionPool(
            url,
            kwargs=describe_connection(url),
            connection_class=PatientConnection,
            configure=register,
            min_size=1,
            max_size=MOST_CONNECTIONS,
            timeout=patience,
            reconnect_timeout=min(GIVE_UP, patience),
            num_workers=1,
            open=False,
        )
        self._query_connection = QueryConnection(
            self._pool, partial(self._take, is_question=True), self._give_back
        )
        self._pool.open()
        # For a program that ends without closing its scheduler: from 3.14 on the pool's own finalizer would run too
        # late.
        weakref.finalize(self, _close_pool, self._pool, self._process)

    def transact(self, work: Callable[[Connection[Any]], T], *, begin: str = "BEGIN") -> T:
        """Run the work in a transaction, commit, and return its result; when it raises, roll back."""
        for attempt in range(1, ATTEMPTS):
            try:
                return self._once(work, begin)
            except _AGAIN:
                time.sleep(0.002 * attempt)  # the winner is about to commit
        try:
            return self._once(work, begin)
        except _AGAIN as error:
            raise StoreError(
                f"the database {self.where} is too busy: a transaction lost {ATTEMPTS} times against others; "
                "try again, and look for long transactions of other programs"
            ) from error

    def _once(self, work: Callable[[Connection[Any]], T], begin: str) -> T:
        with self._translated(*_AGAIN, errors.IntegrityError), self._lent() as connection:
            try:
                connection.execute(begin)
                result = work(connection)
                connection.execute("COMMIT")
            except BaseException:
                _undo(connection)
                raise
            return result

    @contextmanager
    def snapshot(self) -> Iterator[Connection[Any]]:
        """Open a connection whose reads all see one moment."""
        with self.connection() as connection:
            connection.execute(_BEGIN_READING)
            try:
                yield connection
            finally:
                _undo(connection)

    @contextmanager
    def connection(self, *, is_question: bool = False) -> Iterator[Connection[Any]]:
        """Lend a connection for a single statement, without a transaction. `is_question`: it must answer soon."""
        with self._translated(), self._lent(is_question) as connection:
            yield connection

    @contextmanager
    def _translated(self, *passed_on: type[Exception]) -> Iterator[None]:
        """Turn the driver's errors into StoreError, except those that the caller handles."""
        self._refuse_other_process()
        try:
            yield
        except passed_on:
            raise
        except psycopg.Error as error:
            raise self._store_error(error) from error

    @contextmanager
    def _lent(self, is_question: bool = False) -> Iterator[Connection[Any]]:
        connection = self._take(is_question=is_question)
        try:
            yield connection
        finally:
            self._give_back(connection)

    def _take(self, *, is_question: bool = False) -> Connection[Any]:
        connection = self._wait_for_one()
        connection.patience = min(LONGEST_QUESTION, self._longest_wait) if is_question else self._longest_wait
        self._busy.add(connection)
        return connection

    def _wait_for_one(self) -> PatientConnection:
        deadline = time.monotonic() + self._patience
        while True:
            left = deadline - time.monotonic()
            try:
                connection: PatientConnection = self._pool.getconn(max(min(TRY_AGAIN, left), 0.01))
                return connection
            except PoolTimeout:
                if left <= TRY_AGAIN:
                    raise

    def _give_back(self, connection: Connection[Any]) -> None:
        self._busy.discard(connection)
        is_gone = connection.broken
        self._pool.putconn(connection)
        if is_gone:  # after a restart of the server all of them are
            self._pool.check()

    def ask(self, query: str, *values: object) -> list[Any]:
        """Return the rows of a single statement, with the least overhead."""
        with self._translated():
            return self._query_connection.ask(query.encode(), values)

    def build(self, work: Callable[[Builder], T]) -> T:
        """Run the work in a transaction that may change the schema; one process at a time.

        It waits for tables in use as long as nodes need to release them: a start that fails because of a busy moment
        would be worse than a start that takes a while.
        """
        give_up_at = time.monotonic() + BUILD_PATIENCE
        while True:
            try:
                return self._once(lambda connection: work(PostgresBuilder(connection)), "BEGIN")
            except (*_AGAIN, TablesInUseError) as error:
                if time.monotonic() >= give_up_at:
                    raise StoreError(
                        f"the schema of the database {self.where} cannot be changed: other transactions have used "
                        f"its tables for {BUILD_PATIENCE:g}s; end long ones (a dump, an open psql) and start again"
                    ) from error
                time.sleep(0.05)  # transactions that waited for our locks go first

    def close(self) -> None:
        """Close the pool; may be called twice. A forked child closes nothing."""
        if os.getpid() == self._process:
            self._query_connection.close()
            self._pool.close()

    def _store_error(self, error: psycopg.Error) -> StoreError:
        fields = shown(str(error).strip().replace("\n", " "))
        if isinstance(error, PoolClosed):
            return StoreError(f"the database {self.where} was closed; open it again to use it")
        if isinstance(error, PoolTimeout):
            return StoreError(
                f"the database {self.where} gave no connection within {self._patience:g}s ({self._why_none()}); "
                "see that the server runs, accepts this user, and has connections left",
                fault="away",
            )
        if isinstance(error, errors.DeadlockDetected | errors.SerializationFailure):
            return StoreError(
                f"the database {self.where} gave another transaction the precedence ({fields}); nothing was written; "
                "try again"
            )
        if isinstance(error, errors.LockNotAvailable):
            return StoreError(
                f"the database {self.where} is held up: another transaction kept a row for {SETTINGS['lock_timeout']}; "
                "nothing was written; try again, and look for long transactions of other programs",
                fault="locked",
            )
        if isinstance(error, errors.QueryCanceled):
            return StoreError(
                f"the database {self.where} ended a statement ({fields}); nothing was written; try again, "
                "and see what keeps the server busy"
            )
        fault = next((fault for kind, fault in _FAULTS.items() if isinstance(error, kind)), None)
        if fault is None and isinstance(error, _GONE):
            return StoreError(
                f"the connection to the database {self.where} was lost ({fields}); the next request opens another",
                fault="away",
            )
        return StoreError(f"the database {self.where} refused a statement: {fields}", fault=fault)

    def _why_none(self) -> str:
        """Return why there is no connection. The pool only knows that it waited, so this asks the server itself."""
        if len(self._busy) >= MOST_CONNECTIONS:
            return "all connections are in use"
        return self._refusal() or "by now the server answers again"

    def _refusal(self) -> str | None:
        try:
            psycopg.connect(self.url, **describe_connection(self.url)).close()
        except psycopg.Error as error:
            return shown(str(error).strip().splitlines()[0].rpartition("failed: ")[2])
        return None

    def _refuse_refusal(self) -> None:
        """Raise StoreError if a running server refuses the connection; a server that is starting is waited for."""
        said = self._refusal()
        conninfo = make_conninfo(self.url, connect_timeout=int(PATIENCE)).encode()
        if said is not None and pq.PGconn.ping(conninfo) == pq.Ping.OK:
            raise StoreError(
                f"the database {self.where} refuses connections ({said}); "
                "see that user, password and database are right"
            )

    def _refuse_other_process(self) -> None:
        if os.getpid() != self._process:
            raise StoreError(
                f"this database was opened by process {self._process}, before a fork; "
                "open it again in the new process, as connections do not survive a fork"
            )


def describe_connection(url: str) -> dict[str, Any]:
    """Return the connection arguments besides the URL; the URL overrides SILENCE, and its options come last."""
    given = _parameters_of(url)
    options = " ".join(f"-c {name}={value}" for name, value in SETTINGS.items())
    return {
        "autocommit": True,
        "application_name": "everwhen",
        "prepare_threshold": 2,
        **{name: value for name, value in SILENCE.items() if name not in given},
        "options": f"{options} {given.get('options') or ''}".strip(),
    }


def where(url: str) -> str:
    """Return the database's address without the password.

    >>> where("postgresql://anna:secret@db.example:5433/everwhen")
    'postgresql://db.example:5433/everwhen'
    """
    fields = _parameters_of(url)
    port = f":{fields['port']}" if fields.get("port") else ""
    return shown(f"postgresql://{fields.get('host') or ''}{port}/{fields.get('dbname') or ''}")


def _parameters_of(url: str) -> dict[str, Any]:
    try:
        fields: dict[str, Any] = dict(conninfo_to_dict(url))
    except psycopg.ProgrammingError as error:
        raise _unreadable(url, "" if "@" in url else f" ({shown(str(error).strip())})") from None
    ports = [
        port for port in str(fields.get("port") or "").split(",") if port
    ]  # one for each host; empty: 5432
    if "@" in str(fields.get("dbname")) or not all(map(str.isdecimal, ports)):
        raise _unreadable(url, "")
    if any(len(port) > len("65535") or not 1 <= int(port) <= 65_535 for port in ports):
        raise _unreadable(url, " (a port is between 1 and 65535)")
    return fields


def _unreadable(url: str, why: str) -> StoreError:
    return StoreError(
        f"the database URL “{shown_url(url)}” cannot be read{why}; write postgresql://USER:PASSWORD@HOST/DATABASE, "
        "and / # ? @ in a password as %2F %23 %3F %40"
    )


def _undo(connection: Connection[Any]) -> None:
    try:
        if not connection.closed:
            connection.execute("ROLLBACK")
    except psycopg.Error:
        connection.close()
