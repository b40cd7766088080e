"""Rows D: Ductile's scheduler, as far as deciding and storing go."""

from __future__ import annotations

import json
from typing import Any

import pytest

from everwhen.model.claim import ClaimedJob
from everwhen.model.outcome import Outcome
from everwhen.store.opened import store_of
from everwhen.testing import ManualScheduler, manual_scheduler

FAILED = Outcome("failed", error="no luck")


def scheduler(start: str = "2026-01-05T08:00:00Z", **keys: Any) -> ManualScheduler:
    return manual_scheduler(start, **keys)


def plugin_schedule(s: ManualScheduler, local_id: str = "default", **fields: Any) -> str:
    """A schedule as Ductile's section declares it: guard 1, breaker 3 in 30 minutes."""
    fields = {
        "command": "poll",
        "max_outstanding": 1,
        "circuit_breaker": {"threshold": 3, "reset_after": "30m"},
        **fields,
    }
    name = f"withings.{local_id}"
    s.add(name, group="withings", **fields)
    return name


def slots(s: ManualScheduler, schedule_id: str) -> list[str]:
    return [f"{job.slot:%H:%M:%S}" for job in s.jobs(schedule_id)]


def test_d3_a_job_carries_the_command_and_the_payload_of_its_schedule() -> None:
    s = scheduler()
    plugin_schedule(s, "hourly", command="token_refresh", every="1h", payload={"source": "scheduler"})
    s.tick()
    (claimed,) = s.claim()
    assert claimed.definition.command == "token_refresh"
    assert json.loads(claimed.definition.payload) == {"source": "scheduler"}


def test_d13_jitter_moves_when_a_slot_is_due_not_which_slot_it_is() -> None:
    s = scheduler()
    s.add("a", every="1h", jitter="5m")
    s.advance("5h")
    jobs = s.jobs("a")
    assert [f"{job.slot:%H:%M:%S}" for job in jobs[:3]] == ["08:00:00", "09:00:00", "10:00:00"]
    offsets = [job.due_at - job.slot_at for job in jobs]
    assert all(0 <= offset < 300_000_000 for offset in offsets) and len(set(offsets)) > 2
    assert all(job.created_at >= job.due_at for job in jobs)


@pytest.mark.parametrize(
    ("window", "fired"), [("08:00-10:00", ["08:00:00", "09:00:00"]), ("22:00-09:00", ["08:00:00"])]
)
def test_d14_slots_outside_the_window_are_skipped_on_record(window: str, fired: list[str]) -> None:
    s = scheduler()
    s.add("a", every="1h", only_between=window)
    s.advance("3h")
    assert slots(s, "a") == fired
    skipped = s.events("a", "schedule.skipped")
    assert {event.reason for event in skipped} == {"outside_window"}
    assert len(skipped) == 4 - len(fired)
    assert s.check().is_clean


def test_d15_the_zone_of_a_schedule_serves_cron_and_window() -> None:
    s = scheduler("2026-01-04T20:00:00Z")
    s.add("a", cron="0 9,20 * * *", timezone="Australia/Sydney", only_between="08:00-18:00")
    s.advance("1d")
    assert [f"{job.slot:%d %H:%M}" for job in s.jobs("a")] == ["04 22:00"]  # 09:00 in Sydney
    assert [event.reason for event in s.events("a", "schedule.skipped")] == ["outside_window"]


def test_d16_excluded_weekdays_are_skipped_on_record() -> None:
    s = scheduler("2026-01-09T12:00:00Z")  # a Friday
    s.add("a", every="24h", not_on=["saturday", 7])
    s.advance("3d")
    assert [f"{job.slot:%a}" for job in s.jobs("a")] == ["Fri", "Mon"]
    assert [event.reason for event in s.events("a", "schedule.skipped")] == ["excluded_day", "excluded_day"]


def down_for_an_hour(**fields: Any) -> ManualScheduler:
    s = scheduler()
    s.add("a", every="10m", **fields)
    s.advance("5m")
    s.sleep("1h")
    s.restart()
    s.step()
    return s


def test_d17_catch_up_skip_ignores_missed_slots_but_records_them() -> None:
    s = down_for_an_hour(catch_up="skip")
    assert slots(s, "a") == ["08:00:00", "09:00:00"]  # the newest is not late yet
    missed = s.events("a", "schedule.missed")
    assert [event.reason for event in missed] == ["down"] * 5
    assert s.check().is_clean


def test_d18_run_once_makes_one_job_for_all_that_was_missed() -> None:
    s = down_for_an_hour(catch_up="run_once")
    assert len(s.jobs("a")) == 2
    (caught_up,) = s.events("a", "schedule.caught_up")
    assert caught_up.slot_count >= 5
    assert caught_up.job_id == s.jobs("a")[-1].job_id
    assert s.check().is_clean


def test_d19_run_all_makes_one_job_per_missed_slot_bounded_to_100() -> None:
    s = scheduler()
    s.add("a", every="1m", catch_up="run_all", max_retries=0)
    s.tick()
    s.work()
    s.sleep("3h")
    s.restart()
    s.step()
    caught_up = [job for job in s.jobs("a") if job.origin == "catch_up"]
    assert len(caught_up) == 100
    missed = s.events("a", "schedule.missed")
    assert {event.reason for event in missed} == {"catch_up_limit"}
    assert sum(event.slot_count for event in missed) == 179 - 100
    assert [job.slot_at for job in caught_up] == sorted(job.slot_at for job in caught_up)
    assert s.check().is_clean


def test_d21_catch_up_jobs_have_a_dedupe_key_of_their_own() -> None:
    s = scheduler()
    s.add("a", every="10m", catch_up="run_all")
    s.sleep("35m")
    keys: list[str] = []

    def note(claimed: ClaimedJob) -> Outcome:
        keys.append(claimed.dedupe_key)
        return Outcome("succeeded")

    s.outcome = note
    s.step()
    seconds = [1_767_600_000 + 600 * n for n in range(3)]
    assert keys == [*(f"-:command:a:catchup:{second}" for second in seconds), "-:command:a"]


def test_d22_skip_does_not_enqueue_while_a_job_is_in_flight() -> None:
    s = scheduler()
    s.add("a", every="1m", if_running="skip")
    s.advance("2m", work=False)
    assert slots(s, "a") == ["08:00:00"]
    assert [event.reason for event in s.events("a", "schedule.skipped")] == ["already_running"] * 2
    assert s.check().is_clean


def test_d23_queue_enqueues_whatever_is_in_flight_and_runs_in_order() -> None:
    s = scheduler()
    s.add("a", every="1m", if_running="queue")
    s.advance("3m", work=False)
    assert len(s.jobs("a")) == 4
    (first,) = s.claim()
    assert s.claim() == []  # one after another
    s.settle(first)
    (second,) = s.claim()
    assert second.job.slot_at > first.job.slot_at


def test_d24_cancel_ends_the_schedules_own_jobs_then_enqueues() -> None:
    s = scheduler()
    s.add("a", every="1m", if_running="cancel")
    s.add("other", every="1h", if_running="cancel")
    s.tick()
    (running,) = [job for job in s.claim() if job.job.schedule_id == "a"]
    s.advance("1m", work=False)
    first, second = s.jobs("a")
    assert (first.status, first.reason) == ("cancelled", "overlap")
    assert second.status == "queued"
    s.settle(running)  # a late result
    assert s.jobs("a")[0].status == "cancelled"
    assert [job.status for job in s.jobs("other")] == ["running"]
    assert s.check().is_clean


def failing(s: ManualScheduler) -> None:
    s.outcome = lambda claimed: FAILED


def test_d26_the_breaker_opens_after_threshold_failures_in_a_row() -> None:
    s = scheduler()
    name = plugin_schedule(s, every="1m")
    failing(s)
    s.advance("5m")
    assert [job.status for job in s.jobs(name)] == ["failed"] * 3
    assert [event.reason for event in s.events(name, "schedule.skipped")] == ["circuit_open"] * 3
    assert store_of(s.runtime).ledger.breaker("withings:poll").state == "open"


def test_d27_it_stays_open_for_reset_after() -> None:
    s = scheduler()
    name = plugin_schedule(s, every="1m")
    failing(s)
    s.advance("31m")
    assert len(s.jobs(name)) == 3
    s.advance("1m")
    assert len(s.jobs(name)) == 4


def test_d28_one_probe_is_let_through_and_its_success_closes() -> None:
    s = scheduler()
    name = plugin_schedule(s, every="1m")
    failing(s)
    s.advance("10m")
    s.outcome = lambda claimed: Outcome("succeeded")
    s.advance("30m", work=False)
    probes = [job for job in s.jobs(name) if job.is_probe]
    assert len(probes) == 1
    assert store_of(s.runtime).ledger.breaker("withings:poll").state == "half_open"
    s.step()
    assert store_of(s.runtime).ledger.breaker("withings:poll").state == "closed"


def test_d29_state_and_history_of_a_breaker_are_kept() -> None:
    s = scheduler()
    plugin_schedule(s, every="1m")
    failing(s)
    s.advance("33m")
    with s.stack.database.read() as connection:
        state = connection.execute("SELECT key, state FROM circuit_breakers").fetchall()
        history = connection.execute(
            "SELECT from_state, to_state, reason FROM circuit_breaker_transitions ORDER BY id"
        ).fetchall()
    assert state == [("withings:poll", "open")]
    assert history == [
        ("closed", "open", "failure_threshold"),
        ("open", "half_open", "cooldown_elapsed"),
        ("half_open", "open", "probe_failed"),
    ]


def test_d31_the_row_says_when_it_fired_succeeded_and_comes_next() -> None:
    s = scheduler()
    s.add("a", every="1h")
    s.advance("30m")
    state = s.state("a")
    job = s.jobs("a")[0]
    assert state.last_fired_at == job.created_at
    assert (state.last_success_at, state.last_success_job_id) == (job.ended_at, job.job_id)
    assert state.next_run_at == job.slot_at + 3_600_000_000
    assert state.status == "active"


@pytest.mark.parametrize("fields", [{"at": "2026-01-05T08:01:00Z"}, {"after": "1m"}])
def test_d33_one_shots_are_done_after_firing(fields: dict[str, str]) -> None:
    s = scheduler()
    s.add("a", **fields)
    s.advance("1h")
    assert slots(s, "a") == ["08:01:00"]
    assert (s.state("a").status, s.state("a").next_run_at) == ("done", None)


def test_d41_each_command_fires_at_its_own_interval() -> None:
    s = scheduler()
    plugin_schedule(s, "refresh", command="token_refresh", every="1h")
    plugin_schedule(s, "fetch", command="poll", every="15m")
    fired: list[tuple[str, str]] = []

    def note(claimed: ClaimedJob) -> Outcome:
        fired.append((claimed.definition.command or "", claimed.job.schedule_id))
        return Outcome("succeeded")

    s.outcome = note
    s.advance("1h")
    assert fired.count(("token_refresh", "withings.refresh")) == 2
    assert fired.count(("poll", "withings.fetch")) == 5


def test_d42_the_dedupe_key_names_plugin_command_and_schedule_and_nobody_elses_slot_is_suppressed() -> None:
    s = scheduler()
    one = plugin_schedule(s, "one", every="1h", max_outstanding=2, payload={"user": 1})
    two = plugin_schedule(s, "two", every="1h", max_outstanding=2, payload={"user": 2})
    s.tick()
    assert {job.dedupe_key for job in s.claim()} == {"withings:poll:one", "withings:poll:two"}
    assert (len(s.jobs(one)), len(s.jobs(two))) == (1, 1)


def test_d43_breaker_and_guard_are_keyed_by_plugin_and_command() -> None:
    s = scheduler()
    one = plugin_schedule(s, "one", every="1h")
    two = plugin_schedule(s, "two", every="1h")
    other = plugin_schedule(s, "other", command="token_refresh", every="1h")
    s.tick()
    assert (len(s.jobs(one)), len(s.jobs(two)), len(s.jobs(other))) == (1, 0, 1)
    assert s.state(two).held_key == "guard:withings:poll"


def test_d44_the_default_after_downtime_is_no_flood() -> None:
    s = down_for_an_hour()
    assert len(s.jobs("a")) <= 2
    assert not [job for job in s.jobs("a") if job.origin == "catch_up"]


def test_d46_under_the_default_guard_each_schedule_of_a_command_fires_its_own_slots() -> None:
    """The guard holds the second until the first has ended; neither takes a slot from the other."""
    s = scheduler()
    names = [plugin_schedule(s, name, every="1h", payload={"user": name}) for name in ("one", "two")]
    for hour in (8, 9, 10):
        s.tick()
        (first,) = s.claim()
        assert sum(len(s.jobs(name)) for name in names) == 2 * (hour - 8) + 1
        s.settle(first, Outcome("succeeded"))
        s.tick()
        (second,) = s.claim()
        s.settle(second, Outcome("succeeded"))
        payloads = [json.loads(claimed.definition.payload)["user"] for claimed in (first, second)]
        assert sorted(payloads) == ["one", "two"]
        s.advance("1h", work=False)
    for name in names:
        assert slots(s, name)[:3] == ["08:00:00", "09:00:00", "10:00:00"]
        assert s.events(name, "schedule.skipped") == s.events(name, "schedule.missed") == []
    assert s.check().is_clean


def test_d46_schedules_of_one_command_with_different_payloads_stay_independent() -> None:
    s = scheduler()
    one = plugin_schedule(s, "one", every="5m", payload={"user": 1}, max_outstanding=2)
    two = plugin_schedule(s, "two", every="7m", payload={"user": 2}, max_outstanding=2)
    s.advance("35m")
    assert slots(s, one) == [f"08:{m:02d}:00" for m in range(0, 36, 5)]
    assert slots(s, two) == [f"08:{m:02d}:00" for m in range(0, 36, 7)]
