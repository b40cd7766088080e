"""A schedule is stopped after the clock was put back, and before a scheduler has noticed it (E9)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from everwhen.testing import ManualScheduler, manual_scheduler


def pause(scheduler: ManualScheduler) -> None:
    scheduler.pause("often")


def pause_the_system(scheduler: ManualScheduler) -> None:
    scheduler.pause_system()


def edit(scheduler: ManualScheduler) -> None:
    scheduler.edit("often", every="5s")


def delete(scheduler: ManualScheduler) -> None:
    scheduler.delete("often")


@pytest.mark.parametrize("stop", [pause, pause_the_system, edit, delete])
def test_slots_that_fired_before_a_step_that_nobody_had_noticed_are_accounted_for(
    stop: Callable[[ManualScheduler], None],
) -> None:
    scheduler = manual_scheduler("2026-01-05T08:00:00Z")
    scheduler.add("often", every="2s")
    scheduler.advance("20s")
    scheduler.clock.step("-3s")
    stop(scheduler)
    scheduler.advance("10s")  # a scheduler notices the step, and records it
    assert [event.type for event in scheduler.events(None, "scheduler.clock_stepped")] == [
        "scheduler.clock_stepped"
    ]
    assert scheduler.check().is_clean
