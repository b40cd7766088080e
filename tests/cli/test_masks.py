"""Literal secrets of a file are shown by nothing that shows the file."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.test_rest import running

COMMAND = str(Path(sys.executable).parent / "everwhen")
SECRET = "hunter2-0123456789-abcdefgh"
FILE = """
service: {database: "sqlite:///a.db", redis: "redis://:SECRET@127.0.0.1/0"}
agents:
  bot:
    command: [agent, --api-key, "SECRET", "--password=SECRET"]
    env: {ANTHROPIC_API_KEY: "SECRET", DB_PASS: "SECRET", LEVEL: high}
    schedules: {push: {type: webhook, secret: "SECRET"}}
notify: [{on: [schedule.died], http: {url: "https://hooks.slack.com/services/SECRET"}}]
schedules:
- id: call
  every: 1h
  run:
    http:
      url: "https://ada:SECRET@example.com/?access_token=SECRET&page=2"
      headers: {Authorization: "Bearer SECRET", X-Auth: "SECRET", Cookie: "a=SECRET", Accept: text/plain,
                X-Ref: "${TOKEN}", X-Api-Key: "${KEY:-SECRET}"}
  payload: {token: "SECRET", city: Paris, token_file: tokens.json}
- id: run
  every: 1h
  run: {command: [curl, -H, "Authorization: Bearer SECRET", "https://example.com"], env: {TOKEN: "SECRET"}}
- id: account
  every: 1h
  run: {command: [curl, -u, "ada:SECRET", "-Ubob:SECRET", "--user=eve:SECRET", "example.com"]}
- id: shell
  every: 1h
  run: {command: [sh, -c, "date -u +%H:%M; curl --user 'ada:SECRET' --proxy-user bob:SECRET example.com"]}
""".replace("SECRET", SECRET)


def said(folder: Path, *fields: str) -> str:
    environ = {**os.environ, "EVERWHEN_DATABASE": ""}
    done = subprocess.run(
        [COMMAND, *fields], cwd=folder, env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, 3), done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_the_shown_configuration_has_masks_in_the_place_of_literal_secrets(
    tmp_path: Path, form: tuple[str, ...]
) -> None:
    (tmp_path / "everwhen.yaml").write_text(FILE)
    shown = said(tmp_path, "config", "show", *form)
    assert SECRET not in shown
    for kept in (
        "page=2",
        "text/plain",
        "${TOKEN}",
        "${KEY:-***}",
        "Paris",
        "tokens.json",
        "high",
        "--api-key",
        "ada:***",
        "+%H:%M",
    ):
        assert kept in shown


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_a_diff_has_masks_in_the_place_of_literal_secrets(tmp_path: Path, form: tuple[str, ...]) -> None:
    (tmp_path / "everwhen.yaml").write_text(FILE)
    created = said(tmp_path, "config", "diff", *form)
    said(tmp_path, "config", "reload")
    (tmp_path / "everwhen.yaml").write_text(
        FILE.replace("page=2", "page=3").replace("every: 1h", "every: 2h")
    )
    changed = said(tmp_path, "config", "diff", *form)
    assert SECRET not in created + changed
    assert "page=2" in changed and "page=3" in changed and "call" in created


def test_the_diff_of_a_service_has_masks_in_the_place_of_literal_secrets(tmp_path: Path) -> None:
    with running(tmp_path, "api") as client:
        (tmp_path / "everwhen.yaml").write_text(FILE)
        answer = client.post("/config/diff/")
        assert answer.status == 200 and SECRET not in answer.raw.decode()
        assert {"call", "run"} <= {item["schedule_id"] for item in answer.fields["items"]}
