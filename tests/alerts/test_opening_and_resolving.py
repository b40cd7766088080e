"""Every class of alerts is opened by its event, and resolved by what ends it."""

from __future__ import annotations

from typing import Any

import pytest

from everwhen.model.cost import parse_cost
from everwhen.model.events import Event, EventType
from everwhen.model.instants import SECOND
from everwhen.model.outcome import Outcome
from everwhen.model.queries import AlertFilter
from everwhen.model.schedule import Target
from everwhen.model.token import NO_LIMITS, Token
from everwhen.operations import breakers, stepping
from everwhen.operations.access import Caller
from everwhen.operations.alerts import silence_alerts
from everwhen.store.opened import store_of
from tests.alerts.notifying import watched
from tests.submissions import Submission, create_schedules

HOUR = 3_600
URGENT = {"group_wait": 0, "cooldown": 0}
COMMAND = Target("command", '{"argv": ["true"]}')


def test_a_failing_schedule_is_reported_after_the_group_wait_and_its_success_too() -> None:
    with watched() as world:
        world.scheduler.add("backup", cron="0 * * * *", timezone="Europe/Berlin")
        world.broken.add("backup")
        world.pass_time(HOUR + 20)
        assert world.titles == []
        world.pass_time(20)
        assert world.titles == ["FAILING backup: the last slot failed"]
        (message,) = world.inbox.messages
        assert message["text"].splitlines() == [
            'Since Mon 2026-01-05 02:00:00 CET +01:00 (30s). Last error: "API key not set"',
            f"Evidence: job {message['evidence']['job_id']}, slot Mon 2026-01-05 02:00:00 CET +01:00",
            "Next: Mon 2026-01-05 03:00:00 CET +01:00 (in 59m). everwhen why backup",
        ]
        assert (message["kind"], message["alert"]["class"]) == ("opened", "schedule.failing")
        world.broken.clear()
        world.pass_time(HOUR + 60)
        assert world.titles[1:] == ["RESOLVED backup: succeeded Mon 2026-01-05 03:00:00 CET +01:00, after 1h"]
        assert world.inbox.messages[1]["alert"]["id"] == message["alert"]["id"]


def test_three_slots_in_a_row_fail_before_a_frequent_schedule_is_reported() -> None:
    with watched() as world:
        world.scheduler.add("often", every="5m", first_run="after_interval")
        world.broken.add("often")
        world.pass_time(700)
        assert world.titles == []
        world.scheduler.trigger("often")  # a run by hand is none of the slots in a row
        world.pass_time(300)
        assert world.titles == ["FAILING often: 3 slots in a row failed"]
        (message,) = world.inbox.messages
        assert message["text"].startswith("Since Mon 2026-01-05 00:05:00 UTC (10m). ")
        assert message["evidence"]["began_at"] == "2026-01-05T00:05:00+00:00"
        world.broken.clear()
        world.pass_time(300)
        assert world.titles[1:] == ["RESOLVED often: succeeded Mon 2026-01-05 00:20:00 UTC, after 15m"]


@pytest.mark.parametrize("cron", ["0,10,20 9 * * *", "*/20 9 * * *", "0 9 * * *", "0 9-17 * * *"])
def test_a_schedule_that_only_fails_is_reported_whatever_lies_between_its_slots(cron: str) -> None:
    with watched() as world:
        world.scheduler.add("s", cron=cron)
        world.broken.add("s")
        world.pass_time(10 * HOUR, every=600)
        assert [title.partition(":")[0] for title in world.titles] == ["FAILING s"]


def test_a_dead_schedule_explains_that_it_fails_and_is_resolved_by_its_revival() -> None:
    with watched() as world:
        world.scheduler.add("once", every="1h", max_retries=0, on_exhausted="stop")
        world.broken.add("once")
        world.pass_time(60)
        assert world.titles == ["DEAD once: it died: more failures in a row than it may have"]
        assert [one["class"] for one in world.inbox.messages[0]["gathered"]] == ["schedule.failing"]
        world.broken.clear()
        world.scheduler.revive("once")
        world.pass_time(60)
        assert [title.split(",")[0] for title in world.titles[1:]] == [
            "RESOLVED once: active again Mon 2026-01-05 00:01:10 UTC"
        ]


def test_an_invalid_schedule_is_reported() -> None:
    with watched() as world:
        world.scheduler.add("s", every="1h")
        state = world.scheduler.state("s")
        event = Event(
            "schedule.invalidated", world.scheduler.clock.now(), "s", state.uid, reason="no such function"
        )
        stepping.record_event(world.scheduler.runtime, event)
        world.pass_time(10)
        assert world.titles == []  # its row is active: it is over before anybody was told
        alerts = store_of(world.scheduler.runtime).alerts
        assert alerts.pending() == []


def test_a_breaker_gathers_the_schedules_that_fail_because_of_it() -> None:
    with watched() as world:
        for name in ("a", "b"):
            world.scheduler.add(name, every="1h", circuit_breaker={"threshold": 1, "reset_after": "1d"})
        world.broken |= {"a", "b"}
        world.pass_time(60)
        assert world.titles == ["BREAKER OPEN 2 schedules"]
        gathered = world.inbox.messages[0]["gathered"]
        assert sorted(one["schedule"] for one in gathered) == ["a", "b"]
        for item in world.inbox.messages[0]["items"]:
            breakers.reset_breaker(world.scheduler.runtime, item["key"].partition(" ")[2])
        world.broken.clear()
        world.pass_time(50)
        assert world.titles[1:2] == ["RESOLVED 2 schedules (breaker open)"]


@pytest.mark.parametrize("end", ["paused", "deleted"])
def test_a_breaker_of_one_schedule_is_no_news_once_that_is_paused_or_deleted(end: str) -> None:
    with watched({"on": ["breaker.opened"], **URGENT}) as world:
        world.scheduler.add("s", every="1h", circuit_breaker={"threshold": 1, "reset_after": "30m"})
        world.broken.add("s")
        world.pass_time(10)
        world.scheduler.pause("s") if end == "paused" else world.scheduler.delete("s")
        world.pass_time(60)
        assert world.titles[1].startswith(f"RESOLVED s: {end}")
        if end == "paused":
            world.scheduler.resume("s")
            world.pass_time(HOUR + 60, every=60)
            assert world.titles[2].startswith("BREAKER OPEN s")  # its probe failed


def test_what_goes_on_failing_after_its_breaker_was_closed_by_another_is_reported_then() -> None:
    with watched() as world:
        breaker = {"threshold": 2, "reset_after": "30m"}
        for name in ("recovers", "stays"):
            world.scheduler.add(name, every="1h", group="g", circuit_breaker=breaker)
        world.broken |= {"recovers", "stays"}
        world.pass_time(120)
        assert world.titles == ["BREAKER OPEN g: its breaker opened; slots are skipped until a run succeeds"]
        assert len(world.inbox.messages[0]["gathered"]) == 2
        world.broken.discard("recovers")
        world.pass_time(HOUR + 300, every=30)
        assert world.titles[1].startswith("RESOLVED g: closed")
        assert len(world.titles) == 2  # it has not run since
        world.pass_time(HOUR, every=30)
        assert world.titles[2:] == ["FAILING stays: 2 slots in a row failed"]
        world.broken.clear()
        world.pass_time(HOUR, every=30)
        assert world.titles[3].startswith("RESOLVED stays: succeeded") and len(world.titles) == 4


@pytest.mark.parametrize(
    ("group", "concern"), [("g", {"group": "g"}), ("g", {"owner": "team"}), (None, {"schedule": "s"})]
)
def test_a_rule_about_a_group_or_a_schedule_hears_of_its_breaker(
    group: str | None, concern: dict[str, str]
) -> None:
    rule = {"on": ["breaker.opened"], "group_wait": 0}
    elsewhere = {"name": "elsewhere", "for": {"group": "h", "schedule": "t"}, **rule}
    with watched({"for": concern, **rule}, elsewhere) as world:
        world.scheduler.add("s", every="1h", group=group, owner="team", circuit_breaker={"threshold": 1})
        world.broken.add("s")
        world.pass_time(60)
        assert world.titles == [
            f"BREAKER OPEN {group or 's'}: its breaker opened; slots are skipped until a run succeeds"
        ]


@pytest.mark.parametrize(("group", "silenced"), [("g", "g"), (None, "s")])
def test_a_silence_holds_the_breaker_of_its_group_or_its_schedule(group: str | None, silenced: str) -> None:
    with watched(URGENT) as world:
        world.scheduler.add("s", every="1h", group=group, circuit_breaker={"threshold": 1})
        caller = Caller(Token("local", "ada", "admin", None, NO_LIMITS, created_at=0))
        silence_alerts(world.scheduler.runtime, silenced, length=HOUR * SECOND, caller=caller)
        world.broken.add("s")
        world.pass_time(600, every=60)
        assert world.titles == []


def test_missed_slots_of_one_outage_are_one_message() -> None:
    with watched() as world:
        for number in range(200):
            world.scheduler.add(f"s{number}", every="1h", first_run="after_interval", catch_up="skip")
        world.scheduler.sleep("5h")
        world.scheduler.beat()
        world.pass_time(60)
        assert world.titles == ["MISSED 200 schedules"]
        assert world.inbox.messages[0]["items"][0]["text"].startswith("s0: 4 slots were missed")
        assert len(world.inbox.messages[0]["items"]) == 10
        assert world.inbox.messages[0]["total"] == 200
        world.pass_time(1_800, every=60)
        assert len(world.titles) == 1  # a fact is never resolved


def test_a_second_outage_is_a_message_of_its_own_also_when_nobody_looked_in_between() -> None:
    with watched() as world:
        world.scheduler.add("s", every="1m", first_run="after_interval", catch_up="skip")
        world.scheduler.sleep("30m")
        world.scheduler.beat()
        world.pass_time(60)
        assert world.titles == ["MISSED s: 29 slots were missed"]
        world.notifier.release()  # the node ends with the first outage hardly told
        world.scheduler.sleep("20m")
        world.scheduler.beat()
        world.scheduler.step()
        world.notifier = world.new_notifier("n2")
        world.pass_time(60)
        assert [one["kind"] for one in world.inbox.messages] == ["opened", "digest"]
        assert world.inbox.messages[1]["text"].startswith("Since Mon 2026-01-05 00:51:00 UTC")


@pytest.mark.parametrize(
    ("opened", "closed", "subject"),
    [
        ("scheduler.stalled", "scheduler.recovered", {"node": "n7", "reason": "the database is read-only"}),
        ("config.rejected", "config.reloaded", {"error": "everwhen.yaml:3: unknown key"}),
        ("budget.warning", "budget.refilled", {"key": "reviewer"}),
        ("budget.reached", "budget.refilled", {"key": "reviewer"}),
        ("budget.unmeasured", "budget.refilled", {"key": "reviewer"}),
    ],
)
def test_what_is_about_no_schedule_opens_and_closes_by_events(
    opened: EventType, closed: EventType, subject: dict[str, object]
) -> None:
    with watched(URGENT) as world:

        def record(kind: EventType, detail: dict[str, object]) -> None:
            stepping.record_event(
                world.scheduler.runtime, Event(kind, world.scheduler.clock.now(), detail=detail)
            )
            world.look()

        record(opened, subject)
        assert [one["kind"] for one in world.inbox.messages] == ["opened"]
        record(opened, subject)
        assert len(world.titles) == 1  # the same alert, counted again
        record(closed, {"key": "other", "node": "n8"} if "node" in subject or "key" in subject else subject)
        if "error" not in subject:
            assert len(world.titles) == 1
            record(closed, subject)
        assert [one["kind"] for one in world.inbox.messages] == ["opened", "resolved"]


def test_a_budget_that_names_its_refill_resolves_by_itself() -> None:
    with watched(URGENT) as world:
        now = world.scheduler.clock.now()
        detail = {"key": "reviewer", "refill_at": now + 600_000_000}
        stepping.record_event(world.scheduler.runtime, Event("budget.reached", now, detail=detail))
        world.pass_time(590)
        assert len(world.titles) == 1
        world.pass_time(20)
        assert world.titles[1:] == ["RESOLVED reviewer: refilled Mon 2026-01-05 00:10:00 UTC, after 10m"]


@pytest.mark.parametrize(
    ("kind", "detail"),
    [
        ("budget.reached", {"key": "reviewer"}),
        ("config.rejected", {"lines": ["everwhen.yaml:1: no"]}),
        ("node.lost", {"node": "n2"}),
    ],
)
def test_what_is_of_no_schedule_is_in_the_zone_of_the_service(
    kind: EventType, detail: dict[str, Any]
) -> None:
    with watched({"on": [kind], **URGENT}, timezone="Asia/Kolkata") as world:
        now = world.scheduler.clock.now()
        detail = {**detail, "refill_at": now + 600_000_000}
        stepping.record_event(world.scheduler.runtime, Event(kind, now, detail=detail))
        world.look()
        text = world.inbox.messages[0]["text"]
        assert text.startswith("Since Mon 2026-01-05 05:30:00 IST +05:30 (0s).")
        assert "Refills: Mon 2026-01-05 05:40:00 IST +05:30 (in 10m)." in text


def test_an_alert_that_a_pause_ends_says_who_paused_until_when_and_why() -> None:
    with watched(URGENT) as world:
        world.scheduler.add("s", every="1h", first_run="immediately", timezone="Asia/Kolkata")
        world.broken.add("s")
        world.pass_time(60)
        world.scheduler.pause("s", note="moving\nhouse", until="2026-01-06T00:00:00Z")
        world.pass_time(60)
        at, until = "Mon 2026-01-05 05:31:10 IST +05:30", "Tue 2026-01-06 05:30:00 IST +05:30"
        assert world.titles[1:] == [
            f"RESOLVED s: paused {at} by a person, until {until} (moving house), after 1m"
        ]


def test_a_budget_warns_is_reached_and_refills() -> None:
    with watched(URGENT) as world:
        limits = {"fires_per_hour": 5}
        world.scheduler.add(
            "s", every="10m", first_run="immediately", owner="team", budgets={"owner:team": limits}
        )
        world.pass_time(3_600 + 60)
        assert world.titles == [
            "BUDGET owner:team fires_per_hour: most of a budget is used: 4 of 5",
            "BUDGET REACHED owner:team fires_per_hour: a budget is used up: 5 of 5",
            "RESOLVED owner:team fires_per_hour: refilled Mon 2026-01-05 01:00:00 UTC, after 30m",
            "RESOLVED owner:team fires_per_hour: refilled Mon 2026-01-05 01:00:00 UTC, after 20m",
        ]
        reached = world.inbox.messages[1]
        assert reached["text"].splitlines()[-1] == "Refills: Mon 2026-01-05 01:00:00 UTC (in 20m)."
        assert reached["evidence"]["refill_at"] == "2026-01-05T01:00:00+00:00"


def test_runs_without_a_cost_are_reported_until_one_has_it() -> None:
    with watched(URGENT) as world:
        limits = {"cost_per_day": "90 USD", "cost_per_run": "0.1 USD"}
        world.scheduler.add("s", every="1m", owner="team", budgets={"owner:team": limits})
        world.pass_time(11 * 60)
        titles = [one for one in world.titles if "UNMEASURED" in one]
        assert titles == ["BUDGET UNMEASURED s: runs report no cost"]
        world.scheduler.outcome = lambda _job: Outcome("succeeded", cost=parse_cost("0.01 USD"))
        world.pass_time(2 * 60)
        assert world.titles[-1].startswith("RESOLVED s: reported a cost")


def test_an_approval_is_asked_for_and_answered() -> None:
    with watched(URGENT) as world:
        world.scheduler.add("s", every="1h")
        state = world.scheduler.state("s")
        now = world.scheduler.clock.now()
        record = stepping.record_event
        record(world.scheduler.runtime, Event("schedule.approval_requested", now, "s", state.uid))
        record(world.scheduler.runtime, Event("schedule.approved", now, "s", state.uid))
        world.look()
        assert world.titles == []  # answered at once


def test_an_overdue_slot_is_reported_until_it_is_decided() -> None:
    with watched(URGENT) as world:
        world.scheduler.add("s", every="1h", first_run="after_interval")
        state = world.scheduler.state("s")
        world.scheduler.clock.advance("2h")
        event = Event(
            "schedule.overdue", world.scheduler.clock.now(), "s", state.uid, slot_at=state.next_slot_at
        )
        stepping.record_event(world.scheduler.runtime, event)
        world.look()
        assert world.titles == ["OVERDUE s: a slot is overdue"]
        world.scheduler.step()
        world.look()
        assert world.titles[1].startswith("RESOLVED s: decided")
        assert world.titles[2] == "MISSED s: 1 slot was missed"


def test_a_silent_schedule_is_reported_and_a_manual_success_resolves_it() -> None:
    with watched({"on": ["schedule.silent"], **URGENT}) as world:
        world.scheduler.add("s", cron="0 * * * *", expect={"each": "slot", "grace": "10m"})
        world.broken.add("s")
        world.pass_time(80 * 60, every=60)
        (title,) = world.titles
        assert (
            title
            == "SILENT s: no success by Mon 2026-01-05 01:10:00 UTC, after a slot that should have had one"
        )
        world.broken.clear()
        world.scheduler.trigger("s")
        world.pass_time(120, every=60)
        assert world.titles[1].startswith("RESOLVED s: succeeded Mon 2026-01-05 01:2")


def test_a_stall_gathers_the_silence_that_it_causes() -> None:
    with watched({"on": "all"}) as world:
        world.scheduler.add("s", cron="0 * * * *", expect={"each": "slot", "grace": "10m"})
        world.broken.add("s")
        world.scheduler.run_until("2026-01-05T01:09:50Z")
        detail = {"node": "n7", "reason": "locked"}
        stepping.record_event(
            world.scheduler.runtime, Event("scheduler.stalled", world.scheduler.clock.now(), detail=detail)
        )
        world.pass_time(60)
        stalled = next(one for one in world.inbox.messages if one["alert"]["class"] == "scheduler.stalled")
        assert [one["class"] for one in stalled["gathered"]] == ["schedule.silent"]


def test_pausing_a_schedule_closes_its_alerts_and_deleting_it_too() -> None:
    with watched(URGENT) as world:
        for name in ("paused", "deleted"):
            world.scheduler.add(name, every="1h")
        world.broken |= {"paused", "deleted"}
        world.pass_time(10)
        assert world.titles == ["FAILING 2 schedules"]
        world.scheduler.pause("paused")
        world.scheduler.delete("deleted")
        world.look()
        assert world.titles[1:] == ["RESOLVED 2 schedules (failing)"]


def test_what_goes_on_failing_after_a_pause_is_reported_again_and_not_before_it_has_run() -> None:
    with watched() as world:
        for name in ("stays", "recovers"):
            world.scheduler.add(name, every="1h")
        world.broken |= {"stays", "recovers"}
        world.pass_time(60)
        for name in ("stays", "recovers"):
            world.scheduler.pause(name)
        world.pass_time(60)
        assert world.titles == ["FAILING 2 schedules", "RESOLVED 2 schedules (failing)"]
        world.broken.discard("recovers")
        for name in ("stays", "recovers"):
            world.scheduler.resume(name)
        world.pass_time(1_800, every=60)
        assert len(world.titles) == 2
        world.pass_time(3_600, every=60)
        assert world.titles[2:] == ["FAILING stays: 2 slots in a row failed"]
        world.scheduler.pause("stays")
        world.scheduler.resume("stays")
        world.pass_time(7_200, every=60)
        assert len(world.titles) == 3  # it goes on: nobody was told that it ended
        world.broken.clear()
        world.pass_time(3_720, every=60)
        assert world.titles[3].startswith("RESOLVED stays: succeeded") and len(world.titles) == 4


def test_a_resume_opens_only_what_the_pause_closed_and_what_still_fires() -> None:
    with watched(URGENT) as world:
        for name in ("sound", "paused"):
            world.scheduler.add(name, every="1h")
        world.broken.add("paused")
        world.pass_time(10)
        for name in ("sound", "paused"):
            world.scheduler.pause(name)
        world.pass_time(10)
        for name in ("sound", "paused"):
            world.scheduler.resume(name)
        world.scheduler.pause("paused")  # before the notifier looks
        world.pass_time(60)
        assert [title.partition(":")[0] for title in world.titles] == ["FAILING paused", "RESOLVED paused"]
        assert store_of(world.scheduler.runtime).alerts.list(AlertFilter(state="open"), limit=9) == []


def test_a_rule_hears_only_what_it_names_and_whom_it_concerns() -> None:
    of_s1 = {"on": ["schedule.failing"], "for": {"schedule": "s1"}, **URGENT}
    with watched(of_s1) as world:
        for name in ("s1", "s2"):
            world.scheduler.add(name, every="1h")
        world.broken |= {"s1", "s2"}
        world.pass_time(10)
        assert world.titles == ["FAILING s1: the last slot failed"]
    others = [{"severity": "critical"}, {"owner": "bob"}, {"group": "h"}, {"schedule": ["s2", "s3"]}]
    with watched(*({"name": f"r{n}", "for": one, **URGENT} for n, one in enumerate(others))) as world:
        world.scheduler.add("s1", every="1h", owner="ada", group="g")
        world.broken.add("s1")
        world.pass_time(10)
        assert world.titles == []


@pytest.mark.parametrize("name", ["nightly", "s1"])
def test_a_rule_names_a_schedule_by_its_id_or_by_the_key_of_its_caller(name: str) -> None:
    rule = {"on": ["schedule.failing", "schedule.died"], "for": {"schedule": name}, **URGENT}
    with watched(rule) as world:
        keys = {"every": "1h", "max_retries": 0, "on_exhausted": "stop", "owner": "ada"}
        named = {"s1": "ada/nightly", "s2": "ada/hourly"}
        new = [Submission(name, keys, COMMAND, key=key) for name, key in named.items()]
        create_schedules(world.scheduler.runtime, new)
        world.broken |= {"s1", "s2"}
        world.pass_time(10)
        assert world.titles == ["DEAD s1: it died: more failures in a row than it may have"]


def test_any_recorded_event_can_be_named() -> None:
    with watched({"on": ["schedule.created", "schedule.paused"], **URGENT}) as world:
        world.scheduler.add("s", every="1h")
        world.scheduler.pause("s")
        world.look()
        assert world.titles == ["EVENT s: schedule.created", "EVENT s: schedule.paused"]


def test_the_text_tells_what_the_job_cost_and_what_is_left_of_its_budgets() -> None:
    with watched({"on": ["schedule.failing"], **URGENT}) as world:
        limits = {"cost_per_day": "5 USD", "cost_per_month": "90 USD", "cost_per_run": "1 USD"}
        world.scheduler.add("s", every="1h", owner="team", budgets={"owner:team": limits})
        world.scheduler.outcome = lambda _job: Outcome(
            "failed", error="exit code 1", cost=parse_cost("0.42 USD")
        )
        world.pass_time(10)
        (message,) = world.inbox.messages
        evidence = message["text"].splitlines()[1]
        assert evidence.endswith(", cost 0.42 USD, cost today 0.42 of 5 USD, cost this month 0.42 of 90 USD")
        assert message["evidence"]["cost"] == "0.42 USD"
        assert message["evidence"]["budgets"][0] == {
            "budget": "owner:team",
            "limit": "cost_per_day",
            "used": 0.42,
            "estimated": 0,
            "most": 5,
            "unit": "USD",
        }


def test_the_text_tells_what_is_estimated_of_costs_apart_from_what_was_reported() -> None:
    with watched({"on": ["schedule.failing", "budget.warning"], **URGENT}) as world:
        limits = {"cost_per_day": "3 USD", "cost_per_run": "1 USD"}
        world.scheduler.add("s", every="1h", owner="team", budgets={"owner:team": limits})
        outcomes = [Outcome("failed", error="no", cost=parse_cost("1.60 USD")), Outcome("failed", error="no")]
        world.scheduler.outcome = lambda job: outcomes[job.job.number - 1]
        world.pass_time(10)
        world.pass_time(3_600)
        failing, warned = world.inbox.messages
        assert "cost 1.6 USD, cost today 1.6 of 3 USD" in failing["text"]
        assert "most of a budget is used: 1.6 reported and 1 estimated of 3 USD" in warned["title"]
    with watched({"on": ["schedule.failing"], **URGENT}) as world:
        world.scheduler.add("s", every="1h", owner="team", budgets={"owner:team": limits})
        world.scheduler.outcome = lambda _job: outcomes[1]
        world.pass_time(10)
        (message,) = world.inbox.messages
        assert "cost 1 USD estimated, cost today 1 estimated of 3 USD" in message["text"]
        evidence = message["evidence"]
        assert (evidence["cost"], evidence["cost_estimated"]) == ("1 USD", "1 USD")
        assert (evidence["budgets"][0]["used"], evidence["budgets"][0]["estimated"]) == (1, 1)


@pytest.mark.parametrize(
    "end", [Event("webhook.deleted", 0), Event("webhook.updated", 0, detail={"active": True})]
)
def test_a_webhook_that_was_switched_off_is_an_alert_until_it_is_on_again_or_gone(end: Event) -> None:
    with watched({"group_wait": 0}) as world:
        tokens, now = store_of(world.scheduler.runtime).tokens, world.scheduler.clock.now
        about = {"rule": "webhook:whk_1", "delivery": "d", "error": "HTTP 500"}
        tokens.record([Event("alert.failed", now(), detail=about)])
        world.pass_time(60)
        assert world.titles == ["ALERT FAILED webhook:whk_1: a message could not be delivered"]
        tokens.record([end._replace(at=now(), detail={"webhook": "whk_1", **end.detail})])
        world.pass_time(60)
        assert len(world.titles) == 2
        assert world.titles[1].startswith("RESOLVED webhook:whk_1")


def test_links_lead_to_the_dashboard_where_its_address_is_known() -> None:
    with watched() as world:
        world.scheduler.add("report", every="1h")
        world.broken.add("report")
        world.pass_time(60)
        paths = world.inbox.messages[0]["links"]
        assert paths["dashboard"] == "/schedules/report"
        assert "/schedules/report" not in world.inbox.messages[0]["text"]
        world.public_url, world.broken = "https://everwhen.example.com/tools", set()
        world.pass_time(3600)
        base = "https://everwhen.example.com/tools"
        assert world.inbox.messages[1]["links"] == {name: f"{base}{path}" for name, path in paths.items()}
        assert world.inbox.messages[1]["text"].splitlines()[-1] == f"{base}/schedules/report"
