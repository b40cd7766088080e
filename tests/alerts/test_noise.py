"""What is not sent: alerts that another one explains, that are over at once, that flap, or come by the dozen."""

from __future__ import annotations

import pytest

from everwhen.config.sections.notify import rules_in
from everwhen.decide.alert_messages import Past, notice_of
from everwhen.engine.notifier import PORTION
from everwhen.engine.watches import CutOffWatch
from everwhen.model.alerts import Alert, Notice
from everwhen.model.events import Event, EventType
from everwhen.model.instants import SECOND
from everwhen.model.queries import AlertFilter
from everwhen.model.schedule import QuietHoursPolicy
from everwhen.model.token import NO_LIMITS, Token
from everwhen.operations import alerts, quiet_hours, stepping
from everwhen.operations.access import Caller
from everwhen.store import alert_round
from everwhen.store.opened import store_of
from everwhen.timetable.civil_time import zone
from everwhen.timetable.windows import EVERY_WEEKDAY, QuietHours, QuietWindow, parse_window
from tests.alerts.notifying import Watched, watched

HOUR = 3_600


def record(world: Watched, kind: EventType, **detail: object) -> None:
    stepping.record_event(world.scheduler.runtime, Event(kind, world.scheduler.clock.now(), detail=detail))
    world.look()


def opened(world: Watched, node: str = "n7") -> None:
    record(world, "scheduler.stalled", node=node, reason="locked")


def closed(world: Watched, node: str = "n7") -> None:
    record(world, "scheduler.recovered", node=node)


def failing(world: Watched, key: str) -> None:
    """A warning about something of its own."""
    record(world, "budget.warning", key=key)


def over(world: Watched, key: str) -> None:
    record(world, "budget.refilled", key=key)


def test_an_outage_of_200_schedules_is_one_message_and_one_when_the_last_has_recovered() -> None:
    with watched() as world:
        for number in range(200):
            world.scheduler.add(f"s{number:03}", every="1h", jitter="20s" if number else None)
        world.broken.add("*")
        world.pass_time(60)
        assert world.titles == ["FAILING 200 schedules"]
        lines = world.inbox.messages[0]["text"].splitlines()
        assert len(lines) == 11
        assert lines[-1] == "… and 190 more: everwhen alerts list"
        many = {"alerts": "/api/v1/alerts/?state=open", "dashboard": "/alerts"}
        assert world.inbox.messages[0]["links"] == many
        world.broken.clear()
        world.scheduler.run_until("2026-01-05T00:59:50Z")
        world.pass_time(120)
        assert world.titles[1:] == ["RESOLVED 200 schedules (failing)"]


def test_what_recovers_first_does_not_wait_for_ever_for_the_rest_of_its_message() -> None:
    with watched() as world:
        for key in ("a", "b", "c"):
            failing(world, key)
        world.pass_time(30)
        assert world.titles == ["BUDGET 3 alerts"]
        over(world, "a")
        world.pass_time(600)
        assert len(world.titles) == 1
        over(world, "b")
        world.pass_time(40)
        assert world.titles[1:] == ["RESOLVED 2 alerts (budget)"]  # ten minutes after the first
        over(world, "c")
        world.pass_time(40)
        assert world.titles[2].startswith("RESOLVED c")


def test_an_outage_gathers_what_it_caused_and_what_stays_is_reported_afterwards() -> None:
    with watched({"on": "all"}) as world:
        world.scheduler.add("s", every="1h", first_run="after_interval")
        uid, slot_at = world.scheduler.state("s").uid, world.scheduler.state("s").next_slot_at
        opened(world)
        overdue = Event("schedule.overdue", world.scheduler.clock.now(), "s", uid, slot_at=slot_at)
        stepping.record_event(world.scheduler.runtime, overdue)
        world.pass_time(30)
        assert world.titles == ["STALLED n7: the scheduler stalls"]
        (gathered,) = world.inbox.messages[0]["gathered"]
        assert (gathered["class"], gathered["schedule"]) == ("schedule.overdue", "s")
        assert "Because of it, 1 further alert:" in world.inbox.messages[0]["text"]
        closed(world)
        world.pass_time(60)
        assert [title.split()[0] for title in world.titles[1:]] == ["RESOLVED", "OVERDUE"]


def test_a_lost_node_gathers_the_slots_that_were_missed_meanwhile_in_a_digest_too() -> None:
    with watched() as world:
        world.scheduler.add("s", every="1h", first_run="after_interval", catch_up="skip")
        world.scheduler.beat()
        world.scheduler.sleep("5h")
        world.scheduler.restart()
        store = store_of(world.scheduler.runtime)
        store.upkeep.note_lost(world.scheduler.clock.now(), node=world.scheduler.node, lease=30_000_000)
        world.scheduler.step()
        world.notifier = world.new_notifier()
        world.pass_time(120)
        assert world.titles == ["DIGEST: 1 alert, 1 open"]  # its notifier was away, too
        (message,) = world.inbox.messages
        assert message["alert"]["class"] == "node.lost"
        assert [one["class"] for one in message["gathered"]] == ["schedule.missed"]
        assert "Because of it, 1 further alert:\n- s: 4 slots were missed" in message["text"]


def test_a_spent_budget_gathers_the_silence_of_what_it_skips_and_of_nothing_else() -> None:
    with watched({"on": ["budget.reached", "schedule.silent"]}) as world:
        expect = {"each": "slot", "grace": "10m"}
        limits = {"fires_per_hour": 1}
        world.scheduler.add("fires", every="1h", owner="team", budgets={"owner:team": limits})
        world.scheduler.add(
            "skipped", cron="20 * * * *", owner="team", expect=expect, budgets={"owner:team": limits}
        )
        world.scheduler.add("broken", cron="20 * * * *", expect=expect)
        world.broken.add("broken")
        world.pass_time(40)
        assert world.titles == ["BUDGET REACHED owner:team fires_per_hour: a budget is used up: 1 of 1"]
        world.scheduler.run_until("2026-01-05T00:30:00Z")
        world.pass_time(60)
        assert world.titles[1:] == [
            "SILENT broken: no success by Mon 2026-01-05 00:30:00 UTC, after a slot that should have had one"
        ]
        found = store_of(world.scheduler.runtime).alerts.list(AlertFilter(class_="schedule.silent"), limit=9)
        assert sorted(one.schedule_id or "" for one in found) == ["broken", "skipped"]


def test_a_limit_that_is_reached_lists_its_own_warning_and_no_other() -> None:
    with watched() as world:
        record(world, "budget.warning", key="budget:a", limit="fires_per_day")
        record(world, "budget.warning", key="budget:a", limit="fires_per_hour")
        record(world, "budget.reached", key="budget:a", limit="fires_per_day")
        world.pass_time(60)
        reached = next(one for one in world.inbox.messages if one["alert"]["class"] == "budget.reached")
        assert [one["class"] for one in reached["gathered"]] == ["budget.warning"]
        assert min(world.titles).startswith("BUDGET REACHED a fires_per_day")
        assert [title for title in world.titles if title.startswith("BUDGET a")] == [
            title for title in world.titles if "fires_per_hour" in title
        ]
        assert len(world.titles) == 2
        record(world, "budget.refilled", key="budget:a", limit="fires_per_day")
        world.pass_time(60)
        assert len(world.titles) == 3 and world.titles[2].startswith("RESOLVED a fires_per_day")


def test_a_rule_that_does_not_tell_the_cause_tells_the_effect() -> None:
    with watched({"on": ["schedule.overdue"]}) as world:
        world.scheduler.add("s", every="1h", first_run="after_interval")
        uid, slot_at = world.scheduler.state("s").uid, world.scheduler.state("s").next_slot_at
        opened(world)
        overdue = Event("schedule.overdue", world.scheduler.clock.now(), "s", uid, slot_at=slot_at)
        stepping.record_event(world.scheduler.runtime, overdue)
        world.pass_time(40)
        assert world.titles == ["OVERDUE s: a slot is overdue"]


def test_what_is_over_within_the_wait_is_not_sent_and_neither_is_its_end() -> None:
    with watched() as world:
        failing(world, "a")
        world.pass_time(20)
        over(world, "a")
        world.pass_time(600)
        assert world.titles == []


def test_the_same_thing_is_reported_again_only_after_the_cooldown_if_it_is_open_then() -> None:
    with watched() as world:
        failing(world, "a")
        world.pass_time(30)
        over(world, "a")
        world.pass_time(60)
        assert [one["kind"] for one in world.inbox.messages] == ["opened", "resolved"]
        failing(world, "a")
        world.pass_time(480)
        assert len(world.titles) == 2
        world.pass_time(60)
        assert [one["kind"] for one in world.inbox.messages[2:]] == ["opened"]


def test_what_opens_again_before_its_end_was_reported_goes_on() -> None:
    with watched() as world:
        failing(world, "a")
        world.pass_time(30)
        over(world, "a")
        world.pass_time(10)
        failing(world, "a")
        world.pass_time(900)
        assert [one["kind"] for one in world.inbox.messages] == ["opened"]
        over(world, "a")
        world.pass_time(40)
        assert [one["kind"] for one in world.inbox.messages] == ["opened", "resolved"]


@pytest.mark.parametrize(
    ("name", "state"), [("schedule.approval_requested", "waiting"), ("budget.warning", "reported")]
)
def test_a_request_for_approval_is_news_also_before_the_end_of_the_last_one_was_reported(
    name: str, state: str
) -> None:
    now, (rule,) = HOUR * SECOND, rules_in([{"http": {"url": "http://inbox"}}])
    earlier = Notice(1, rule.name, "resolving", due_at=now, reported_at=now - 60 * SECOND)
    again = Alert.about(name, "s", now)._replace(id=2)
    found = notice_of(again, rule, [Past(now - 90 * SECOND, now - SECOND, earlier)], now)
    assert (found.notice.alert, found.notice.state, found.replaced) == (2, state, earlier)


def test_three_openings_within_six_cooldowns_flap_and_are_reported_once_per_repeat() -> None:
    with watched({"repeat": "6h"}) as world:
        for _ in range(12):  # up and down, for two hours
            failing(world, "a")
            world.pass_time(300)
            over(world, "a")
            world.pass_time(300)
        assert [one["kind"] for one in world.inbox.messages] == [
            *("opened", "resolved"),
            *("opened", "resolved"),
            "opened",
        ]
        assert world.titles[-1] == "FLAPPING BUDGET a: most of a budget is used"
        world.pass_time(2 * HOUR, every=60)  # quiet at last
        assert world.inbox.messages[-1]["kind"] == "resolved"
        before = len(world.titles)
        failing(world, "a")
        world.pass_time(40)
        assert len(world.titles) == before + 1


@pytest.mark.parametrize(("minutes", "is_flapping"), [(29, True), (31, False)])
def test_openings_flap_when_three_of_them_lie_within_six_cooldowns(minutes: int, is_flapping: bool) -> None:
    with watched({"group_wait": 0, "resolved": False}) as world:
        for _ in range(3):
            failing(world, "a")
            over(world, "a")
            world.pass_time(minutes * 60, every=60)
        words = [title.split()[0] for title in world.titles]
        assert words == ["BUDGET", "BUDGET", "FLAPPING" if is_flapping else "BUDGET"]  # and no end is told


def test_what_stays_open_is_repeated_once_a_day_or_never() -> None:
    with watched({"name": "daily"}, {"name": "never", "repeat": 0}) as world:
        failing(world, "a")
        world.pass_time(25 * HOUR, every=600)
        deliveries = [one["title"] for one in world.inbox.messages]
        assert sorted(deliveries) == [
            "[everwhen] BUDGET a: most of a budget is used",
            "[everwhen] BUDGET a: most of a budget is used",
            "[everwhen] STILL BUDGET a: most of a budget is used",
        ]


def test_a_repetition_counts_the_failures_until_now() -> None:
    with watched() as world:
        world.scheduler.add("s", every="1h")
        world.broken.add("s")
        world.pass_time(25 * HOUR, every=1_200)
        assert world.titles == [
            "FAILING s: the last slot failed",
            "STILL FAILING s: 25 slots in a row failed",
        ]


def test_past_max_per_hour_there_is_one_digest_an_hour_and_critical_alerts_pass() -> None:
    with watched({"max_per_hour": 3, "group_wait": 0, "resolved": False}) as world:
        for number in range(10):
            failing(world, f"k{number}")
            world.pass_time(60)
        assert [one["kind"] for one in world.inbox.messages] == ["opened"] * 3
        opened(world)
        assert world.inbox.messages[-1]["alert"]["severity"] == "critical"
        world.pass_time(HOUR, every=60)
        digests = [one for one in world.inbox.messages if one["kind"] == "digest"]
        assert [one["title"] for one in digests] == ["[everwhen] DIGEST: 7 alerts, 7 open"]
        failing(world, "later")
        assert world.titles[-1] == "BUDGET later: most of a budget is used"


def test_a_rule_sends_twenty_messages_in_an_hour_unless_it_says_otherwise() -> None:
    with watched({"group_wait": 0}) as world:
        for number in range(21):
            failing(world, f"k{number}")
        assert [one["kind"] for one in world.inbox.messages] == ["opened"] * 20


def test_ends_count_towards_max_per_hour_too_and_those_past_it_are_one_message_later() -> None:
    with watched({"max_per_hour": 4, "group_wait": 0}) as world:
        opened(world)
        for number in range(3):
            failing(world, f"k{number}")
            world.pass_time(60)
        for number in range(3):
            over(world, f"k{number}")
            world.pass_time(60)
        closed(world)
        assert [one["kind"] for one in world.inbox.messages] == ["opened"] * 4 + ["resolved"]
        assert world.titles[-1].startswith("RESOLVED n7")  # critical
        world.pass_time(HOUR, every=60)
        assert world.titles[5:] == ["RESOLVED 3 alerts (budget)"]


def test_quiet_hours_hold_all_but_critical_alerts_and_drop_what_is_over_by_then() -> None:
    with watched({"quiet_hours": "nights", "group_wait": 0}, start="2026-01-05T01:00:00Z") as world:
        hours = QuietHours(zone("UTC"), (QuietWindow(parse_window("22:00-07:00"), EVERY_WEEKDAY),), ())
        quiet_hours.create_quiet_hours(world.scheduler.runtime, QuietHoursPolicy("nights", "nights", hours))
        failing(world, "stays")
        failing(world, "ends")
        opened(world)
        assert world.titles == ["STALLED n7: the scheduler stalls"]
        over(world, "ends")
        world.pass_time(6 * HOUR - 60, every=60)
        assert len(world.titles) == 1
        world.pass_time(120, every=60)
        assert world.titles[1:] == ["BUDGET stays: most of a budget is used"]


def test_alerts_that_wait_in_their_thousands_keep_no_critical_one_and_no_new_one_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(alert_round, "MOST_NOTICES", 2)
    with watched({"quiet_hours": "nights", "group_wait": 0}, start="2026-01-05T01:00:00Z") as world:
        hours = QuietHours(zone("UTC"), (QuietWindow(parse_window("22:00-07:00"), EVERY_WEEKDAY),), ())
        quiet_hours.create_quiet_hours(world.scheduler.runtime, QuietHoursPolicy("nights", "nights", hours))
        for number in range(3):
            failing(world, f"k{number}")
        opened(world)
        assert world.titles == ["STALLED n7: the scheduler stalls"]
    with watched({"group_wait": 0, "repeat": 0}) as world:
        opened(world)
        for name in "abc":
            uid = world.scheduler.add(name, every="1h").uid
            missed = Event("schedule.missed", world.scheduler.clock.now(), name, uid, slot_count=1)
            stepping.record_event(world.scheduler.runtime, missed)
            world.look()
        failing(world, "new")
        assert world.titles == ["STALLED n7: the scheduler stalls", "BUDGET new: most of a budget is used"]


def test_after_an_absence_of_the_notifier_what_is_open_is_one_digest() -> None:
    with watched() as world:
        failing(world, "before")
        world.pass_time(30)
        world.notifier.release()
        for number in range(30):
            stepping.record_event(
                world.scheduler.runtime,
                Event("budget.warning", world.scheduler.clock.now(), detail={"key": f"k{number}"}),
            )
        stepping.record_event(
            world.scheduler.runtime,
            Event("budget.refilled", world.scheduler.clock.now(), detail={"key": "k3"}),
        )
        world.scheduler.clock.advance("1h")
        world.notifier = world.new_notifier("n2")
        world.pass_time(60)
        assert world.titles[1:] == ["DIGEST: 29 alerts, 29 open"]


def test_after_an_absence_the_digest_has_all_that_happened_however_many_rounds_that_takes() -> None:
    with watched() as world:
        world.notifier.release()
        now = world.scheduler.clock.now()
        store_of(world.scheduler.runtime).slots.record(
            [Event("budget.warning", now, detail={"key": f"k{number}"}) for number in range(2 * PORTION + 1)]
        )
        world.scheduler.clock.advance("1h")
        world.notifier = world.new_notifier("n2")
        world.pass_time(120)
        assert world.titles == ["DIGEST: 1,001 alerts, 1,001 open"]


def test_an_acknowledged_alert_is_not_repeated_and_its_end_is_reported() -> None:
    with watched({"repeat": "1h", "group_wait": 0}) as world:
        failing(world, "a")
        world.pass_time(HOUR + 60, every=60)
        assert [one["kind"] for one in world.inbox.messages] == ["opened", "repeated"]
        caller = Caller(Token("local", "ada", "admin", None, NO_LIMITS, created_at=0))
        alerts.acknowledge_alert(world.scheduler.runtime, world.inbox.messages[0]["alert"]["id"], caller)
        world.pass_time(3 * HOUR, every=60)
        over(world, "a")
        assert [one["kind"] for one in world.inbox.messages] == ["opened", "repeated", "resolved"]


def test_a_silence_holds_the_alerts_of_a_schedule_or_a_group_and_tells_what_is_open_after_it() -> None:
    with watched({"group_wait": 0}) as world:
        for name in ("ends", "stays"):
            world.scheduler.add(name, every="30m", group="g" if name == "stays" else None)
        caller = Caller(Token("local", "ada", "admin", None, NO_LIMITS, created_at=0))
        for subject in ("ends", "g"):
            alerts.silence_alerts(world.scheduler.runtime, subject, length=7_200_000_000, caller=caller)
        world.broken |= {"ends", "stays"}
        world.pass_time(90 * 60, every=60)
        world.broken.discard("ends")
        world.pass_time(29 * 60, every=60)
        assert world.titles == []
        world.pass_time(120, every=60)
        assert world.titles == ["FAILING stays: 5 slots in a row failed"]  # by now


def test_a_node_without_its_database_tells_of_its_stall_itself_once_and_of_its_end() -> None:
    with watched({"name": "pager"}, {"name": "quiet", "on": ["schedule.failing"]}) as world:
        watch = CutOffWatch(world.notifier.tell_alone)
        watch.look("the loop has completed no evaluation for 10s", is_cut_off=False)  # it can be recorded
        assert world.titles == []
        for _ in range(3):
            watch.look("the database is away", is_cut_off=True)
        assert world.titles == ["STALLED n1: the scheduler stalls"]
        assert "the database is away" in world.inbox.messages[0]["text"]
        watch.look("a schedule is overdue", is_cut_off=False)
        watch.look(None, is_cut_off=True)  # no heartbeat is written yet
        assert len(world.titles) == 1
        watch.look(None, is_cut_off=False)
        assert world.titles[1].startswith("RESOLVED n1: ready again")
        assert store_of(world.scheduler.runtime).alerts.pending() == []


def test_a_retry_to_come_a_cancelled_job_an_overlap_and_closed_time_are_no_alerts() -> None:
    with watched({"on": "all", "group_wait": 0}) as world:
        scheduler = world.scheduler
        scheduler.add("retried", every="1h", max_retries=3, retry_delay="10m")
        scheduler.add("closed", every="1h", only_between="12:00-13:00")
        world.broken.add("retried")
        scheduler.step()
        world.broken.clear()
        scheduler.add("cancelled", every="1h")
        scheduler.add("overlaps", every="5m", if_running="skip")
        scheduler.tick()
        (running,) = [job for job in scheduler.claim() if job.job.schedule_id == "overlaps"]
        for job in scheduler.jobs("cancelled"):
            scheduler.cancel_job(job.job_id)
        for _ in range(3):
            scheduler.clock.advance("5m")
            scheduler.beat()
            scheduler.tick()
            world.look()
        scheduler.settle(running)
        scheduler.advance("30m")
        world.look()
        skipped = {one.reason for one in scheduler.events(None, "schedule.skipped")}
        assert skipped == {"outside_window", "already_running"}
        assert scheduler.events("cancelled", "job.cancelled") != []
        assert world.titles == []
