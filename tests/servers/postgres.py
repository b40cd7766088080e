"""PostgreSQL for tests: a separate cluster on loopback, with a random password.

A superuser who may connect can run programs as the server's account. On a machine with other users, a cluster without
passwords would give them the tester's account.
"""

import base64
import hashlib
import hmac
import itertools
import secrets
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from tests.servers.account import account_for_postgres
from tests.servers.errors import ServerError
from tests.servers.local_server import LocalServer
from tests.servers.ports import LOOPBACK
from tests.servers.process import ServerProcess, plain_environment
from tests.servers.programs import postgres_bin

_OWNER = "everwhen"
_READY_LINE = 7  # the eighth line of postmaster.pid

_DURABLE = {"fsync": "on", "synchronous_commit": "on"}
_FAST = {"fsync": "off", "full_page_writes": "off"}


class PostgresServer(LocalServer):
    """One cluster. `durable` keeps every committed transaction through a crash, and is slower.

    `also_on` is a further address and the subnet that may connect to it, such as one of our network namespaces.
    """

    orderly_signal: ClassVar[signal.Signals] = signal.SIGINT
    quickest_signal: ClassVar[signal.Signals] = signal.SIGQUIT

    def __init__(
        self,
        major: int = 18,
        *,
        durable: bool = False,
        also_on: tuple[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(account_for_postgres(), environment)
        self._major = major
        self._durable = durable
        self._also_on = also_on
        self._password = secrets.token_urlsafe(16)
        self._database_numbers = itertools.count(1)
        self._bin = Path()

    @property
    def url(self) -> str:
        return self._url_of("postgres")

    @property
    def version(self) -> int:
        """Return the major version of the cluster; with TEST_PG_BIN it may differ from the requested one."""
        return int((self._data / "PG_VERSION").read_text())

    @property
    def bin_folder(self) -> Path:
        """Return the folder of the running server's programs, psql among them."""
        return self._bin

    def fresh_database(self) -> str:
        """Create an empty database and return its URL.

        A schema would be faster (1 ms instead of 10 to 50), but advisory locks and notifications belong to a
        database: tests that shared one would see each other's.
        """
        name = f"test_{next(self._database_numbers)}"
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(
                sql.SQL("create database {}").format(sql.Identifier(name)) + self._how_to_copy()
            )
        return self._url_of(name)

    def drop_database(self, url: str) -> None:
        """Drop a database that `fresh_database` created, along with any sessions that a test left in it."""
        name = conninfo_to_dict(url)["dbname"]
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(str(name))))

    def _url_of(self, database: str) -> str:
        return f"postgresql://{_OWNER}:{self._password}@{LOOPBACK}:{self.port}/{database}"

    def _how_to_copy(self) -> sql.SQL:
        # In PostgreSQL 18 without fsync this takes less than half the time of a copy through the log; in 16, and with
        # fsync, it takes no longer. Before 15 it was the only method, and had no name.
        return sql.SQL("" if self.version < 15 else " strategy file_copy")

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    def _find_programs(self) -> None:
        self._bin = postgres_bin(self._major, self._account)

    def _make_data(self) -> None:
        password_file = self.folder / "password"
        password_file.write_text(_scram_verifier(self._password))
        self._account.take_over(password_file)
        try:
            self._initdb(password_file)
        except PermissionError as error:
            raise ServerError(
                f"{self._account.name} may not run {self._bin}/initdb:"
                " let it read that folder and those above it"
            ) from error
        finally:
            password_file.unlink()
        if self._also_on is not None:
            with (self._data / "pg_hba.conf").open("a") as rules:
                rules.write(f"host all all {self._also_on[1]} scram-sha-256\n")

    def _initdb(self, password_file: Path) -> None:
        where = [f"--pgdata={self._data}", f"--username={_OWNER}", f"--pwfile={password_file}"]
        how = ["--auth=scram-sha-256", "--encoding=UTF8", "--no-locale", "--no-sync", "--no-instructions"]
        made = subprocess.run(
            [self._bin / "initdb", *where, *how],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=self.folder,
            env=plain_environment(),
            user=self._account.user,
            group=self._account.group,
            extra_groups=self._account.extra_groups,
            text=True,
            check=False,
        )
        if made.returncode != 0:
            raise ServerError(f"initdb failed:\n{made.stdout[-2000:]}")

    def _command(self) -> Sequence[str | Path]:
        settings = {
            "listen_addresses": LOOPBACK if self._also_on is None else f"{LOOPBACK},{self._also_on[0]}",
            "port": str(self.port),
            "unix_socket_directories": str(self.folder),
            "timezone": "UTC",
            **(_DURABLE if self._durable else _FAST),
        }
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        return [self._bin / "postgres", "-D", self._data, *options]

    def _is_ready(self, process: ServerProcess) -> bool:
        try:
            lines = (self._data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        # A killed server leaves its file, still with "ready": only a file with our process id counts.
        return (
            len(lines) > _READY_LINE
            and lines[0] == str(process.pid)
            and lines[_READY_LINE].strip() == "ready"
        )


def _scram_verifier(password: str) -> str:
    """Return what the server stores. The password is random: one round, not 4096, saves 3.5 ms per connection."""
    salt = secrets.token_bytes(16)
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, iterations=1)
    stored_key = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    server_key = hmac.digest(salted, b"Server Key", "sha256")
    in_text = [base64.b64encode(part).decode() for part in (salt, stored_key, server_key)]
    return "SCRAM-SHA-256$1:{}${}:{}".format(*in_text)
