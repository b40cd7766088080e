"""Applying a file to a database: what is created, edited, removed and left alone, all in one transaction."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from everwhen.config.read import Host, read_configuration
from everwhen.decide.alerts import closings_of
from everwhen.errors import ConfigError, RemovalError
from everwhen.model.alerts import Alert
from everwhen.model.declare import Declarations
from everwhen.operations.apply import Applied, apply, preview, reload
from everwhen.operations.schedules import invalidate_schedule
from everwhen.store.opened import store_of
from everwhen.testing import ManualScheduler, manual_scheduler

RUN = {"command": ["true"]}


class Place:
    """A file, and the scheduler that it is applied to."""

    def __init__(self, folder: Path, **keys: Any) -> None:
        self.path = folder / "everwhen.yaml"
        self.scheduler: ManualScheduler = manual_scheduler("2026-01-05T08:00:00Z", **keys)
        self.runtime = store_of(self.scheduler.runtime)
        self.sections: dict[str, Any] = {}

    def read(self) -> Declarations:
        host = Host({}, lambda: "UTC", self.scheduler.clock.now())
        return read_configuration(self.path, host).declared

    def write(self, **schedules: dict[str, Any]) -> None:
        entries = [{"id": name, "run": RUN, **fields} for name, fields in schedules.items()]
        self.path.write_text(yaml.safe_dump({**self.sections, "schedules": entries}))

    def apply(self, **schedules: dict[str, Any]) -> Applied:
        self.write(**schedules)
        return apply(self.runtime, self.read())

    def reload(self, **keys: Any) -> Applied:
        return reload(self.runtime, self.read, actor="ada", **keys)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_an_after_counts_from_its_creation_and_not_from_the_reading_of_the_file(place: Place) -> None:
    place.write(soon={"after": "2s"})
    declared = place.read()
    place.scheduler.clock.advance("30s")  # a slow start, or a database whose clock is ahead
    apply(place.runtime, declared)
    state = place.scheduler.state("soon")
    assert state.status == "active"
    assert state.next_run_at == place.scheduler.clock.now() + 2_000_000


def test_an_after_that_is_edited_counts_from_the_edit(place: Place) -> None:
    place.apply(soon={"after": "1h"})
    place.write(soon={"after": "2s"})
    declared = place.read()
    place.scheduler.clock.advance("30s")
    apply(place.runtime, declared)
    assert place.scheduler.state("soon").next_run_at == place.scheduler.clock.now() + 2_000_000


def test_new_ones_are_created_changed_ones_edited_lost_ones_removed_the_rest_left_alone(place: Place) -> None:
    s = place.scheduler
    s.add("mine", every="1h")
    first = place.apply(a={"every": "1h"}, b={"after": "1h"}, c={"every": "1h"})
    assert first.created == ("a", "b", "c")
    s.advance("30m")
    kept = s.state("b")
    second = place.apply(a={"every": "2h"}, b={"after": "1h"})
    assert second == Applied((), ("a",), ("c",))
    assert s.state("b") == kept  # an `after` that was fixed stays fixed
    assert s.state("mine").status == "active"
    assert s.check().is_clean


def test_the_same_file_twice_changes_nothing_and_is_not_put_on_record(place: Place) -> None:
    place.apply(a={"every": "1h"})
    before = len(place.scheduler.events(None))
    assert not place.apply(a={"every": "1h"})
    assert len(place.scheduler.events(None)) == before


def test_enabled_in_the_file_pauses_and_resumes_but_never_what_a_person_paused(place: Place) -> None:
    s = place.scheduler
    place.apply(a={"every": "1h"}, b={"every": "1h"})
    s.pause("b")
    place.apply(a={"every": "1h", "enabled": False}, b={"every": "1h"})
    assert (s.state("a").status, s.state("a").paused_by) == ("paused", "config")
    place.apply(a={"every": "1h"}, b={"every": "1h"})
    assert (s.state("a").status, s.state("b").status) == ("active", "paused")
    assert s.check().is_clean


def test_a_schedule_that_is_disabled_and_edited_at_once_is_both(place: Place) -> None:
    s = place.scheduler
    place.apply(a={"every": "1h"})
    place.apply(a={"every": "2h", "enabled": False})
    assert (s.state("a").status, s.state("a").revision) == ("paused", 2)
    assert s.check().is_clean


def test_a_valid_definition_heals_an_invalid_schedule(place: Place) -> None:
    s = place.scheduler
    place.apply(a={"every": "1h"})
    invalidate_schedule(s.runtime, "a", "its command is gone")
    assert place.apply(a={"every": "1h"}).switched == ("a",)
    assert s.state("a").status == "active"
    assert s.check().is_clean


def test_counters_and_running_jobs_survive_a_reload(place: Place) -> None:
    s = place.scheduler
    place.apply(a={"every": "1h"})
    s.advance("90m")
    s.advance("1h", work=False)
    (running,) = s.claim()
    place.apply(a={"every": "3h"})
    s.settle(running)
    state = s.state("a")
    assert (state.run_count, state.fire_count, state.running_jobs) == (3, 3, 0)
    assert s.check().is_clean


def test_a_one_shot_of_an_old_file_is_done_on_a_new_machine(place: Place) -> None:
    place.apply(a={"at": "2020-01-01T00:00:00Z"})
    state = place.scheduler.state("a")
    assert (state.status, state.status_reason) == ("done", "in_the_past")


def test_a_naive_time_moves_with_its_zone(place: Place) -> None:
    s = place.scheduler
    place.apply(a={"at": "2026-01-06T12:00:00"})
    first = s.state("a").next_slot_at
    place.apply(a={"at": "2026-01-06T12:00:00", "timezone": "Asia/Tokyo"})
    moved = s.state("a").next_slot_at
    assert first is not None and moved is not None
    assert first - moved == 9 * 3_600_000_000


def test_quiet_hours_of_the_file_come_change_and_go_with_it(place: Place) -> None:
    s = place.scheduler
    nights = {"nights": {"windows": [{"between": "22:00-07:00"}]}}
    place.sections = {"quiet_hours": nights}
    place.apply(a={"cron": "0 * * * *", "quiet_hours": "nights"})
    s.advance("24h")
    assert len(s.jobs("a")) == 15
    nights["nights"]["windows"][0]["between"] = "12:00-13:00"
    place.apply(a={"cron": "0 * * * *", "quiet_hours": "nights"})
    s.advance("24h")
    assert len(s.jobs("a")) == 15 + 23
    place.sections = {}
    place.apply(a={"cron": "0 * * * *"})
    assert store_of(s.runtime).catalogue.policies() == []
    assert s.check().is_clean


def test_an_id_that_came_over_rest_is_not_taken_over(place: Place) -> None:
    place.scheduler.add("a", every="1h")
    with pytest.raises(
        ConfigError, match=r'everwhen.yaml:2: a schedule "a" was created over REST or in Python'
    ):
        place.apply(a={"every": "2h"})
    assert place.scheduler.state("a").revision == 1


def test_removing_more_than_half_of_ten_is_asked_about(place: Place) -> None:
    place.apply(**{f"s{number}": {"every": "1h"} for number in range(10)})
    fewer = {f"s{number}": {"every": "1h"} for number in range(4)}
    with pytest.raises(RemovalError, match="this would remove 6 of 10 schedules"):
        place.apply(**fewer)
    assert len(place.runtime.catalogue.of_source("config")) == 10
    assert len(place.reload(may_remove_most=True).removed) == 6


@pytest.mark.parametrize(("present", "left"), [(9, 1), (10, 5)])
def test_removing_half_or_a_few_is_not_asked_about(place: Place, present: int, left: int) -> None:
    place.apply(**{f"s{number}": {"every": "1h"} for number in range(present)})
    place.apply(**{f"s{number}": {"every": "1h"} for number in range(left)})
    assert len(place.runtime.catalogue.of_source("config")) == left


def test_a_reload_is_put_on_record_with_what_it_did(place: Place) -> None:
    place.apply(a={"every": "1h"})
    place.write(a={"every": "2h"}, b={"every": "1h"})
    place.reload()
    *_, event = place.scheduler.events(None, "config.reloaded")
    assert event.actor == "ada"
    assert event.detail["created"] == {"count": 1, "ids": ["b"]}
    assert event.detail["changed"] == {"count": 1, "ids": ["a"]}


def test_a_bad_file_is_refused_whole_put_on_record_and_the_old_one_goes_on(place: Place) -> None:
    place.apply(a={"every": "1h"})
    place.write(a={"every": "2h"}, b={"every": "5x"}, c={"cron": "0 25 * * *"})
    with pytest.raises(ConfigError):
        place.reload()
    (event,) = place.scheduler.events(None, "config.rejected")
    assert event.detail["mistakes"] == 2
    assert place.scheduler.state("a").revision == 1
    assert [s.state.schedule_id for s in place.runtime.catalogue.of_source("config")] == ["a"]


def test_a_file_that_is_as_it_was_again_ends_the_alert_about_the_one_that_was_refused(place: Place) -> None:
    place.apply(a={"every": "1h"})
    place.reload()
    assert len(place.scheduler.events(None, "config.reloaded")) == 1  # nothing changed, and nothing was wrong
    rejected = Alert.about("config.rejected", "configuration", place.scheduler.clock.now())
    place.runtime.alerts.keep([rejected])
    place.reload()
    *_, event = place.scheduler.events(None, "config.reloaded")
    assert [one.key for one in closings_of(event)] == [rejected.key]
    by_program = event._replace(detail={**event.detail, "source": "python:app"})
    assert closings_of(by_program) == []  # which says nothing about the file


def test_where_each_schedule_stands_is_known(place: Place) -> None:
    place.apply(a={"every": "1h"}, b={"every": "1h"})
    assert {
        name: text.rpartition(":")[2] for name, text in place.runtime.catalogue.config_places().items()
    } == {
        "a": "2",
        "b": "7",
    }


def test_a_preview_writes_nothing(place: Place) -> None:
    place.write(a={"every": "1h"})
    assert [one.schedule_id for one in preview(place.runtime, place.read()).created] == ["a"]
    assert place.runtime.catalogue.of_source("config") == []
