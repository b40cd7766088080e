"""Tokens at the machine, the token of the first start, and the API as a process of its own."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from everwhen.cli.api_server import tell_first_token
from everwhen.cli.main import everwhen
from everwhen.errors import ConfigError, SchedulerError
from everwhen.operations.tokens import find_token, list_tokens
from everwhen.runtime import Runtime
from everwhen.wiring import open_stack
from tests.api.serving import Client
from tests.cli.test_up import lines_until
from tests.servers.ports import HeldPort

CONFIG = "schedules: [{id: tick, every: 1h, run: {message: {text: hi}}}]\n"


def run(folder: Path, *fields: str) -> str:
    database = f"sqlite:///{folder}/tokens.db"
    result = CliRunner().invoke(everwhen, ["token", *fields, "--database", database], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_a_token_is_made_listed_and_revoked(tmp_path: Path) -> None:
    secret = run(tmp_path, "create", "bot", "--owner", "ada", "--limit", "targets=http,message").strip()
    assert secret.startswith("ew_")
    (listed,) = json.loads(run(tmp_path, "list", "--json"))
    assert (listed["name"], listed["owner"], listed["limits"]) == (
        "bot",
        "ada",
        {"targets": ["http", "message"]},
    )
    assert secret not in run(tmp_path, "list") and secret not in run(tmp_path, "list", "--json")
    run(tmp_path, "revoke", listed["id"])
    assert "revoked" in run(tmp_path, "list")
    with pytest.raises(SchedulerError, match="no token"):
        run(tmp_path, "revoke", listed["id"])


@pytest.mark.parametrize("limit", ["nonsense=1", "max_schedules", "min_interval=5x", "approval=maybe"])
def test_a_limit_that_cannot_be_is_refused(tmp_path: Path, limit: str) -> None:
    with pytest.raises(SchedulerError):
        run(tmp_path, "create", "bot", "--limit", limit)


@contextmanager
def serving(folder: Path, *fields: str, **environ: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A process that serves, and its address."""
    (folder / "everwhen.yaml").write_text(CONFIG)
    command = [str(Path(sys.executable).parent / "everwhen"), *fields]
    process = subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        line = lines_until(process.stderr, "API on ", 1)[-1]
        yield process, line.split("API on ")[1].split("/api/")[0]
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        assert process.returncode == 0


def test_the_first_start_prints_a_token_once_and_it_works(tmp_path: Path) -> None:
    with serving(tmp_path, "up") as (process, url):
        assert process.stdout is not None
        secret = process.stdout.readline().removeprefix("admin token: ").strip()
        assert Client(url, secret).get("/schedules/").fields["total"] == 1
    with serving(tmp_path, "api") as (process, url):
        assert Client(url, secret).get("/schedules/tick/").status == 200
        os.kill(process.pid, signal.SIGTERM)
        assert process.communicate(timeout=60)[0] == ""


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[Runtime]:
    stack = open_stack(f"sqlite:///{tmp_path}/first.db")
    yield stack.runtime
    stack.close()


def test_a_token_file_is_for_its_owner_only(
    runtime: Runtime, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "secret"
    path.write_text("")
    path.chmod(0o644)
    tell_first_token(runtime, path)
    secret = path.read_text().strip()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    token = find_token(runtime, secret)
    assert token is not None and token.role == "admin"
    assert secret not in "".join(capsys.readouterr())


def test_a_token_is_not_made_where_it_could_not_be_printed(runtime: Runtime, tmp_path: Path) -> None:
    with pytest.raises(SchedulerError, match="cannot be written"):
        tell_first_token(runtime, tmp_path / "nowhere" / "secret")
    assert list_tokens(runtime) == []


def test_a_preset_token_is_not_printed(
    runtime: Runtime, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVERWHEN_ADMIN_TOKEN", "short")
    with pytest.raises(SchedulerError, match="shorter than 16"):
        tell_first_token(runtime, None)
    monkeypatch.setenv("EVERWHEN_ADMIN_TOKEN", "a-preset-token-of-mine")
    tell_first_token(runtime, None)
    assert find_token(runtime, "a-preset-token-of-mine") is not None
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("command", ["up", "api"])
def test_other_machines_are_served_only_by_tls_a_proxy_or_an_explicit_word(
    tmp_path: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "everwhen.yaml").write_text("api: {host: 0.0.0.0}\n")
    with pytest.raises(ConfigError, match=r"api\.tls"):
        CliRunner().invoke(everwhen, [command], catch_exceptions=False)
    assert not (tmp_path / "everwhen.db").exists()


def test_a_port_that_is_taken_is_one_sentence_before_anything_is_fired(tmp_path: Path) -> None:
    with serving(tmp_path, "api") as (_, url):
        port = url.rpartition(":")[2]
        environ = {**os.environ, "EVERWHEN_API_PORT": port}
        command = [str(Path(sys.executable).parent / "everwhen"), "up"]
        (other := tmp_path / "other").mkdir()
        (other / "everwhen.yaml").write_text('schedules: [{id: a, every: 1s, run: {command: ["true"]}}]')
        second = subprocess.run(
            command, cwd=other, env=environ, capture_output=True, text=True, timeout=60, check=False
        )
    assert second.returncode == 1
    assert f"the API cannot listen on 127.0.0.1:{port}" in second.stderr
    assert not (other / "everwhen.db").exists()


def test_a_token_has_its_own_rights_on_a_database_whose_service_is_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.chdir(tmp_path)
    port = HeldPort()  # nobody listens there
    request.addfinalizer(port.release)
    (tmp_path / "everwhen.yaml").write_text(
        f"{{api: {{port: {port.number}}}, service: {{database: 'sqlite:///tokens.db'}}}}"
    )
    run(tmp_path, "create", "person")
    secret = run(tmp_path, "create", "agent", "--owner", "ada", "--limit", "approval=required").strip()
    created = [
        "schedules",
        "create",
        "--id",
        "mine",
        "--every",
        "1h",
        "--run",
        '{"message": {"text": "hi"}}',
        "--json",
    ]
    for options, environ in (
        (["--token", secret], {}),
        ([], {"EVERWHEN_TOKEN": secret}),
        (["--token", secret, "--database", f"sqlite:///{tmp_path}/tokens.db"], {}),
    ):
        made = CliRunner().invoke(everwhen, [*created, *options], env=environ, catch_exceptions=False)
        assert made.exit_code == 0, made.output
        fields = json.loads(made.stdout)
        assert (fields["owner"], fields["status"], fields["paused_by"]) == ("ada", "paused", "approval")
        CliRunner().invoke(everwhen, ["schedules", "delete", fields["id"], "--yes"], catch_exceptions=False)
    with pytest.raises(SchedulerError, match="token"):
        CliRunner().invoke(everwhen, ["schedules", "list", "--token", "ew_wrong"], catch_exceptions=False)
