"""The examples that talk to a service, and the sample of `make run`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from everwhen.config.read import Host, read_configuration
from everwhen.wiring import plugins_in
from tests.api.serving import Service

EXAMPLES = Path(__file__).parents[2] / "examples"


def client(service: Service, *fields: str, token: str | None = None) -> subprocess.CompletedProcess[str]:
    secret = token or service.admin.secret or ""
    return subprocess.run(
        [sys.executable, str(EXAMPLES / "pipelit-client" / "client.py"), *fields],
        env={"PATH": os.environ["PATH"], "EVERWHEN_URL": service.url, "EVERWHEN_TOKEN": secret},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_example_of_a_client_creates_pauses_and_deletes_a_schedule(service: Service) -> None:
    answer = client(service, "1")
    assert answer.returncode == 0, answer.stderr
    lines = answer.stdout.splitlines()
    assert lines[0].startswith("created Daily report (active), next run at ")
    assert lines[1:] == [
        "2 active jobs of workflow 1",
        "every 43200 seconds from now on",
        "paused: paused; resumed: active",
        "0 runs so far",
        "deleted",
    ]


def test_the_client_tells_what_the_service_says(service: Service) -> None:
    assert client(service, "77").stderr == "404: Workflow not found.\n"
    assert client(service, "1", token="ew_wrong").stderr.startswith("401: ")


def test_the_sample_of_make_run_has_every_kind() -> None:
    path = EXAMPLES / "quickstart" / "everwhen.yaml"
    configuration = read_configuration(path, Host({}, lambda: "UTC", 0, plugins_in))
    found = configuration.declared.schedules
    kinds = {one.definition.target.kind for one in found}
    assert kinds == {"plugin", "agent", "command", "http", "message"}
    assert any(one.definition.breaker for one in found if one.schedule_id == "broken")
    sections = configuration.declared.sections
    assert {"budgets.archivist", "budgets.reviewer"} <= set(sections) and any(
        "notify" in one for one in sections
    )
