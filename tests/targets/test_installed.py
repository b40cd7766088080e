"""Targets of other packages, as far as they can be loaded. The example package shows the whole way."""

from __future__ import annotations

from pathlib import Path

import pytest

from everwhen.installed_kinds import installed_targets
from everwhen.model.declare import declare
from everwhen.model.schedule import Target
from everwhen.targets.registry import fault_of
from everwhen.work_sources import installed_sources
from tests.targets.running import perform

MODULE = """
class Good:
    async def run(self, spec, run):
        from everwhen.model.outcome import SUCCEEDED
        return SUCCEEDED

class Picky(Good):
    def fault_of(self, schedule_id, definition):
        return "there is no wind" if schedule_id == "sail" else definition.nothing

class Bad:
    def __init__(self):
        raise RuntimeError("no feathers")

def open_source(words):
    raise OSError("no perch")
"""
ENTRY_POINTS = """
[everwhen.targets]
good = brought_by_a_test:Good
picky = brought_by_a_test:Picky
bad = brought_by_a_test:Bad
gone = brought_by_a_test:Nobody
none = brought_by_a_test:open_source
dict = builtins:dict

[everwhen.work_sources]
perch = brought_by_a_test:open_source
directory = brought_by_a_test:open_source
"""


@pytest.fixture
def brought(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "brought_by_a_test-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: brought-by-a-test\nVersion: 1\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    (tmp_path / "brought_by_a_test.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.usefixtures("brought")
def test_what_is_installed_is_found_by_its_name() -> None:
    assert perform(installed_targets()["good"], {}).status == "succeeded"


@pytest.mark.usefixtures("brought")
@pytest.mark.parametrize(
    ("kind", "fault"),
    [
        ("bad", "RuntimeError: no feathers"),
        ("gone", "AttributeError: module 'brought_by_a_test' has no attribute 'Nobody'"),
        ("none", "TypeError: open_source() missing 1 required positional argument: 'words'"),
        ("dict", "builtins:dict has no run"),
    ],
)
def test_what_cannot_be_loaded_says_so_to_its_jobs_and_to_nobody_else(kind: str, fault: str) -> None:
    outcome = perform(installed_targets()[kind], {})
    assert outcome.invalidates
    assert outcome.error == f'the target "{kind}" cannot be loaded: {fault}'


@pytest.mark.usefixtures("brought")
@pytest.mark.parametrize(
    ("schedule_id", "kind", "fault"),
    [
        ("any", "good", None),
        ("sail", "picky", "there is no wind"),
        (
            "row",
            "picky",
            "the check of target \"picky\" failed: AttributeError: 'Definition' object has no attribute 'nothing'",
        ),
        ("any", "bad", 'the target "bad" cannot be loaded: RuntimeError: no feathers'),
        ("any", "raven", 'no target of kind "raven" on this node'),
        ("any", "message", None),
    ],
)
def test_what_keeps_a_schedule_from_running_here_is_reported(
    schedule_id: str, kind: str, fault: str | None
) -> None:
    definition = declare(schedule_id, {"every": "1h"}, target=Target(kind), now=0, timezone="UTC")
    assert fault_of(installed_targets(), schedule_id, definition) == fault


@pytest.mark.usefixtures("brought")
def test_a_work_source_that_is_built_in_cannot_be_replaced(tmp_path: Path) -> None:
    sources = installed_sources()
    assert set(sources) >= {"directory", "command", "perch"}
    assert sources["directory"]({"path": str(tmp_path)}).fetch_available() is not None
    with pytest.raises(OSError, match="no perch"):
        sources["perch"]({})
