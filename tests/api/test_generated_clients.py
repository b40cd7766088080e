"""Clients that are generated from the OpenAPI document make every call: one in Python, one in TypeScript.

Each is generated anew and drives a schedule through its whole life on a real server. The generators of TypeScript come
from npm, pinned below, once per environment; where no registry can be reached, that half is skipped, and says why.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api.serving import Service
from tests.npm_packages import npm_modules

LIFE = Path(__file__).parent / "clients" / "life.ts"
PACKAGES = ("openapi-typescript@7.13.0", "openapi-fetch@0.17.0", "typescript@5.9.3")
NAME = "generated_everwhen_client"
# Bodies of many lines and of plain text, beside which each of these calls takes JSON.
EXPECTED_WARNINGS = ("POST /api/v1/schedules/batch/", "POST /api/v1/hooks/{", "POST /api/v1/chat/{")


@pytest.fixture(scope="module")
def document(service: Service, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("document") / "openapi.json"
    path.write_bytes(replace(service.nobody, prefix="/api").get("/openapi.json").raw)
    return path


def run(*command: str | Path, folder: Path) -> str:
    environ = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        [str(word) for word in command],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


# -- Python --


@pytest.fixture(scope="module")
def generated(document: Path) -> Path:
    """The package of openapi-python-client, which can be imported."""
    folder = document.parent / NAME
    (document.parent / "config.yaml").write_text("post_hooks: []\n")
    program = Path(sys.executable).with_name("openapi-python-client")
    words = (
        "generate",
        "--path",
        document,
        "--output-path",
        folder,
        "--meta",
        "none",
        "--config",
        "config.yaml",
    )
    said = run(program, *words, folder=document.parent)
    warned = [
        line.removeprefix("WARNING parsing ") for line in said.splitlines() if line.startswith("WARNING")
    ]
    assert [line for line in warned if not line.startswith(EXPECTED_WARNINGS)] == [], said
    return folder


def test_the_python_client_has_a_function_for_every_call(document: Path, generated: Path) -> None:
    paths = json.loads(document.read_text())["paths"]
    wanted = {call["operationId"] for methods in paths.values() for call in methods.values()}
    assert {path.stem for path in (generated / "api").glob("*/*.py") if path.stem != "__init__"} == wanted


def test_the_python_client_drives_a_schedule_through_its_life(
    service: Service, generated: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(generated.parent))
    client_of = importlib.import_module(NAME).AuthenticatedClient
    models = importlib.import_module(f"{NAME}.models")

    def calls(tag: str) -> Callable[..., Any]:
        def call(name: str, *words: Any, **more: Any) -> Any:
            function = importlib.import_module(f"{NAME}.api.{tag}.{name}").sync
            return function(*words, client=client, **more)

        return call

    schedules, jobs, history, hooks = map(calls, ("schedules", "jobs", "history", "hooks"))
    patient = httpx.Timeout(60)  # its own 5 seconds are short on a busy machine
    with client_of(base_url=service.url, token=service.admin.secret, timeout=patient) as client:
        body = models.ScheduleBody(
            name="nightly",
            cron="0 2 * * *",
            if_running=models.IfRunning.QUEUE,
            circuit_breaker=models.BreakerRule(threshold=2),
            retry_delay="5m",
            run=models.Target(
                http=models.HttpTarget(url="https://example.com/", method=models.HttpMethod.PUT)
            ),
        )
        made = schedules("create_schedule", body=body)
        assert made.status is models.ScheduleStatus.ACTIVE
        assert (made.run.http.method, made.circuit_breaker.threshold) == (models.HttpMethod.PUT, 2)

        changed = schedules("update_schedule", made.id, body=models.ScheduleBody(name="weekly", jitter=None))
        assert (changed.name, changed.cron, changed.revision) == ("weekly", "0 2 * * *", 2)
        assert changed.if_running is models.IfRunning.QUEUE  # what the change does not name stays

        fields = [models.ScheduleField.NAME, models.ScheduleField.STATUS]
        listed = schedules("list_schedules", q="weekly", fields=fields)
        assert listed.total == 1
        assert listed.items[0].to_dict() == {"id": made.id, "name": "weekly", "status": "active"}

        keyed = schedules(
            "put_schedule", "python", body=models.ScheduleBody(interval_seconds=3600, workflow_id=1)
        )
        again = schedules("get_schedule_by_key", "python")
        assert (again.id, again.workflow_id, again.key) == (keyed.id, 1, "python")

        assert schedules("pause_schedule", made.id).status is models.ScheduleStatus.PAUSED
        assert schedules("resume_schedule", made.id).status is models.ScheduleStatus.ACTIVE
        payload = models.JsonObject.from_dict({"by": "hand"})
        fired = schedules("trigger_schedule", made.id, body=models.TriggerBody(payload=payload))
        assert fired.job.payload.to_dict() == {"by": "hand"}
        found = jobs("list_jobs", schedule_id=made.id, origin=models.Origin.MANUAL)
        assert [job.id for job in found.items] == [fired.job.id]
        assert history("explain_schedule", made.id).sentence

        batch = models.ScheduleBatch(schedules=[body.to_dict(), {"cron": "never"}])
        results = schedules("create_schedules", body=batch).items
        assert [result.problem and result.problem.status for result in results] == [None, 422]

        hook = models.ScheduleBody(type_=models.ScheduleType.WEBHOOK, run=body.run)
        hooked = schedules("create_schedule", body=hook)
        assert hooks("fire_webhook", hooked.id, body={"ref": "main"}).job.payload.to_dict() == {
            "body": {"ref": "main"}
        }

        assert schedules("delete_schedule", made.id) is None
        gone = schedules("get_schedule", made.id)
        assert (gone.status, gone.detail) == (404, "Scheduled job not found.")


# -- TypeScript --


@pytest.fixture(scope="module")
def npm_packages() -> Path:
    return npm_modules(*PACKAGES)


def test_the_typescript_client_is_sound_and_drives_a_schedule_through_its_life(
    service: Service, document: Path, npm_packages: Path, tmp_path: Path
) -> None:
    (tmp_path / "node_modules").symlink_to(npm_packages)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    shutil.copy(LIFE, tmp_path)
    programs = npm_packages / ".bin"
    run(programs / "openapi-typescript", document, "-o", "schema.ts", folder=tmp_path)
    options = ("--strict", "--skipLibCheck", "--target", "es2022", "--module", "nodenext", "--outDir", "made")
    run(programs / "tsc", *options, LIFE.name, folder=tmp_path)
    run("node", "made/life.js", service.url, str(service.admin.secret), folder=tmp_path)
