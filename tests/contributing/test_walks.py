"""The walks of CONTRIBUTING.md that add a column, a skip reason and a REST call, done together in a copy of the tree.

The walks that add a key and a kind of target have tests of their own: `tests/model/test_add_a_key.py` and
`tests/targets/test_registry.py`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# By file below `src/everwhen`: a text that is found there once, and what is written in front of it.
COLUMN = {
    "store/schema/migrations.py": {
        # The end of the newest script.
        '"""\n\n\ndef _spread(': "ALTER TABLE jobs ADD COLUMN colour TEXT DEFAULT 'red';\n"
    },
    "model/job.py": {"\n    @property\n    def is_own(": "    colour: str | None = None\n"},
}
SKIP_REASON = {
    "model/reasons.py": {
        '    "superseded",\n': '    "full_moon",\n',
        '    "superseded": f"{WAS_HELD}': '    "full_moon": "the moon was full",\n',
        '    "superseded": "the next slot came first",': '    "full_moon": "full moon",\n',
    },
    "decide/tick.py": {
        "    gate = breakers.gate(": '    if definition.jitter_ms:\n        return "full_moon"\n'
    },
    "verify/reasons.py": {
        '    "superseded": _superseded,': (
            '    "full_moon": lambda case: None if case.definition.jitter_ms else "there was no moon",\n'
        )
    },
}
REST_CALL = {
    "operations/system.py": {
        "def is_alive(": "def count_moons(_runtime: Runtime) -> int:\n    return 1\n\n\n"
    },
    "views/system.py": {"class QuietWindow(": "class Moons(View):\n    moons: int\n\n\n"},
    "api/routes/system.py": {
        '@router.post("/system/resume/"': '''
@router.get("/moons/", **described("Count moons", view.Moons, "How many."))
@cheap
def get_moons(context: Context, _caller: Viewer) -> Response:
    """All."""
    return answer(view.Moons.made(moons=system.count_moons(context.runtime)))


'''
    },
}
LOOK = """
import sys
from pathlib import Path

import everwhen
root = Path(sys.argv[1])
assert Path(everwhen.__file__).is_relative_to(root), everwhen.__file__

from everwhen.api.app import create_app
from everwhen.api.context import ApiContext
from everwhen.config.settings import ApiSettings
from everwhen.config.submission import SubmissionRules
from everwhen.store.schema.migrations import POSTGRES_MIGRATIONS
from everwhen.telemetry.metrics import Metrics
from everwhen.testing import manual_scheduler

s = manual_scheduler()
metrics = Metrics(s.runtime)
list(metrics.collect())
s.add("a", every="1h")
s.add("b", every="1h", jitter="5s")
s.advance("61m")

# the column: written by its default, and read
assert {job.colour for job in s.jobs("a")} == {"red"}
assert "ALTER TABLE jobs ADD COLUMN colour text DEFAULT 'red'" in POSTGRES_MIGRATIONS[-1].before

# the reason: of the slot, in `why`, in the metrics, and in the check of the ledger
assert {event.reason for event in s.events("b", "schedule.skipped")} == {"full_moon"}
assert "the moon was full" in s.why("b").sentence
assert ("skipped", "full_moon") in [(sample.labels.get("outcome"), sample.labels.get("reason"))
    for metric in metrics.collect() for sample in metric.samples if sample.value], "metrics"
assert not s.check().faults
from everwhen.views.terms import terms_to_json
assert {"full moon"} <= {term["text"] for term in terms_to_json()["reasons"]}

# the call: with its role and its answer
document = create_app(ApiContext(s.runtime, ApiSettings(), SubmissionRules)).openapi()
call = document["paths"]["/api/v1/moons/"]["get"]
assert call["security"] == document["paths"]["/api/v1/breakers/"]["get"]["security"]
assert document["components"]["schemas"]["Moons"]["properties"]["moons"]["type"] == "integer"
assert "401" in call["responses"], list(call["responses"])
"""


def test_a_column_a_reason_and_a_call_need_the_files_that_their_walks_name(tmp_path: Path) -> None:
    package = tmp_path / "everwhen"
    shutil.copytree(ROOT / "src" / "everwhen", package, ignore=shutil.ignore_patterns("__pycache__"))
    assert (len(COLUMN), len(SKIP_REASON), len(REST_CALL)) == (2, 3, 3)
    for name, edits in (COLUMN | SKIP_REASON | REST_CALL).items():
        text = (package / name).read_text(encoding="utf-8")
        for place, addition in edits.items():
            assert text.count(place) == 1, (name, place)
            text = text.replace(place, addition + place)
        (package / name).write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", LOOK, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        check=False,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def named_files() -> list[str]:
    """Return every path in backquotes of CONTRIBUTING.md that names a Python file or a folder of the package."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    return sorted(
        {name for name in re.findall(r"`([\w./-]+(?:\.py|\.md|\.txt|\.toml|/))`", text) if "NAME" not in name}
    )


@pytest.mark.parametrize("name", named_files())
def test_every_file_that_the_page_names_exists(name: str) -> None:
    assert (ROOT / name).exists() or (ROOT / "src" / "everwhen" / name).exists()


@pytest.mark.parametrize(
    "package", ["", "api", "store", "store/schema", "store/sqlite", "store/postgres", "timetable"]
)
def test_the_page_of_the_architecture_names_every_package_and_every_file_of_these(package: str) -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = set(re.findall(r"\w+", text))
    here = [path for path in (ROOT / "src" / "everwhen" / package).iterdir() if path.suffix in ("", ".py")]
    assert {path.stem for path in here} - {"__init__", "__pycache__"} <= named


def test_every_file_that_the_page_of_the_architecture_names_exists() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    known = {path.name for folder in ("src", "tests") for path in (ROOT / folder).rglob("*.py")}
    assert {Path(name).name for name in re.findall(r"`([\w/]+\.py)`", text)} <= known


def test_ten_questions_have_their_answers() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = [line for line in text.partition("Ten questions")[2].splitlines() if line.startswith("| ")][1:]
    assert len(rows) == 10
    assert all(re.search(r"\? \| `\w+/\w+\.py`", row) for row in rows)
