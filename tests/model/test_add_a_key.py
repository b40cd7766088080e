"""The walk "Add a key" of CONTRIBUTING.md, done in a copy of the tree: every surface has the key afterwards."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
ATTRIBUTE = "    ping_url: str | None = None\n"
ROW = '    "expect": Field('
LOOK = """
import json, sys
from pathlib import Path
from typing import get_type_hints

import everwhen
root = Path(sys.argv[1])
assert Path(everwhen.__file__).is_relative_to(root), everwhen.__file__

from click.testing import CliRunner

from everwhen import ScheduleOptions
from everwhen.api.app import create_app
from everwhen.api.context import ApiContext
from everwhen.cli.config_command import command as config
from everwhen.cli.schedules_command import command as schedules
from everwhen.config.settings import ApiSettings
from everwhen.config.submission import SubmissionRules
from everwhen.errors import SubmissionError
from everwhen.testing import manual_scheduler

file, database = root / "everwhen.yaml", f"sqlite:///{root}/x.db"
here = ["--config", str(file)]
def write(keys):
    file.write_text(f"schedules: [{{id: a, every: 1h, {keys}, run: {{command: [x]}}}}]")
def run(group, *words):
    return CliRunner().invoke(group, list(words)).output

# the check of a file, with lines and suggestions
write("wieght: 3")
assert f'{file}:1: schedules[0].wieght: unknown key, did you mean "weight"?' in run(config, "check", *here)
write("weight: 99")
assert "schedules[0].weight: must be a whole number from 1 to 10, not 99" in run(config, "check", *here)

# the JSON Schema
schema = json.loads(run(config, "schema"))["properties"]
described = {"type": "integer", "minimum": 1, "maximum": 10, "description": "How much it counts.", "default": 5}
assert schema["schedules"]["items"]["properties"]["weight"] == described
assert "weight" in schema["plugins"]["additionalProperties"]["properties"]["schedule"]["properties"]
of_agents = schema["agents"]["additionalProperties"]["properties"]["schedules"]["additionalProperties"]
assert "weight" in of_agents["properties"]

# OpenAPI: the body, and the answer
s = manual_scheduler()
document = create_app(ApiContext(s.runtime, ApiSettings(), SubmissionRules)).openapi()
schemas = document["components"]["schemas"]
body = schemas["ScheduleBody"]["properties"]["weight"]
assert (body["anyOf"][0]["maximum"], body["description"]) == (10, "How much it counts. Default: 5."), body
assert "weight" in schemas["ScheduleField"]["enum"]
answer = schemas["Schedule"]
assert answer["properties"]["weight"]["type"] == "integer" and "weight" in answer["required"]

# Python, and tests
assert get_type_hints(ScheduleOptions)["weight"] is int
s.add("a", every="1h", weight=7)
assert s.runtime.catalogue.get("a").definition.weight == 7
try:
    s.add("b", every="1h", weight=70)
except SubmissionError as error:
    assert error.problems == (("weight", "must be a whole number from 1 to 10, not 70"),)

# the command line
assert "--weight" in run(schedules, "create", "--help")

# config show, and the diff
write("weight: 2")
assert "weight: 2" in run(config, "show", *here)
run(config, "reload", "--database", database, *here)
made = json.loads(run(schedules, "create", "--weight", "8", "--every", "1h", "--run",
                      '{"message": {"text": "hello"}}', "--json", "--database", database))
assert made["weight"] == 8
write("weight: 3")
assert "weight: 2 \N{RIGHTWARDS ARROW} 3" in run(config, "diff", "--database", database, *here)
"""


def test_a_key_that_is_added_by_its_walk_is_on_every_surface(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "src" / "everwhen", tmp_path / "src" / "everwhen")
    shutil.copytree(ROOT / "tools", tmp_path / "tools")
    table = tmp_path / "src" / "everwhen" / "model" / "fields.py"
    text = table.read_text(encoding="utf-8")
    assert text.count(ATTRIBUTE) == text.count(ROW) == 1
    text = text.replace(ATTRIBUTE, ATTRIBUTE + "    weight: int = 5\n")
    text = text.replace(ROW, f'    "weight": Field(Number(1, 10), "How much it counts."),\n{ROW}')
    table.write_text(text, encoding="utf-8")
    run(tmp_path, "-m", "tools.reference")
    run(tmp_path, "-c", LOOK, str(tmp_path))
    reference = (tmp_path / "docs" / "reference" / "schedule-keys.md").read_text(encoding="utf-8")
    assert "| `weight` | 1 to 10 | `5` | How much it counts.<br>Example: `weight: 10` |" in reference


def run(folder: Path, *words: str) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("EVERWHEN_")}
    done = subprocess.run(
        [sys.executable, *words],
        env={**environment, "PYTHONPATH": str(folder / "src")},
        cwd=folder,
        check=False,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stdout + done.stderr
