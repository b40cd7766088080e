"""What a reload would change, with the firings of the next week."""

from __future__ import annotations

from pathlib import Path

import pytest

from everwhen.model.instants import HOUR, to_datetime
from everwhen.operations.diff import ScheduleChange, diff
from tests.operations.test_apply import Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def only(place: Place) -> ScheduleChange:
    (change,) = diff(place.runtime, place.read())
    return change


def test_a_daily_time_that_changes_moves_its_firings(place: Place) -> None:
    place.apply(a={"cron": "0 9 * * *"})
    place.write(a={"cron": "0 10 * * *"})
    change = only(place)
    assert (change.what, [key.key for key in change.keys]) == ("changed", ["trigger"])
    assert len(change.firings.moved) == 7
    old, new = change.firings.moved[0]
    assert (to_datetime(old).hour, new - old) == (9, HOUR)


def test_a_narrower_window_makes_firings_vanish(place: Place) -> None:
    place.apply(a={"cron": "0 * * * *"})
    place.write(a={"cron": "0 * * * *", "only_between": "08:00-18:00"})
    firings = only(place).firings
    assert (firings.kept, len(firings.vanished), firings.appeared) == (69, 98, ())


def test_quiet_hours_that_change_show_on_the_schedules_that_name_them(place: Place) -> None:
    place.sections = {"quiet_hours": {"nights": {"windows": [{"between": "22:00-07:00"}]}}}
    place.apply(a={"cron": "0 * * * *", "quiet_hours": "nights"}, b={"cron": "0 * * * *"})
    place.sections = {"quiet_hours": {"nights": {"windows": [{"between": "22:00-06:00"}]}}}
    place.write(a={"cron": "0 * * * *", "quiet_hours": "nights"}, b={"cron": "0 * * * *"})
    change = only(place)
    assert (change.schedule_id, len(change.firings.appeared)) == ("a", 7)


def test_what_comes_and_goes_appears_and_vanishes(place: Place) -> None:
    place.apply(a={"every": "1d"}, b={"every": "1d"})
    place.write(b={"every": "1d", "enabled": False}, c={"every": "1d"})
    gone, off, new = diff(place.runtime, place.read())
    assert (gone.what, len(gone.firings.vanished)) == ("removed", 7)
    assert (off.what, [key.key for key in off.keys], len(off.firings.vanished)) == ("changed", ["status"], 7)
    assert (new.what, len(new.firings.appeared)) == ("created", 7)


def test_another_target_leaves_the_firings_alone(place: Place) -> None:
    place.apply(a={"every": "1d"})
    place.write(a={"every": "1d", "run": {"command": ["false"]}})
    change = only(place)
    assert ([key.key for key in change.keys], change.firings.is_same) == (["target"], True)


def test_a_look_changes_nothing(place: Place) -> None:
    place.apply(a={"every": "1d"})
    before = place.scheduler.state("a")
    place.write(a={"every": "2d"})
    assert diff(place.runtime, place.read())
    assert place.scheduler.state("a") == before
    place.write(a={"every": "1d"})
    assert diff(place.runtime, place.read()) == []


def test_a_chain_is_compared_as_if_its_runs_took_no_time(place: Place) -> None:
    place.apply(a={"every": "1d", "interval_from": "completion", "first_run": "after_interval"})
    place.write(a={"every": "2d", "interval_from": "completion", "first_run": "after_interval"})
    firings = only(place).firings
    assert (len(firings.vanished) + firings.kept, len(firings.appeared) + firings.kept) == (6, 3)


def test_a_one_shot_that_moves_is_one_firing(place: Place) -> None:
    place.apply(a={"at": "2026-01-06T09:00:00Z"})
    place.write(a={"at": "2026-01-06T10:00:00Z"})
    (moved,) = only(place).firings.moved
    assert moved[1] - moved[0] == HOUR
