"""The example package, installed for real, and run by a node that finds it by its entry points."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.api.serving import serving
from tests.config.reading import mistakes

PACKAGE = Path(__file__).parents[2] / "examples" / "pigeon-post"

RUN = """
import json, sys, threading
from everwhen.store.opened import store_of
from everwhen.model.group import agent_target
from everwhen.model.schedule import Target
from tests.submissions import Submission, create_schedule
from everwhen.model.queries import JobFilter
from everwhen.engine.service import ServiceOptions
from everwhen.wiring import build_service, open_stack

folder = sys.argv[1]
stack = open_stack("sqlite://")
ended = threading.Semaphore(0)

class Watch:
    def started(self, run): pass
    def ended(self, run, outcome): ended.release()

service = build_service(stack, ServiceOptions(observer=Watch()))
letter = Target("pigeon", json.dumps({"loft": folder, "letter": "All is well."}))
source = {"type": "lines", "path": f"{folder}/todo.txt"}
agent = agent_target("clerk", {"command": ["cat"]}, {"prompt": "Do:", "work_source": source})
for name, target in (("letter", letter), ("clerk", agent)):
    create_schedule(stack.runtime, Submission(name, {"every": "1h"}, target))
service.start()
for _ in range(2):
    assert ended.acquire(timeout=60)
service.stop()
jobs = store_of(stack.runtime).ledger.jobs(JobFilter(), limit=10)
print(json.dumps({job.schedule_id: [job.status, job.result, job.error] for job in jobs}))
stack.close()
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the package was installed into, with nothing fetched from anywhere."""
    folder = tmp_path_factory.mktemp("site")
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    how = ["--no-index", "--no-deps", "--no-build-isolation", "--target", str(folder)]
    environ = {**os.environ, "PYTHONWARNINGS": "default"}  # pip brings libraries that warn
    subprocess.run([*install, *how, str(PACKAGE)], check=True, capture_output=True, timeout=100, env=environ)
    return folder


def run_with(site: Path, folder: Path) -> dict[str, list[str | None]]:
    paths = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(folder)],
        env={**os.environ, "PYTHONPATH": paths},
        check=False,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, list[str | None]] = json.loads(done.stdout)
    return found


def test_an_installed_package_brings_a_target_and_a_work_source(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "todo.txt").write_text("fix the login\nwater the plants\n")
    jobs = run_with(installed, tmp_path)
    assert jobs["letter"] == ["succeeded", f"brought to {tmp_path}", None]
    (letter,) = tmp_path.glob("sched-*.txt")
    assert letter.read_text() == "All is well."
    status, result, _ = jobs["clerk"]
    assert status == "succeeded"
    assert (result or "").startswith("Do:\n\n## Work Item: fix the login")
    assert (tmp_path / "todo.txt").read_text() == "water the plants\n"
    assert (tmp_path / "todo.done").read_text() == "success: fix the login\n"


def test_without_the_package_its_target_is_a_drift(tmp_path: Path) -> None:
    jobs = run_with(tmp_path, tmp_path)
    assert jobs["letter"] == ["failed", None, 'no target of kind "pigeon" on this node']
    assert jobs["clerk"][2] == 'there is no work source of type "lines" on this node'


def test_its_keys_are_checked_in_files_and_over_rest_and_shown_by_openapi(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(installed)
    letter = {"loft": str(tmp_path), "letter": "All is well."}
    assert mistakes(tmp_path, "schedules: [{id: letter, every: 1h, run: {pigeon: {lotf: /tmp}}}]") == [
        "everwhen.yaml:1: schedules[0].run.pigeon: loft is required",
        'everwhen.yaml:1: schedules[0].run.pigeon.lotf: unknown key, did you mean "loft"?',
    ]
    file = f"schedules: [{{id: from-file, every: 1h, run: {{pigeon: {json.dumps(letter)}}}}}]"
    with serving(tmp_path, file=file, allow_code_targets=True) as service:
        assert service.admin.get("/schedules/from-file/").fields["run"] == {"pigeon": letter}
        body = {"name": "letter", "every": "1h", "run": {"pigeon": letter}}
        made = service.admin.post("/schedules/", body)
        assert made.status == 201 and made.fields["run"] == {"pigeon": letter}
        assert service.client("operator").post("/schedules/", body).problem == "forbidden"
        document = replace(service.nobody, prefix="").get("/api/openapi.json").fields
        pigeon = document["components"]["schemas"]["Target"]["properties"]["pigeon"]
        assert pigeon["description"] == "A letter, brought by a pigeon."
        assert pigeon["anyOf"][0] == {"$ref": "#/components/schemas/PigeonTarget"}
        assert document["components"]["schemas"]["PigeonTarget"]["required"] == ["loft"]
