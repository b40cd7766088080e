"""Where a worker's databases are created: files in a separate folder, or databases on the benchmark's server."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import copyfile
from tempfile import TemporaryDirectory
from typing import Protocol

SERVER = "EVERWHEN_BENCH_SERVER"
SQLITE = "sqlite:///"


class Place(Protocol):
    """Provides database URLs."""

    def fresh(self) -> str:
        """Create an empty database."""

    def copy_of(self, url: str) -> str:
        """Create a copy of that database, which no process has open."""

    def drop(self, url: str) -> None: ...


class Files:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.made = 0

    def fresh(self) -> str:
        self.made += 1
        return f"{SQLITE}{self.folder}/bench{self.made}.db"

    def copy_of(self, url: str) -> str:
        copy = self.fresh()
        copyfile(path_in(url), path_in(copy))
        return copy

    def drop(self, url: str) -> None:
        path_in(url).unlink()


class Server:
    def __init__(self, url: str) -> None:
        self.url = url
        self.made = 0

    def fresh(self) -> str:
        return self.created("")

    def copy_of(self, url: str) -> str:
        return self.created(f" TEMPLATE {url.rpartition('/')[2]}")

    def created(self, options: str) -> str:
        self.made += 1
        name = f"bench_{os.getpid()}_{self.made}"
        self.run(f"CREATE DATABASE {name}{options}")
        return f"{self.url.rpartition('/')[0]}/{name}"

    def drop(self, url: str) -> None:
        self.run(f"DROP DATABASE {url.rpartition('/')[2]} WITH (FORCE)")

    def run(self, statement: str) -> None:
        import psycopg  # the driver has to be installed only where there is a server

        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(statement.encode())


def is_file(url: str) -> bool:
    return url.startswith(SQLITE)


def path_in(url: str) -> Path:
    return Path(url.removeprefix(SQLITE))


@contextmanager
def a_place(*, on_file: bool = False) -> Iterator[Place]:
    """Provide databases on the server of the benchmark, if it has one; `on_file`: files all the same."""
    if (url := os.environ.get(SERVER)) and not on_file:
        yield Server(url)
        return
    with TemporaryDirectory(prefix="everwhen-bench-") as folder:
        yield Files(Path(folder))
