"""`everwhen up` on an address of the command line, and the commands that reach its file and its tokens over `--url`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from everwhen.cli.main import everwhen
from everwhen.errors import SchedulerError
from tests.cli.test_up import lines_until

COMMAND = str(Path(sys.executable).parent / "everwhen")
FILE = "schedules: [{id: tick, every: 1h, first_run: after_interval, run: {message: {text: hi}}}]\n"
WORKING = 'schedules: [{id: tick, every: 1h, run: {command: ["true"]}}]'
SECRET = "ew_preset_for_this_test_0123456789"


@contextmanager
def started(folder: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    environ = {
        **os.environ,
        "EVERWHEN_ADMIN_TOKEN": SECRET,
        "EVERWHEN_API_PORT": "1",
    }  # which nobody may bind
    with subprocess.Popen(
        [COMMAND, "up", *options], cwd=folder, env=environ, stderr=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.send_signal(signal.SIGTERM)
        process.communicate()
    assert process.returncode == 0


@dataclass(frozen=True, slots=True)
class Node:
    """A node with an API, and commands that reach it."""

    folder: Path
    url: str

    def run(self, *fields: str, code: int = 0) -> Result:
        options = ["--url", self.url, "--token", SECRET]
        result = CliRunner().invoke(everwhen, [*fields, *options], catch_exceptions=code == 0)
        assert result.exit_code == code, result.output
        return result

    def json(self, *fields: str, code: int = 0) -> Any:
        return json.loads(self.run(*fields, "--json", code=code).stdout)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    folder = tmp_path_factory.mktemp("over_url")
    (folder / "everwhen.yaml").write_text(FILE)
    with started(folder, "--host", "127.0.0.1", "--port", "0") as process:
        (*_, line) = lines_until(process.stderr, "API on ", 1)
        yield Node(folder, line.split("API on ")[1].split("/api/")[0])


def test_tokens_are_made_listed_and_revoked_over_a_service(node: Node) -> None:
    made = node.json(
        "token", "create", "bot", "--owner", "ada", "--expires", "30d", "--limit", "max_schedules=3"
    )
    assert made["token"].startswith("ew_") and (made["owner"], made["limits"]["max_schedules"]) == ("ada", 3)
    assert made["created_by"] and made["expires_at"]
    shown = node.run("token", "list").stdout
    assert made["id"] in shown and "expires in 29d" in shown and made["token"] not in shown
    assert node.run("token", "revoke", made["id"]).stderr == f"revoked {made['id']}\n"
    assert node.json("token", "list")[0]["revoked_at"]
    with pytest.raises(SchedulerError, match="no token"):
        CliRunner().invoke(
            everwhen,
            ["token", "revoke", made["id"], "--url", node.url, "--token", SECRET],
            catch_exceptions=False,
        )


def test_the_service_compares_and_reloads_its_own_file(node: Node) -> None:
    assert node.json("config", "diff") == {"changes": [], "sections": []}
    (node.folder / "everwhen.yaml").write_text(FILE.replace("every: 1h", "every: 2h"))
    shown = node.run("config", "diff", code=3)
    assert (
        "~ tick" in shown.stdout
        and "trigger: every 1h → every 2h" in shown.stdout
        and "1 schedule would" in shown.stderr
    )
    here = CliRunner().invoke(
        everwhen,
        ["config", "diff", "--json", "--config", str(node.folder / "everwhen.yaml"), *_database(node)],
    )
    assert (
        json.loads(here.stdout)["changes"][0]["keys"]
        == node.json("config", "diff", code=3)["changes"][0]["keys"]
    )
    assert node.run("config", "reload").stderr == "reloaded: 1 changed\n"
    assert node.json("config", "diff")["changes"] == []


def test_a_file_that_is_typed_overrides_a_service_of_the_environment(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVERWHEN_URL", "http://127.0.0.1:9")
    config = ["--config", str(node.folder / "everwhen.yaml")]
    assert CliRunner().invoke(everwhen, ["token", "list", *_database(node)]).exit_code == 0
    assert CliRunner().invoke(everwhen, ["config", "diff", *config, *_database(node)]).exit_code in (0, 3)
    both = CliRunner().invoke(everwhen, ["config", "diff", *config, "--url", node.url])
    assert both.exit_code == 2 and "give one of them" in both.output


def _database(node: Node) -> list[str]:
    return ["--database", f"sqlite:///{node.folder}/everwhen.db"]


def test_a_node_without_an_api_serves_none(tmp_path: Path) -> None:
    (tmp_path / "everwhen.yaml").write_text(WORKING)
    with started(tmp_path, "--no-api") as process:
        lines = lines_until(process.stderr, "succeeded", 1)
    assert not [line for line in lines if "API" in line]
    both = CliRunner().invoke(everwhen, ["up", "--no-api", "--port", "8750"])
    assert both.exit_code == 2 and "give one of them" in both.output


def test_an_address_for_other_machines_is_refused_without_tls_on_the_command_line_too(tmp_path: Path) -> None:
    (tmp_path / "everwhen.yaml").write_text(FILE)
    done = subprocess.run(
        [COMMAND, "up", "--host", "0.0.0.0"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1 and "without TLS" in done.stderr


def test_init_tells_programs_what_it_wrote(tmp_path: Path) -> None:
    found = json.loads(CliRunner().invoke(everwhen, ["init", str(tmp_path / "app"), "--json"]).stdout)
    assert found["next"] == f"cd {tmp_path / 'app'} && everwhen up"
    assert all(Path(path).is_file() for path in found["files"]) and len(found["files"]) == 3
