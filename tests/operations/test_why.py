"""Why: one sentence for everything that can become of a slot."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, get_args

import pytest

from everwhen.decide.edit import edit
from everwhen.decide.explain import explain_slot
from everwhen.decide.outlook import cause
from everwhen.decide.status import invalidate
from everwhen.errors import UnknownScheduleError
from everwhen.model import reasons
from everwhen.model.changes import Decision
from everwhen.model.events import Event
from everwhen.model.instants import SECOND, to_datetime
from everwhen.model.limits import Shared
from everwhen.model.outcome import Outcome
from everwhen.model.policy import BreakerRule, Budget, Capacity, Guard
from everwhen.model.schedule import Definition, Plan, QuietHoursPolicy, Schedule, Target
from everwhen.operations.quiet_hours import create_quiet_hours
from everwhen.operations.schedules import get_schedule, pause_schedule, pause_system, resume_system
from everwhen.operations.upcoming import explain_silence
from everwhen.operations.why import why
from everwhen.store.opened import store_of
from everwhen.testing import ManualScheduler, manual_scheduler
from everwhen.timetable.civil_time import zone
from everwhen.timetable.trigger import Every, parse_instant
from everwhen.timetable.windows import QuietHours, QuietWindow, Window


def scheduler(start: str = "08:00:00") -> ManualScheduler:
    return manual_scheduler(f"2026-01-05T{start}Z")


def at(text: str) -> int:
    return parse_instant(f"2026-01-05T{text}Z", zone("UTC")) * 1_000_000


def said(s: ManualScheduler, schedule_id: str, text: str | None = None) -> str:
    return why(s.runtime, schedule_id, None if text is None else at(text)).sentence


@pytest.mark.parametrize(
    ("fields", "listed"),
    [
        (reasons.SKIPPED, reasons.SKIP_REASONS),
        (reasons.MISSED, reasons.MISS_REASONS),
        (reasons.HELD, reasons.HOLD_REASONS),
        (reasons.SPANS, get_args(reasons.SpanReason)),
        (reasons.ONGOING, get_args(reasons.SpanReason)),
        (reasons.CANCELLED, get_args(reasons.CancelReason)),
    ],
)
def test_every_reason_has_its_sentence_and_no_other_has_one(
    fields: dict[str, str], listed: tuple[str, ...]
) -> None:
    assert set(fields) == set(listed)


@pytest.mark.parametrize(
    ("fields", "reason", "expected"),
    [
        (reasons.SKIPPED, "excluded_day", "the schedule does not run on a Monday (not_on)"),
        (
            reasons.SKIPPED,
            "outside_window",
            "09:00 is outside its window 10:00-18:00 Europe/Paris (only_between)",
        ),
        (
            reasons.SKIPPED,
            "quiet_hours",
            "quiet hours nights (Mon Tue 22:00-10:00, its dates America/New_York) were in force",
        ),
        (reasons.SKIPPED, "circuit_open", "the circuit breaker mail was open"),
        (reasons.SKIPPED, "queue_full", "1,000 jobs were waiting already (queue_limit)"),
        (reasons.SKIPPED, "budget", "the budget was spent (team)"),
        (reasons.MISSED, "catch_up_limit", "more slots had been missed than the 100 that may be caught up"),
        (reasons.HELD, "outstanding_limit", "2 jobs of its kind may be outstanding, and that many are"),
        (
            reasons.HELD,
            "at_capacity",
            "g may run 1 job at once, and that many are running (max_concurrent)",
        ),
    ],
)
def test_the_sentence_of_a_reason_holds_what_was_declared(
    fields: dict[str, str], reason: str, expected: str
) -> None:
    hours = QuietHours(zone("America/New_York"), (QuietWindow(Window(22 * 60, 10 * 60), 0b110),), ((1, 1),))
    definition = Definition(
        Every(60, "1m"),
        zone("Europe/Paris"),
        Target("command"),
        group="g",
        only_between=Window(600, 1080),
        not_on=0b10,
        guard=Guard("g", 2),
        capacity=Capacity("g", 1),
        breaker=BreakerRule("mail", 3, 1),
        budgets=(Budget("team", 1),),
    )
    plan = Plan("a", definition, QuietHoursPolicy("q", "nights", hours))
    assert cause(fields, reason, plan, at("08:00:00")).startswith(expected)


def test_quiet_hours_of_all_days_name_none_of_them() -> None:
    hours = QuietHours(zone("UTC"), (QuietWindow(Window(22 * 60, 10 * 60)),))
    definition = Definition(Every(60, "1m"), zone("UTC"), Target("command"))
    plan = Plan("a", definition, QuietHoursPolicy("q", "nights", hours))
    said = cause(reasons.SKIPPED, "quiet_hours", plan, at("08:00:00"))
    assert said.startswith("quiet hours nights (22:00-10:00 UTC) were in force")


@pytest.mark.parametrize("fields", [reasons.SKIPPED, reasons.MISSED, reasons.HELD])
def test_a_reason_whose_rule_is_gone_from_the_definition_still_has_a_sentence(fields: dict[str, str]) -> None:
    plan = Plan("a", Definition(Every(60, "1m"), zone("UTC"), Target("command")), None)
    for reason in fields:
        assert "{" not in cause(fields, reason, plan, at("08:00:00"))


def test_a_fired_slot_says_how_its_job_ended() -> None:
    s = scheduler()
    s.add("a", every="1h", timezone="Europe/Paris")
    s.step()
    answer = why(s.runtime, "a")
    assert answer.sentence == (
        f"Mon 2026-01-05 09:00:00 CET +01:00 fired; its job succeeded ({s.jobs('a')[0].job_id})."
        " Next: Mon 2026-01-05 10:00:00 CET +01:00."
    )
    assert (answer.fate, answer.job and answer.job.status) == ("fired", "succeeded")


def test_a_slot_that_fired_late_through_an_outage_says_by_how_much_and_why() -> None:
    s = scheduler("07:59:00")
    s.add("a", cron="0 8 * * *")
    s.beat()
    s.sleep("262s")
    s.step()
    s.beat()
    assert said(s, "a").startswith(
        "Mon 2026-01-05 08:00:00 UTC fired 3 min 22 s late, because no scheduler ran from "
        "Mon 2026-01-05 07:59:00 UTC to Mon 2026-01-05 08:03:22 UTC; its job succeeded ("
    )


@pytest.mark.parametrize(
    ("has_worker", "words"),
    [
        (
            False,
            "09:00:00 UTC fired; its job began only 3 min 22 s later, because no worker was running; its job",
        ),
        (True, "09:00:00 UTC fired; its job began only 3 min 22 s later; its job succeeded ("),
    ],
)
def test_a_slot_whose_job_waited_says_for_how_long_and_whether_no_worker_ran(
    has_worker: bool, words: str
) -> None:
    s = scheduler()
    heartbeat = store_of(s.runtime).slots.heartbeat
    s.clock.advance("1h")  # without a heartbeat of its own
    heartbeat(s.clock.now(), node="one", version="1", is_scheduler=True, is_worker=has_worker)
    s.add("a", every="1h")
    s.tick()
    s.clock.advance("3m22s")
    s.restart()
    s.work()
    assert words in said(s, "a")


def test_a_slot_that_was_caught_up_says_by_how_much_it_was_late_and_why() -> None:
    s = scheduler("07:59:00")
    s.add("a", cron="0 8 * * *", catch_up="run_once")
    s.beat()
    s.sleep("5h")
    s.step()
    s.beat()
    assert (
        "was caught up 4 h 59 min late, because no scheduler ran from Mon 2026-01-05 07:59:00 UTC to "
        "Mon 2026-01-05 12:59:00 UTC; its job succeeded" in said(s, "a")
    )


def test_a_slot_that_fired_late_beside_a_scheduler_blames_no_outage() -> None:
    s = scheduler("07:59:00")
    s.add("a", cron="0 8 * * *")
    s.sleep("3m")
    s.beat()  # the same node: it was there, and behind
    s.step()
    assert "fired 2 min late, because a scheduler was running and came to it late; its job" in said(s, "a")


def test_another_scheduler_that_starts_is_not_taken_for_the_end_of_an_outage() -> None:
    s = scheduler("07:59:00")
    s.add("a", cron="0 8 * * *")
    s.beat()
    s.clock.advance("3m")
    store = store_of(s.runtime)
    started = Event("scheduler.started", s.clock.now(), detail={"last_heartbeat_at": at("07:59:00")})
    store.slots.record([started])
    s.clock.advance("10s")
    s.beat()
    s.step()
    assert "because a scheduler was running and came to it late" in said(s, "a")


@pytest.mark.parametrize(("seconds", "words"), [(9, "fired; its job"), (10, "fired 10 s late, because")])
def test_a_slot_is_called_late_from_ten_seconds_on_after_it_was_due(seconds: int, words: str) -> None:
    """Its jitter is not lateness."""
    s = scheduler("07:59:00")
    s.add("a", cron="0 8 * * *", jitter="30s")
    (slot,) = s.upcoming("a", 1)
    assert slot.due_at > slot.slot_at
    s.clock.set(to_datetime(slot.due_at))
    s.clock.advance(seconds)
    s.beat()
    s.step()
    assert words in said(s, "a")


def test_a_slot_that_was_held_for_a_place_says_so_where_it_can_be_nothing_else() -> None:
    s = scheduler()
    s.add("a", every="30m", max_outstanding=1, if_running="allow")
    s.step(work=False)
    s.advance("45m", work=False)
    s.step()
    s.step()
    limit = "1 job of its kind may be outstanding, and that many were (max_outstanding)"
    assert f"fired 15 min late, because it was held: {limit}; its job" in said(s, "a", "08:30:00")
    s.advance("15m", work=False)
    s.advance("30m", work=False)
    s.clock.advance("60s")
    s.step()
    s.step()
    unsure = (
        f"fired 1 min late, because a scheduler was running and came to it late, or it was held: {limit}; its"
    )
    assert unsure in said(s, "a", "09:30:00")


def test_a_slot_that_quiet_hours_held_until_they_ended_says_so() -> None:
    s = scheduler("05:00:00")
    nights = QuietHoursPolicy(
        "q", "nights", QuietHours(zone("UTC"), (QuietWindow(Window(1_320, 420)),)), "defer"
    )
    create_quiet_hours(s.runtime, nights)
    s.add("a", cron="30 * * * *", quiet_hours="q")
    s.advance("3h")
    held = "fired 30 min late, because quiet hours nights (22:00-07:00 UTC) were in force; its job succeeded"
    assert held in said(s, "a", "06:30:00")


def test_a_slot_that_a_step_of_the_clock_made_late_says_so() -> None:
    s = scheduler("07:58:00")
    s.add("a", cron="0 8 * * *")
    s.beat()
    s.clock.step("5m")
    s.step()
    assert (
        "fired 3 min late, because the clock was set from Mon 2026-01-05 07:58:00 UTC to Mon 2026-01-05 08:03:00 UTC;"
        in said(s, "a")
    )


def test_a_slot_that_is_due_and_not_decided_yet_says_so() -> None:
    s = scheduler()
    s.add("a", every="1h")
    assert "is being decided" in said(s, "a", "08:00:00")


def test_a_slot_that_nobody_decides_says_when_a_scheduler_was_last_heard_of() -> None:
    s = scheduler()
    s.add("a", every="1h")
    s.sleep("2m")
    s.beat()
    assert "is not decided yet: a scheduler is running, and behind" in said(s, "a", "08:00:00")
    s.sleep("2h")
    assert (
        "is not decided yet: no scheduler is running, the last sign of one was at Mon 2026-01-05 08:02:00 UTC."
        in said(s, "a", "08:00:00")
    )


def test_a_slot_before_the_schedule_says_when_it_was_created_and_names_no_revision() -> None:
    s = scheduler()
    s.add("a", cron="* * * * *")
    answer = why(s.runtime, "a", at("07:00:00"))
    assert "has no entry: the schedule was created only at Mon 2026-01-05 08:00:00 UTC." in answer.sentence
    assert answer.evidence is not None and not answer.evidence.is_in_force


def test_a_slot_of_an_id_that_was_used_again_is_explained_from_the_history_that_it_belongs_to() -> None:
    s = scheduler()
    s.add("a", every="10m")
    s.advance("25m")
    first = s.jobs("a")
    s.delete("a")
    s.sleep("1h")
    s.add("a", every="10m")
    s.advance("5m")
    assert first[1].job_id in said(s, "a", "08:10:00")
    assert "lies after the schedule was deleted" in said(s, "a", "09:00:00")
    assert "fired" in said(s, "a") and first[1].job_id not in said(s, "a")


def test_retries_are_counted() -> None:
    s = scheduler()
    s.add("a", every="1h", max_retries=2, retry_delay="1m")
    s.outcome = lambda claimed: Outcome("failed", error="no luck")
    s.step()
    assert "its job failed once (no luck) and waits for its retry" in said(s, "a", "08:00:00")
    s.advance("10m")
    assert "its job failed: no luck after 3 attempts" in said(s, "a", "08:00:00")


def test_a_slot_whose_retries_are_used_up_says_what_that_means_for_the_schedule() -> None:
    s = scheduler()
    s.add("a", every="1h", max_retries=1, retry_delay="1m")
    s.add("b", every="1h", max_retries=1, retry_delay="1m", on_exhausted="stop")
    s.outcome = lambda claimed: Outcome("failed", error="no luck")
    s.advance("70m")
    ending = "its retries are used up, and the schedule"
    assert f"; {ending} goes on (on_exhausted: continue). Next: Mon 2026-01-05 10:00" in said(
        s, "a", "08:00:00"
    )
    assert f"; {ending} died (on_exhausted: stop)." in said(s, "b", "08:00:00")
    assert "lies after the schedule died of too many failures" in said(s, "b", "09:00:00")
    s.revive("b")
    assert "; its retries are used up." in said(s, "b", "08:00:00")
    s.outcome = lambda claimed: Outcome("failed", error="gone", is_final=True)
    s.advance("1h")
    assert "; it is not tried again, and the schedule goes on (on_exhausted: continue)" in said(s, "a")
    assert s.check().is_clean


def test_a_skipped_slot_says_why() -> None:
    s = scheduler()
    s.add("a", every="1h", only_between="08:00-08:30")
    s.advance("1h")
    assert said(s, "a", "09:00:00").startswith(
        "Mon 2026-01-05 09:00:00 UTC was skipped:"
        " 09:00 is outside its window 08:00-08:30 UTC (only_between). Next: "
    )


@pytest.mark.parametrize("outside_window", ["skip", "defer"])
def test_a_late_slot_that_came_into_a_closed_time_says_so(outside_window: str) -> None:
    s = scheduler("05:30:00")
    s.add("a", cron="44 * * * *", only_between="00:00-05:45", outside_window=outside_window)
    s.sleep("15m29s")
    s.step()
    word = "was skipped" if outside_window == "skip" else "is held until Tue 2026-01-06 00:00:00 UTC"
    assert said(s, "a").startswith(
        f"Mon 2026-01-05 05:44:00 UTC {word}:"
        " it was late, and 05:45:29 is outside its window 00:00-05:45 UTC (only_between). Next: "
    )


def test_a_late_slot_names_the_instant_at_which_a_day_or_quiet_hours_stopped_it() -> None:
    s = scheduler("23:30:00")
    hours = QuietHours(zone("UTC"), (QuietWindow(Window(0, 6 * 60)),))
    create_quiet_hours(s.runtime, QuietHoursPolicy("nights", "nights", hours))
    s.add("day", cron="59 * * * *", not_on=["tuesday"])
    s.add("night", cron="59 * * * *", quiet_hours="nights")
    s.sleep("30m10s")
    s.step()
    late = "was skipped: it was late, decided at Tue 2026-01-06 00:00:10 UTC, and "
    assert f"{late}the schedule does not run on a Tuesday (not_on)" in said(s, "day")
    assert f"{late}quiet hours nights (00:00-06:00 UTC) were in force" in said(s, "night")


def test_a_missed_slot_says_who_was_down() -> None:
    s = scheduler()
    s.add("a", every="1h", first_run="after_interval")
    s.sleep("90m")
    s.restart()
    s.step()
    assert "was missed: no scheduler was running then" in said(s, "a", "09:00:00")


def test_slots_of_a_caught_up_window_name_the_job_that_stood_for_them() -> None:
    s = scheduler()
    s.add("a", every="10m", first_run="after_interval", catch_up="run_once")
    s.sleep("66m")
    s.step()
    assert said(s, "a", "08:20:00").startswith(
        f"Mon 2026-01-05 08:20:00 UTC was missed; job {s.jobs('a')[0].job_id} stood for it and 5 others"
    )


def test_a_held_slot_says_what_it_waits_for() -> None:
    s = scheduler()
    for name in ("one", "two"):
        s.add(f"g.{name}", every="1h", group="g", max_concurrent=1)
    s.tick()
    held = next(name for name in ("g.one", "g.two") if s.state(name).held_slot_at)
    assert "is held: g may run 1 job at once, and that many are running (max_concurrent)" in said(
        s, held, "08:00:00"
    )


def test_a_slot_inside_a_pause_is_answered_by_the_span() -> None:
    s = scheduler()
    s.add("a", every="1h", first_run="after_interval")
    s.pause("a")
    s.advance("3h")
    assert "lies in a span in which the schedule was paused" in said(s, "a", "09:00:00")


def test_a_slot_inside_a_system_pause_is_answered_by_that_span() -> None:
    s = scheduler()
    s.add("a", every="1h", first_run="after_interval")
    pause_system(s.runtime)
    s.advance("90m")
    resume_system(s.runtime)
    s.step()
    assert "in which the whole system was paused" in said(s, "a", "09:00:00")


def test_a_slot_that_is_still_gathered_on_the_row_says_why() -> None:
    s = scheduler()
    s.add("a", every="10s")
    s.advance("55s", work=False)
    assert "was skipped: an earlier run was still going" in said(s, "a", "08:00:30")


def test_a_slot_to_come_will_fire() -> None:
    s = scheduler()
    s.add("a", every="1h", first_run="after_interval")
    assert said(s, "a", "09:00:00") == "Mon 2026-01-05 09:00:00 UTC will fire."


def test_a_slot_to_come_that_will_be_skipped_says_why() -> None:
    s = scheduler()
    s.add("a", every="1h", first_run="after_interval", only_between="08:00-09:30")
    assert said(s, "a", "11:00:00") == (
        "Mon 2026-01-05 11:00:00 UTC will be skipped because"
        " 11:00 is outside its window 08:00-09:30 UTC (only_between)."
    )


def test_a_slot_to_come_that_will_wait_says_until_when() -> None:
    s = scheduler()
    s.add("a", cron="0 9 * * *", only_between="08:00-08:30", outside_window="defer")
    answer = why(s.runtime, "a", at("09:00:00"))
    assert answer.sentence == (
        "Mon 2026-01-05 09:00:00 UTC will be held until Tue 2026-01-06 08:00:00 UTC because"
        " 09:00 is outside its window 08:00-08:30 UTC (only_between)."
    )
    assert (answer.fate, answer.reason) == ("pending", "outside_window")


def test_the_evidence_names_the_revision_and_who_was_running() -> None:
    s = scheduler()
    s.add("a", every="1h")
    s.step()
    s.clock.advance(60)
    s.edit("a", every="1h", description="now with words")
    evidence = why(s.runtime, "a", at("08:00:00")).evidence
    assert evidence is not None
    assert (evidence.revision.revision, evidence.due_at) == (1, at("08:00:00"))


def test_an_instant_that_is_no_slot_names_the_nearest() -> None:
    s = scheduler()
    s.add("a", every="1h", first_run="after_interval")
    s.advance("3h")
    answer = said(s, "a", "09:20:00")
    assert answer == (
        "No slot at Mon 2026-01-05 09:20:00 UTC; the nearest are Mon 2026-01-05 09:00:00 UTC"
        " and Mon 2026-01-05 10:00:00 UTC."
    )


def test_a_deleted_schedule_still_answers() -> None:
    s = scheduler()
    s.add("a", every="1h")
    s.step()
    s.delete("a")
    assert "fired; its job succeeded" in said(s, "a", "08:00:00")
    with pytest.raises(UnknownScheduleError):
        why(s.runtime, "nobody")


# -- slots that only the record knows --


def test_an_older_slot_of_a_chain_is_found_on_record() -> None:
    s = scheduler()
    s.outcome = lambda claimed: Outcome("failed", error="no luck")
    s.add("a", every="10m", interval_from="completion")
    s.advance("1h")
    assert said(s, "a", "08:21") == (
        f"Mon 2026-01-05 08:20:00 UTC fired; its job failed: no luck ({s.jobs('a')[2].job_id})."
        " Next: Mon 2026-01-05 09:10:00 UTC."
    )


def test_a_skipped_slot_of_a_chain_is_found_within_its_range() -> None:
    s = scheduler()
    s.add("a", every="10s", interval_from="completion", only_between="08:00-09:00")
    s.advance("2h")
    found = why(s.runtime, "a", at("09:30:04"))
    assert (found.slot_at, found.fate, found.reason) == (at("09:30:00"), "skipped", "outside_window")


def test_a_chain_is_asked_about_its_slot_to_come() -> None:
    s = scheduler()
    s.add("a", every="10m", interval_from="completion")
    s.advance("1h")
    assert why(s.runtime, "a", at("09:12")).fate == "pending"


@pytest.mark.parametrize("kind", ["slot", "completion"])
def test_a_deleted_schedule_tells_of_its_last_slot(kind: str) -> None:
    s = scheduler()
    s.add("a", every="10m", interval_from=kind)
    s.advance("25m")
    s.delete("a")
    s.advance("3h")
    found = why(s.runtime, "a")
    assert (found.slot_at, found.fate) == (at("08:20"), "fired")


def test_a_deleted_schedule_that_never_had_a_slot_says_so() -> None:
    s = scheduler()
    s.add("a", cron="0 9 * * *")
    s.delete("a")
    assert why(s.runtime, "a").slot_at is None


def test_a_request_that_fired_and_one_that_was_skipped_are_explained() -> None:
    s = scheduler()
    s.add("hook", type="webhook")
    s.fire("hook")
    s.claim()
    s.clock.advance(60)
    s.fire("hook")
    assert why(s.runtime, "hook", at("08:00")).fate == "fired"
    assert why(s.runtime, "hook").reason == "already_running"


# -- what is known of the future, and how to go on --


def broken(s: ManualScheduler) -> None:
    """A breaker that opened at 08:00 and is probed from 08:25 on; the schedule fires every ten minutes."""
    s.outcome = lambda claimed: Outcome("failed", error="no luck")
    s.add("a", every="10m", circuit_breaker={"threshold": 1, "reset_after": "25m"})
    s.step()


def test_slots_under_an_open_breaker_are_foretold_until_its_reset() -> None:
    s = scheduler()
    broken(s)
    found = [(slot.skip_reason, slot.until) for slot in s.upcoming("a", 3)]
    assert found == [("circuit_open", at("08:25")), ("circuit_open", at("08:25")), (None, None)]
    assert said(s, "a").endswith(
        " Next: Mon 2026-01-05 08:10:00 UTC, which will be skipped because the circuit breaker a is open until"
        " Mon 2026-01-05 08:25:00 UTC. The next to fire: Mon 2026-01-05 08:30:00 UTC."
        " To close the breaker now: everwhen system breaker a --reset."
    )
    answer = why(s.runtime, "a", at("08:20"))
    assert (answer.fate, answer.reason) == ("pending", "circuit_open")
    s.advance("45m")
    assert [job.slot_at for job in s.jobs("a")] == [at("08:00"), at("08:30")]  # as foretold


def test_slots_beyond_a_spent_budget_are_foretold_until_it_refills() -> None:
    s = scheduler()
    budget = Budget("team", per_hour=2)
    s.add("a", every="20m")
    store_of(s.runtime).catalogue.change(s.clock.now(), "a", with_budget(budget))
    s.advance("25m")
    assert [(slot.skip_reason, slot.until) for slot in s.upcoming("a", 2)] == [
        ("budget", at("09:00")),
        (None, None),
    ]
    assert "the budget (team) is spent until Mon 2026-01-05 09:00:00 UTC." in said(s, "a")


def with_budget(budget: Budget) -> Callable[[Schedule, int, Shared], Decision]:
    def change(schedule: Schedule, now: int, shared: Shared) -> Decision:
        definition = replace(schedule.definition, budgets=(budget,))
        return edit(schedule, Plan("a", definition, None), now, shared)

    return change


def test_a_pause_of_the_system_is_what_keeps_slots_from_firing() -> None:
    s = scheduler()
    s.add("a", every="1h", first_run="after_interval")
    pause_system(s.runtime)
    assert {slot.skip_reason for slot in s.upcoming("a", 3)} == {"system"}
    assert said(s, "a", "10:00") == (
        "Mon 2026-01-05 10:00:00 UTC will not fire while the system is paused. The system has been paused since"
        " Mon 2026-01-05 08:00:00 UTC: nothing fires. To go on: everwhen system resume."
    )
    assert "To go on: everwhen system resume" in (explain_silence(s.runtime) or "")


def test_a_paused_schedule_says_how_to_go_on() -> None:
    s = scheduler()
    s.add("a", every="1h")
    s.step()
    s.pause("a", note="until the move is over")
    assert said(s, "a").endswith(
        " The schedule is paused by a person since Mon 2026-01-05 08:00:00 UTC (until the move is over)."
        " To go on: everwhen schedules resume a."
    )
    assert said(s, "a", "10:00").startswith("Mon 2026-01-05 10:00:00 UTC will not fire while")


def test_a_pause_with_an_end_is_foretold_with_what_fires_after_it() -> None:
    s = scheduler()
    s.add("cron", cron="0 * * * *")
    s.add("interval", every="10m")
    s.advance("5m")
    for name in ("cron", "interval"):
        s.pause(name, until="2026-01-05T09:35:00Z")
    assert [(slot.due_at, slot.is_estimate) for slot in s.upcoming("cron", 1)] == [(at("10:00"), False)]
    assert [(slot.due_at, slot.is_estimate) for slot in s.upcoming("interval", 1)] == [(at("09:45"), True)]
    assert "by a person since Mon 2026-01-05 08:05:00 UTC, until Mon 2026-01-05 09:35:00 UTC." in said(
        s, "cron"
    )


@pytest.mark.parametrize(
    ("paused_by", "expected"),
    [
        (
            "approval",
            "waiting for the approval of an operator since Mon 2026-01-05 08:00:00 UTC. To approve it: everwhen",
        ),
        (
            "config",
            "paused by enabled: false in the configuration since Mon 2026-01-05 08:00:00 UTC. To go on:",
        ),
    ],
)
def test_a_pause_says_who_can_end_it(paused_by: str, expected: str) -> None:
    s = scheduler()
    s.add("a", every="1h")
    s.step()
    pause_schedule(s.runtime, "a", by=paused_by)
    assert expected in said(s, "a")


def test_a_schedule_that_is_over_says_how_to_start_it_anew() -> None:
    s = scheduler()
    s.add("counted", every="10m", total_repeats=1)
    s.add("once", at="2026-01-05T08:10:00Z")
    s.advance("20m")
    assert said(s, "counted").endswith(
        " The schedule is done. To start it anew: everwhen schedules revive counted."
    )
    assert said(s, "once").endswith(
        " The schedule is done. It has no slot to come; to use it again, give it a new time:"
        " everwhen schedules update once."
    )
    assert s.upcoming("counted") == []
    assert "schedules revive counted" in (
        explain_silence(s.runtime, get_schedule(s.runtime, "counted")) or ""
    )


@pytest.mark.parametrize(
    ("source", "where"),
    [
        ("config", " in the configuration file."),
        ("python:shop", " in the program that declares it."),
        ("python", ": everwhen schedules update once."),
    ],
)
def test_a_schedule_without_another_slot_gets_its_new_time_where_it_is_declared(
    source: str, where: str
) -> None:
    s = scheduler()
    s.add("once", at="2026-01-05T08:10:00Z", source=source)
    s.advance("20m")
    hint = f"The schedule is done. It has no slot to come; to use it again, give it a new time{where}"
    assert said(s, "once").endswith(hint)
    assert explain_silence(s.runtime, get_schedule(s.runtime, "once")) == hint


def test_an_invalid_schedule_says_what_is_wrong_and_what_heals_it() -> None:
    s = scheduler()
    s.add("a", every="1h")
    s.step()
    store_of(s.runtime).catalogue.change(
        s.clock.now(), "a", lambda one, now, shared: invalidate(one, now, shared, "gone")
    )
    assert "The schedule is invalid: gone. It goes on by itself when a reload" in said(s, "a")


@pytest.mark.parametrize(
    ("stop", "resume", "event"),
    [
        (lambda s: s.pause("a"), lambda s: s.resume("a"), "schedule.paused"),
        (lambda s: pause_system(s.runtime), lambda s: resume_system(s.runtime), "system.paused"),
    ],
)
def test_a_slot_inside_a_span_cites_the_event_that_began_it(
    stop: Callable[[ManualScheduler], object], resume: Callable[[ManualScheduler], object], event: str
) -> None:
    s = scheduler()
    s.add("a", every="1m")
    s.advance("90s")
    stop(s)
    s.advance("5m")
    resume(s)
    s.advance("5m")
    found = why(s.runtime, "a", at("08:03:00"))
    assert found.fate == "span" and found.evidence is not None
    assert [one.event.type for one in found.evidence.events] == [event]


def test_a_superseded_slot_says_why_it_was_held() -> None:
    s = scheduler()
    for name in ("g.one", "g.two"):
        s.add(name, every="1m", group="g", max_concurrent=1)
    s.tick()
    held = next(name for name in ("g.one", "g.two") if s.state(name).held_slot_at)
    s.sleep("1m")
    s.tick()
    found = why(s.runtime, held, at("08:00:00"))
    assert (found.fate, found.reason) == ("skipped", "superseded")
    assert (
        "was skipped: it was held because g may run 1 job at once, and that many were running (max_concurrent), and "
        "the next slot came first"
    ) in found.sentence


def test_a_slot_that_was_held_when_its_schedule_was_paused_says_why_it_was_held() -> None:
    s = scheduler()
    for name in ("g.one", "g.two"):
        s.add(name, every="1h", group="g", max_concurrent=1)
    s.tick()
    held = next(name for name in ("g.one", "g.two") if s.state(name).held_slot_at)
    pause_schedule(s.runtime, held)
    assert (
        "it was held because g may run 1 job at once, and that many were running (max_concurrent), and the schedule "
        "was paused by a person since Mon 2026-01-05 08:00:00 UTC, before it was decided"
    ) in said(s, held, "08:00:00")


def test_a_slot_that_a_pause_ended_says_what_was_paused_by_whom_until_when_and_why() -> None:
    s = scheduler()
    s.add("a", cron="0 * * * *", jitter="10m")
    s.run_until("2026-01-05T09:00:01Z")  # reached, and not due yet
    ends_at = at("12:00:00")
    pause_schedule(s.runtime, "a", note="moving house", until=ends_at, actor="shop")
    assert (
        "09:00:00 UTC was skipped: the schedule was paused by shop since Mon 2026-01-05 09:00:01 UTC, until "
        "Mon 2026-01-05 12:00:00 UTC (moving house), before it was decided."
    ) in said(s, "a", "09:00:00")


def test_a_slot_that_a_pause_of_the_system_ended_does_not_blame_its_schedule() -> None:
    s = scheduler()
    s.add("a", cron="0 * * * *", jitter="10m")
    s.run_until("2026-01-05T09:00:01Z")
    pause_system(s.runtime, by="shop")
    s.clock.advance("2h")
    resume_system(s.runtime, by="shop")
    assert (
        "09:00:00 UTC was skipped: the system was paused by shop since Mon 2026-01-05 09:00:01 UTC, until "
        "Mon 2026-01-05 11:00:01 UTC, before it was decided."
    ) in said(s, "a", "09:00:00")


def test_a_slot_that_the_deletion_of_its_schedule_left_open_blames_no_pause() -> None:
    s = scheduler()
    s.add("a", cron="0 * * * *", jitter="10m")
    pause_system(s.runtime)
    resume_system(s.runtime)
    s.run_until("2026-01-05T09:00:01Z")
    s.delete("a")
    assert "was skipped: the schedule was stopped before it was decided" in said(s, "a", "09:00:00")


def a_deferred_slot(s: ManualScheduler, *, until: str = "23:30", **keys: Any) -> None:
    """A slot at 22:30 that quiet hours hold from 22:30 on, of a schedule with a window of its own."""
    begins, ends = (int(text[:2]) * 60 + int(text[3:]) for text in ("22:00", until))
    hours = QuietHours(zone("UTC"), (QuietWindow(Window(begins, ends)),))
    create_quiet_hours(s.runtime, QuietHoursPolicy("nights", "nights", hours, "defer"))
    s.add("a", quiet_hours="nights", **keys)
    s.run_until("2026-01-05T22:45:00Z")
    assert s.state("a").held_reason == "quiet_hours"
    s.beat()


def test_a_slot_whose_opening_passed_while_nobody_ran_says_what_held_it_and_that() -> None:
    s = scheduler("20:00:00")
    a_deferred_slot(s, cron="30 22 * * *", only_between="22:00-23:59")
    s.sleep("2h15m")
    s.restart()
    s.tick()
    (skipped,) = s.events("a", "schedule.skipped")
    assert (skipped.reason, dict(skipped.detail)) == (
        "outside_window",
        {"held": "quiet_hours", "held_at": at("22:30:00"), "opening_at": at("23:30:00")},
    )
    assert said(s, "a", "22:30:00").startswith(
        "Mon 2026-01-05 22:30:00 UTC was skipped: it was held because quiet hours nights (22:00-23:30 UTC) "
        "were in force, its opening at Mon 2026-01-05 23:30:00 UTC passed while no scheduler was running; the "
        "last heartbeat before that was at Mon 2026-01-05 22:45:00 UTC, the next start at "
        "Tue 2026-01-06 01:00:00 UTC, and 01:00 is outside its window 22:00-23:59 UTC (only_between)."
    )
    assert s.check().is_clean


def test_an_opening_that_a_running_scheduler_came_too_late_for_is_not_called_unattended() -> None:
    s = scheduler("20:00:00")
    a_deferred_slot(s, cron="30 22 * * *", only_between="22:00-23:59")
    s.sleep("2h15m")  # frozen, and not restarted
    s.tick()
    assert (
        "its opening at Mon 2026-01-05 23:30:00 UTC passed before a scheduler came to it, and 01:00 is outside"
    ) in said(s, "a", "22:30:00")


def test_a_slot_superseded_after_its_opening_says_that_the_opening_had_passed() -> None:
    s = scheduler("20:00:00")
    a_deferred_slot(s, cron="30,59 22 * * *", only_between="22:00-23:59", until="22:50")
    s.sleep("20m")
    s.restart()
    s.tick()
    (skipped,) = s.events("a", "schedule.skipped")
    assert (skipped.reason, skipped.detail["opening_at"]) == ("superseded", at("22:50:00"))
    assert "passed while no scheduler was running" in said(s, "a", "22:30:00")
    assert "and the next slot came first" in said(s, "a", "22:30:00")


def test_a_slot_missed_in_a_closed_time_is_not_said_to_have_been_held() -> None:
    """`defer`, and nobody was there to hold it."""
    s = scheduler("20:00:00")
    hours = QuietHours(zone("UTC"), (QuietWindow(Window(22 * 60, 23 * 60)),))
    create_quiet_hours(s.runtime, QuietHoursPolicy("nights", "nights", hours, "defer"))
    s.add("a", cron="*/15 * * * *", quiet_hours="nights")
    s.sleep("150m")
    s.tick()
    assert said(s, "a", "22:15:00").startswith(
        "Mon 2026-01-05 22:15:00 UTC was skipped: quiet hours nights (22:00-23:00 UTC) were in force, and the "
        "next slot came before the opening."
    )


def test_a_slot_that_was_held_late_in_a_closed_time_says_so_when_it_ends() -> None:
    """The window closed between its due_at and its decision; it did not lie outside the window when it was due."""
    s = scheduler("17:00:00")
    s.add("a", cron="59 17 * * *", only_between="08:00-18:00", outside_window="defer")
    s.sleep("61m")
    s.tick()
    assert s.state("a").held_reason == "outside_window"
    s.pause("a")
    assert (
        "it was held because it was late, and 18:01 is outside its window 08:00-18:00 UTC (only_between), and the "
        "schedule was paused by a person since Mon 2026-01-05 18:01:00 UTC, before it was decided"
    ) in said(s, "a", "17:59:00")


def test_a_slot_that_will_be_deferred_is_held_and_not_skipped() -> None:
    s = scheduler()
    s.add("a", cron="30 * * * *", only_between="10:00-18:00", outside_window="defer")
    found = [(slot.skip_reason, slot.hold_reason, slot.until) for slot in s.upcoming("a", 2)]
    assert found == [("superseded", None, None), (None, "outside_window", at("10:00"))]
    s.advance("3h")
    assert [job.slot_at for job in s.jobs("a")] == [at("09:30"), at("10:30")]  # as foretold


def test_before_the_first_slot_it_says_when_that_will_be() -> None:
    s = scheduler()
    s.add("a", cron="0 9 * * *")
    assert said(s, "a") == "No slot has come yet. Mon 2026-01-05 09:00:00 UTC will fire."
    s.add("hook", type="webhook")
    assert said(s, "hook") == "No request has fired it yet: it is fired by a request, never by the clock."
    s.add("chain", every="10m", interval_from="completion", first_run="after_interval")
    assert said(s, "chain") == "No slot has come yet. Mon 2026-01-05 08:10:00 UTC will fire."
    s.pause("a")
    assert said(s, "a").startswith("No slot has come yet. The schedule is paused by a person since Mon")


def test_a_slot_missed_while_nobody_ran_quotes_the_last_heartbeat_and_lists_no_scheduler() -> None:
    s = scheduler()
    s.add("a", every="10s", first_run="after_interval")
    s.beat()
    s.sleep("45s")  # a node that was killed: it is neither stopped nor found lost yet
    s.restart()
    s.step()
    answer = why(s.runtime, "a", at("08:00:30"))
    assert answer.reason == "down"
    assert (
        "no scheduler was running then; the last heartbeat before it was at Mon 2026-01-05 08:00:00 UTC,"
        " the next start at Mon 2026-01-05 08:00:45 UTC."
    ) in answer.sentence
    assert answer.evidence is not None and not answer.evidence.schedulers
    forgotten = explain_slot(replace(answer.evidence, heard_before=None, started_after=None)).sentence
    assert "no scheduler was running then; there is no heartbeat of one before it on record" in forgotten
    assert "the next start" not in forgotten


def test_the_start_of_a_scheduler_has_the_last_heartbeat_when_the_nodes_are_forgotten() -> None:
    s = scheduler()
    s.add("a", every="1h", first_run="after_interval")
    s.sleep("90m")
    detail = {"last_heartbeat_at": at("08:31:07")}
    store_of(s.runtime).slots.record([Event("scheduler.started", s.clock.now(), detail=detail)])
    s.restart()
    s.step()
    assert "the last heartbeat before it was at Mon 2026-01-05 08:31:07 UTC," in said(s, "a", "09:00")


def test_every_instant_of_an_answer_has_its_zone() -> None:
    s = scheduler()
    s.add("a", every="1h", timezone="Europe/Berlin", only_between="09:00-10:30")
    s.advance("90m")
    for text in (None, "09:20", "10:00", "23:00"):
        sentence = said(s, "a", text)
        instants = re.findall(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d (\w+ [+-]\S{5})?", sentence)
        assert instants and set(instants) == {"CET +01:00"}, sentence


def test_a_slot_that_is_held_until_an_opening_is_the_last_one_and_the_first_to_come() -> None:
    s = scheduler("05:30:00")
    s.add("a", cron="47 * * * *", only_between="05:51-05:42", outside_window="defer")
    s.advance("19m30s")
    answer = why(s.runtime, "a")
    assert (answer.fate, answer.reason, answer.slot_at) == ("held", "outside_window", at("05:47"))
    assert answer.sentence.startswith(
        "Mon 2026-01-05 05:47:00 UTC is held until Mon 2026-01-05 05:51:00 UTC: 05:47 is outside"
    )
    held, following = s.upcoming("a", 2)
    assert (held.slot_at, held.due_at) == (at("05:47"), at("05:47"))
    assert (held.skip_reason, held.hold_reason, held.until) == (None, "outside_window", at("05:51"))
    assert following.slot_at == at("06:47")
    s.advance("2m")
    assert [job.slot_at for job in s.jobs("a")] == [at("05:47")]  # as foretold
    assert [slot.slot_at for slot in s.upcoming("a", 1)] == [at("06:47")]


def test_a_slot_that_waits_for_a_place_is_explained_before_the_one_that_was_decided_last() -> None:
    s = scheduler()
    for name in ("g.one", "g.two"):
        s.add(name, every="1m", group="g", max_concurrent=1)
    s.tick()
    name = next(name for name in ("g.one", "g.two") if s.state(name).held_slot_at)
    s.sleep("1m")
    s.tick()
    assert s.state(name).last_slot_at == at("08:00")  # superseded
    answer = why(s.runtime, name)
    assert (answer.fate, answer.slot_at) == ("held", at("08:01"))
    found = [(slot.slot_at, slot.hold_reason, slot.until) for slot in s.upcoming(name, 2)]
    assert found == [(at("08:01"), "at_capacity", None), (at("08:02"), None, None)]


def test_a_held_slot_whose_opening_comes_after_the_next_one_will_be_superseded() -> None:
    s = scheduler()
    s.add("a", cron="30 * * * *", only_between="10:00-18:00", outside_window="defer")
    s.advance("45m")
    found = [(slot.slot_at, slot.skip_reason, slot.hold_reason) for slot in s.upcoming("a", 2)]
    assert found == [(at("08:30"), "superseded", None), (at("09:30"), None, "outside_window")]


def test_the_held_slot_of_a_schedule_without_another_is_to_come_and_waits_for_the_system() -> None:
    s = scheduler()
    s.add("once", at="2026-01-05T08:30:00Z", only_between="10:00-18:00", outside_window="defer")
    s.advance("45m")
    assert [(slot.hold_reason, slot.until) for slot in s.upcoming("once")] == [
        ("outside_window", at("10:00"))
    ]
    pause_system(s.runtime)
    assert [slot.skip_reason for slot in s.upcoming("once")] == ["system"]


# -- an instant of an answer finds its slot --


def test_the_instant_at_which_a_slot_with_jitter_is_due_is_that_slot() -> None:
    s = scheduler()
    s.add("a", every="10m", jitter="9m59s")
    calendar = get_schedule(s.runtime, "a").plan.calendar(at("08:00:00"))
    for slot_at in (at("08:00:00"), at("08:10:00"), at("08:20:00"), at("08:30:00")):
        due_at = calendar.due_at(slot_at)
        for shown in (due_at // SECOND, -(-due_at // SECOND)):
            assert why(s.runtime, "a", shown * SECOND).slot_at == slot_at
        assert why(s.runtime, "a", slot_at + (due_at - slot_at) // 2).slot_at == slot_at
    assert why(s.runtime, "a", at("08:00:00") - 60 * SECOND).slot_at is None


@pytest.mark.parametrize("keys", [{}, {"interval_from": "completion"}])
def test_the_instants_of_a_job_are_those_of_its_slot(keys: dict[str, Any]) -> None:
    s = scheduler()
    s.add("a", every="1h", **keys)
    s.tick()
    (claimed,) = s.claim()
    s.clock.advance("17m")
    s.settle(claimed)
    (job,) = s.jobs("a")
    assert (job.slot_at, job.ended_at) == (at("08:00:00"), at("08:17:00"))
    assert why(s.runtime, "a", job.ended_at // SECOND * SECOND).slot_at == job.slot_at


def test_the_instant_at_which_a_slot_fired_is_that_slot_also_when_its_job_began_later() -> None:
    s = scheduler()
    s.add("a", cron="0 * * * *", max_retries=1, retry_delay="7m")
    s.sleep("1h2m10s")  # within misfire_grace
    s.tick()
    s.clock.advance("3s")
    (claimed,) = s.claim()
    s.clock.advance("1s")
    s.settle(claimed, Outcome("failed", error="no"))
    first, retry = s.jobs("a")
    assert (first.created_at, retry.not_before) == (at("09:02:10"), at("09:09:14"))
    for instant in (first.created_at, first.started_at, first.ended_at, retry.not_before):
        assert instant is not None and why(s.runtime, "a", instant).slot_at == at("09:00:00")


def test_the_instant_at_which_a_job_must_end_is_that_of_its_slot() -> None:
    s = scheduler()
    s.add("a", every="1h", timeout="25m")
    s.add("b", every="1h", timeout="1h")
    s.tick()
    for claimed in s.claim():
        assert claimed.job.deadline_at is not None
        s.clock.advance("1s")
        s.settle(claimed)
    for name, slot_at in (
        ("a", at("08:00:00")),
        ("b", at("09:00:00")),
    ):  # where it is a slot, that one is meant
        (job,) = s.jobs(name)
        assert job.deadline_at is not None and why(s.runtime, name, job.deadline_at).slot_at == slot_at


def test_the_instant_since_which_a_slot_is_held_is_that_slot() -> None:
    s = scheduler()
    for name in ("a", "b"):
        s.add(name, cron="0 * * * *", group="bot", max_concurrent=1)
    s.sleep("1h2m10s")
    s.tick()
    (held,) = (name for name in ("a", "b") if s.state(name).held_slot_at is not None)
    held_since = s.state(held).held_since
    assert held_since == at("09:02:10") and why(s.runtime, held, held_since).slot_at == at("09:00:00")


def test_the_instant_at_which_an_entry_was_recorded_is_that_of_its_slot() -> None:
    s = scheduler("21:00:00")
    s.add("a", cron="30 22 * * *", only_between="06:00-07:00", outside_window="defer")
    s.advance("2h")
    s.sleep("11h")
    s.tick()
    (entry,) = s.events("a", "schedule.skipped") or s.events("a", "schedule.missed")
    assert entry.slot_at == at("22:30:00")
    assert why(s.runtime, "a", entry.at).slot_at == at("22:30:00")
