"""Targets of other packages, as far as they can be loaded. The example package shows the whole way."""

from __future__ import annotations

from pathlib import Path

import pytest

from everwhen.targets.installed import installed_targets
from everwhen.work_sources.installed import installed_sources
from tests.targets.running import perform

MODULE = """
class Good:
    async def run(self, spec, run):
        from everwhen.model.outcome import SUCCEEDED
        return SUCCEEDED

class Bad:
    def __init__(self):
        raise RuntimeError("no feathers")

def open_source(words):
    raise OSError("no perch")
"""
ENTRY_POINTS = """
[everwhen.targets]
good = brought_by_a_test:Good
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
def test_a_work_source_that_is_built_in_cannot_be_replaced(tmp_path: Path) -> None:
    sources = installed_sources()
    assert set(sources) >= {"directory", "command", "perch"}
    assert sources["directory"]({"path": str(tmp_path)}).fetch_available() is not None
    with pytest.raises(OSError, match="no perch"):
        sources["perch"]({})
