"""A simulation does what the engine would: the same decisions, on a virtual clock."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from everwhen.config.read import Host, read_configuration
from everwhen.config.scenario import read_scenario
from everwhen.errors import ConfigError
from everwhen.model.declare import Declarations
from everwhen.model.instants import DAY, HOUR, MINUTE, SECOND
from everwhen.model.outcome import Outcome
from everwhen.operations.simulate import Behaviour, Scenario, Simulation, recorded_runs, simulate
from everwhen.testing import manual_scheduler

START = 1_767_571_200 * SECOND  # Monday, 2026-01-05, UTC
AT_ONCE = Scenario(Behaviour(0, 0))


def declared(directory: Path, *schedules: dict[str, Any], **sections: Any) -> Declarations:
    listed = [{"run": {"command": ["true"]}} | schedule for schedule in schedules]
    path = directory / "everwhen.yaml"
    path.write_text(f"{ {'schedules': listed} | sections }")  # YAML reads what Python writes
    return read_configuration(path, Host({}, lambda: "UTC", START)).declared


def a_day(found: Declarations, scenario: Scenario = AT_ONCE, *, days: float = 1, **more: Any) -> Simulation:
    return simulate(found, START, START + int(days * DAY), scenario=scenario, **more)


MIXED: list[dict[str, Any]] = [
    {"id": "hourly", "every": "1h"},
    {"id": "office", "cron": "*/15 * * * *", "only_between": "08:00-18:00"},
    {"id": "wait", "cron": "30 * * * *", "only_between": "08:00-18:00", "outside_window": "defer"},
    {"id": "chain", "every": "7m", "interval_from": "completion"},
    {"id": "night", "cron": "30 2 * * *", "timezone": "Europe/Berlin", "jitter": "20m"},
    {"id": "weekdays", "every": "30m", "not_on": ["monday"]},
    {"id": "once", "after": "3h"},
    {"id": "thrice", "every": "10m", "total_repeats": 3},
]


def test_a_simulation_fires_and_skips_what_the_engine_does(tmp_path: Path) -> None:
    found = a_day(declared(tmp_path, *MIXED)).counts.lines
    engine = manual_scheduler("2026-01-05T00:00:00Z")
    for fields in MIXED:
        engine.add(fields["id"], **{key: value for key, value in fields.items() if key != "id"})
    engine.advance("23h59m59s")
    for fields in MIXED:
        line, name = found[fields["id"]], fields["id"]
        assert (name, line.fired) == (name, len(engine.jobs(name)))
        state = engine.state(name)
        skipped = (
            sum(event.slot_count for event in engine.events(name, "schedule.skipped")) + state.skip_count
        )
        assert (name, line.skipped.total()) == (name, skipped)


def test_a_long_run_makes_the_following_slots_skip(tmp_path: Path) -> None:
    found = a_day(
        declared(tmp_path, {"id": "a", "every": "1h"}), Scenario(Behaviour(150 * MINUTE, 150 * MINUTE))
    )
    line = found.counts.lines["a"]
    assert (line.ended["timed_out"], line.skipped) == (23, {})  # its timeout is an hour; the last still runs
    patient = declared(tmp_path, {"id": "a", "every": "1h", "timeout": 0})
    line = a_day(patient, Scenario(Behaviour(150 * MINUTE, 150 * MINUTE))).counts.lines["a"]
    assert (line.fired, line.skipped) == (8, {"already_running": 16})


def test_a_small_call_executor_makes_jobs_wait(tmp_path: Path) -> None:
    three = declared(tmp_path, *({"id": f"s{n}", "cron": "0 * * * *"} for n in range(3)))
    busy = Scenario(Behaviour(5 * MINUTE, 5 * MINUTE))
    alone, together = (a_day(three, busy, max_workers=call_executor) for call_executor in (1, 8))
    assert (alone.counts.peak_running, together.counts.peak_running) == (1, 3)
    assert max(line.longest_wait for line in alone.counts.lines.values()) == 10 * MINUTE
    assert max(line.longest_wait for line in together.counts.lines.values()) == 0


def test_an_outage_quiet_hours_and_a_run_before_it_are_no_wait_for_a_worker(tmp_path: Path) -> None:
    late = declared(
        tmp_path,
        {"id": "caught-up", "cron": "0 * * * *", "catch_up": "run_once"},
        {"id": "deferred", "cron": "30 * * * *", "only_between": "08:00-18:00", "outside_window": "defer"},
        {"id": "in-line", "every": "1h", "if_running": "queue", "timeout": 0},
    )
    behaviours = {"in-line": Behaviour(90 * MINUTE, 90 * MINUTE)}
    away = ((START + 3 * HOUR, START + 5 * HOUR + 7 * MINUTE),)
    lines = a_day(late, Scenario(Behaviour(0, 0), behaviours, away)).counts.lines.values()
    assert all(line.fired for line in lines)
    assert {line.schedule_id: line.longest_wait for line in lines if line.longest_wait} == {}


def test_a_slot_whose_job_still_waits_at_the_end_has_fired(tmp_path: Path) -> None:
    piling_up = declared(tmp_path, {"id": "a", "every": "1h", "if_running": "queue", "timeout": 0})
    line = a_day(piling_up, Scenario(Behaviour(2 * HOUR, 2 * HOUR))).counts.lines["a"]
    assert (line.slots, line.fired, sum(line.fired_in), line.ended) == (24, 24, 24, {"succeeded": 11})


def test_capacity_of_a_group_is_kept(tmp_path: Path) -> None:
    agent = {
        "command": ["x"],
        "max_concurrent": 1,
        "schedules": {f"s{n}": {"cron": "0 * * * *", "if_running": "queue"} for n in range(3)},
    }
    found = a_day(declared(tmp_path, agents={"bot": agent}), Scenario(Behaviour(MINUTE, MINUTE)))
    assert found.counts.peak_running == 1
    assert {line.fired for line in found.counts.lines.values()} == {23}  # cron is strictly after


def test_an_outage_misses_slots_and_catch_up_stands_for_them(tmp_path: Path) -> None:
    two = declared(tmp_path, {"id": "a", "every": "1h"}, {"id": "b", "every": "1h", "catch_up": "run_once"})
    down = Scenario(Behaviour(0, 0), outages=[(START + 2 * HOUR, START + 6 * HOUR + 30 * MINUTE)])
    lines = a_day(two, down).counts.lines
    assert (lines["a"].missed, lines["a"].fired) == ({"down": 5}, 19)
    assert (lines["b"].missed.total(), lines["b"].caught_up, lines["b"].fired) == (0, 4, 20)
    assert lines["a"].slots == lines["b"].slots == 24


def test_failures_come_by_the_share_and_the_same_every_time(tmp_path: Path) -> None:
    every_minute = declared(tmp_path, {"id": "a", "every": "1m"})
    ended = [
        a_day(every_minute, Scenario(Behaviour(0, SECOND, 0.25))).counts.lines["a"].ended for _ in range(2)
    ]
    assert ended[0] == ended[1]
    assert 0.2 < ended[0]["failed"] / ended[0].total() < 0.3


def test_a_disabled_schedule_is_listed_and_silent(tmp_path: Path) -> None:
    found = a_day(declared(tmp_path, {"id": "a", "every": "1m", "enabled": False}))
    assert found.counts.lines["a"].slots == 0


def test_runs_can_be_those_on_record(tmp_path: Path) -> None:
    engine = manual_scheduler("2026-01-05T00:00:00Z")
    engine.add("a", every="1h")
    engine.outcome = lambda claimed: Outcome("failed", error="as ever")
    engine.advance("3h")
    runs = recorded_runs(engine.runtime, Scenario())
    both = declared(tmp_path, {"id": "a", "every": "1h"}, {"id": "new", "every": "1h"})
    lines = a_day(both, runs=runs).counts.lines
    assert (lines["a"].ended["failed"], lines["new"].ended["succeeded"]) == (24, 24)


def test_the_time_line_spreads_a_range_of_skips(tmp_path: Path) -> None:
    found = a_day(declared(tmp_path, {"id": "a", "every": "1m", "only_between": "12:00-24:00"}))
    line = found.counts.lines["a"]
    assert line.passed_in[:30] == [24] * 30 and sum(line.passed_in) == 720
    assert line.fired_in[30:] == [24] * 30


# -- scenario files --


def test_a_scenario_file_says_how_runs_behave(tmp_path: Path) -> None:
    path = tmp_path / "busy.yaml"
    path.write_text(
        "default: {duration: 2s}\n"
        'schedules: {"w.*": {duration: 5s-2m, fails: 12.5%}}\n'
        "outages: [{from: 2026-01-05T02:00, to: 2026-01-05T03:00}]\n"
    )
    found = read_scenario(path)
    assert found.behaviour("w.poll") == Behaviour(5 * SECOND, 2 * MINUTE, 0.125)
    assert found.behaviour("other") == Behaviour(2 * SECOND, 2 * SECOND)
    assert list(found.outages) == [(START + 2 * HOUR, START + 3 * HOUR)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("defaults: {}", 's.yaml:1: defaults: unknown key, did you mean "default"?'),
        ("default: {duration: 2m-5s}", 'default.duration: "2m-5s" goes from the longest to the shortest'),
        ("default: {duration: soon}", "default.duration: "),
        ("default: {fails: 5}", 'default.fails: "5" is not a percentage; write it like 5%'),
        ("default: {fails: 500%}", 'default.fails: "500%" is not a percentage'),
        ("outages: [{from: 2026-01-05T02:00}]", "outages[0]"),
        ("outages: [{from: 2026-01-05T02:00, to: 2026-01-05T01:00}]", "one ends before it begins"),
    ],
)
def test_a_mistake_in_a_scenario_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        read_scenario(path)
    assert message in str(caught.value)


def test_a_retry_gives_its_place_back_when_it_ends(tmp_path: Path) -> None:
    """Failing runs with a retry each leave no place taken, so none of the later slots is held."""
    often = {"id": "a", "every": "1h", "max_outstanding": 1, "max_retries": 1, "retry_delay": "1m"}
    line = a_day(declared(tmp_path, often), Scenario(Behaviour(0, 0, failing=1.0))).counts.lines["a"]
    assert line.ended["failed"] == 2 * line.fired and line.fired >= 23
