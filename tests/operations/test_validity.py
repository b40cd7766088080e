"""Schedules that cannot be run as declared stop, and go on by themselves when they can (R7)."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from everwhen.operations.groups import restore_valid_schedules
from everwhen.operations.schedules import invalidate_schedule
from everwhen.target_registry import open_target_registry
from everwhen.testing import manual_scheduler


def test_a_schedule_whose_function_is_back_is_restored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    scheduler = manual_scheduler()
    scheduler.add("recount", every="1h", run={"python": "everwhen_test_tasks:recount"})
    invalidate_schedule(scheduler.runtime, "recount", "cannot import 'everwhen_test_tasks'")
    target_registry = open_target_registry(scheduler.runtime)
    assert restore_valid_schedules(scheduler.runtime, target_registry.fault_of) == []
    (tmp_path / "everwhen_test_tasks.py").write_text("def recount(run): ...\n")
    importlib.invalidate_caches()
    assert restore_valid_schedules(scheduler.runtime, target_registry.fault_of) == ["recount"]
    assert scheduler.state("recount").status == "active"
    scheduler.stack.close()
