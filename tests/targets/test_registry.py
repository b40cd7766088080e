"""The table of kinds: each has a runner, and a new one needs an entry and a module, and nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import everwhen
from everwhen.model.target_kinds import KINDS
from everwhen.target_registry import open_target_registry
from everwhen.targets.registry import maker_of
from everwhen.testing import manual_scheduler

# The walk "Add a kind of target" of CONTRIBUTING.md: an entry of `model/target_kinds.py`, and one module.
ENTRY = """
    TargetKind(
        "echo",
        "Says something.",
        "everwhen.targets.echo:make_target",
        {
            "words": TargetKey("text", "What it says.", is_required=True),
            "loud": TargetKey("flag", "In capitals.", False),
        },
    ),
)

KINDS:"""
MODULE = '''
"""Says what it is told."""

import json

from everwhen.model.outcome import Outcome
from everwhen.target import Run
from everwhen.targets.registry import Resources


class EchoTarget:
    async def run(self, spec: str, run: Run) -> Outcome:
        fields = json.loads(spec)
        return Outcome("succeeded", result=fields["words"].upper() if fields.get("loud") else fields["words"])


def make_target(resources: Resources) -> EchoTarget:
    return EchoTarget()
'''
LOOK = """
import asyncio, json, sys
from pathlib import Path

import everwhen
assert Path(everwhen.__file__).is_relative_to(sys.argv[1]), everwhen.__file__

from everwhen.api.openapi import body_schemas
from everwhen.config.problems import Report
from everwhen.config.read import Host, examine
from everwhen.config.schema import json_schema
from everwhen.model.target_kinds import run_to_json
from everwhen.target_registry import open_target_registry
from everwhen.testing import manual_scheduler

file = Path(sys.argv[1], "everwhen.yaml")
def read(run):
    file.write_text(f"schedules: [{{id: a, every: 1h, run: {run}}}]")
    report = Report()
    found = examine(file, Host({}, lambda: "UTC", 0), report)
    return found.declared.schedules, [f"{one.path}: {one.message}" for one in report.errors]

_, said = read("{echo: {word: hello}}")
assert said == [
    "schedules[0].run.echo: words is required",
    'schedules[0].run.echo.word: unknown key, did you mean "words"?',
], said
(one,), said = read("{echo: {words: hello, loud: true}}")
target = one.definition.target
assert not said and run_to_json(target) == {"echo": {"words": "hello", "loud": True}}
run = json_schema()["properties"]["schedules"]["items"]["properties"]["run"]["properties"]
assert run["echo"]["properties"]["words"] == {"type": "string", "description": "What it says."}
assert body_schemas()["Target"]["properties"]["echo"]["anyOf"][0]["required"] == ["words"]
registry = open_target_registry(manual_scheduler().runtime)
outcome = asyncio.run(registry.targets["echo"].run(target.spec, None))
assert outcome.result == "HELLO"
assert registry.fault_of("a", one.definition) is None
"""


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_the_runner_that_its_entry_names(kind: str) -> None:
    targets = open_target_registry(manual_scheduler().runtime).targets
    make = maker_of(KINDS[kind])
    assert (make is None) == (kind == "message") == (kind not in targets)
    assert make is None or targets[kind].__class__.__module__ == make.__module__


def test_a_kind_that_is_added_by_its_walk_is_checked_shown_and_run(tmp_path: Path) -> None:
    package = tmp_path / "everwhen"
    shutil.copytree(Path(everwhen.__file__).parent, package)
    table = package / "model" / "target_kinds.py"
    before, after = table.read_text().split(")\n\nKINDS:")
    table.write_text(before + ENTRY.lstrip("\n") + after)
    (package / "targets" / "echo.py").write_text(MODULE)
    done = subprocess.run(
        [sys.executable, "-c", LOOK, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        check=False,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
