"""Another process at the same database: `python -m tests.store.child VERB PATH …`, steered through its pipes.

It says what it has come to on standard output, a line each, and waits on standard input where it is told to.
"""

from __future__ import annotations

import os
import resource
import sqlite3
import sys
from collections.abc import Callable

from everwhen.errors import StoreError
from everwhen.store.lanes import Lane
from everwhen.store.schema.migrate import migrate
from everwhen.store.sqlite.database import SqliteDatabase
from tests.store.notes import note, noted, noting
from tests.store.release import RELEASE


def say(line: object) -> None:
    print(line, flush=True)


def wait() -> None:
    sys.stdin.readline()


def increment(path: str, times: str) -> None:
    database = SqliteDatabase(path)
    say("ready")
    wait()
    for _ in range(int(times)):
        database.write(Lane.SETTLE, add_one)
    database.close()


def add_one(connection: sqlite3.Connection) -> None:
    # Read and written in two statements: a second writer in between would lose one.
    (value,) = connection.execute("SELECT value FROM counter").fetchone()
    connection.execute("UPDATE counter SET value = ?", (value + 1,))


def commit(path: str, body: str) -> None:
    database = SqliteDatabase(path)
    note(database, body)
    database.close()


def write_until_killed(path: str) -> None:
    """Commits one note, and stays inside the transaction of the next."""
    database = SqliteDatabase(path)
    note(database, "committed")

    def work(connection: sqlite3.Connection) -> None:
        noting("uncommitted")(connection)
        noting(bytes(20 << 20))(connection)  # more than the cache holds: some of it is in the log already
        say("inside")
        wait()

    database.write(Lane.API, work)


def read_until_asked(path: str) -> None:
    database = SqliteDatabase(path)
    with database.read() as connection:
        say(connection.execute("SELECT count(*) FROM notes").fetchone()[0])
        wait()
        say(connection.execute("SELECT count(*) FROM notes").fetchone()[0])
    database.close()


def fork_and_use(path: str) -> None:
    """The child of a fork tries everything; then the parent goes on as if nothing had happened."""
    database = SqliteDatabase(path)
    note(database, "before")
    noted(database)
    database.change_counter()
    if (child := os.fork()) == 0:
        for use in (lambda: note(database, "child"), lambda: noted(database), database.change_counter):
            say(refusal_of(use))
        database.close()
        say("closed")
        os._exit(0)
    os.waitpid(child, 0)
    note(database, "after")
    database.close()


def refusal_of(use: Callable[[], object]) -> str:
    try:
        use()
    except StoreError as refusal:
        return str(refusal)
    return "allowed"


def fork_while_writing(path: str) -> None:
    """Stays inside a write, with a child that was forked in the middle of it and outlives the parent."""
    database = SqliteDatabase(path)

    def work(connection: sqlite3.Connection) -> None:
        noting("uncommitted")(connection)
        if os.fork() == 0:
            say("forked")
            wait()
            os._exit(0)
        wait()

    database.write(Lane.API, work)


def outgrow_file_limit(path: str) -> None:
    """A limit on the size of files makes the disk fail in earnest, in the middle of a write."""
    database = SqliteDatabase(path)
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
    say(refusal_of(lambda: note(database, bytes(8 << 20))))
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    note(database, "after")
    say(noted(database))
    database.close()


def migrate_together(path: str) -> None:
    database = SqliteDatabase(path)
    say("ready")
    wait()
    say(migrate(database, RELEASE, applied_at=1))
    database.close()


VERBS: dict[str, Callable[..., None]] = {
    "increment": increment,
    "commit": commit,
    "write_until_killed": write_until_killed,
    "read_until_asked": read_until_asked,
    "fork_and_use": fork_and_use,
    "fork_while_writing": fork_while_writing,
    "outgrow_file_limit": outgrow_file_limit,
    "migrate_together": migrate_together,
}

if __name__ == "__main__":
    VERBS[sys.argv[1]](*sys.argv[2:])
