"""Every class of alerts is opened by what causes it, and resolved by what ends it; none is left out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import NoReturn

import pytest

from everwhen.config.sections.notify import rules_in
from everwhen.decide import approval, status
from everwhen.decide.alert_messages import AlertMessage
from everwhen.decide.alert_text import Facts, title_of
from everwhen.decide.alerts import ScheduleFacts
from everwhen.engine.slow_runs import SlowWatch
from everwhen.engine.watches import OverdueWatch, StallWatch
from everwhen.errors import ConfigError
from everwhen.model.alerts import CLASSES, Alert, Sent
from everwhen.model.cost import parse_cost
from everwhen.model.events import Event, EventType
from everwhen.model.generated_keys import generated_key
from everwhen.model.outcome import Outcome
from everwhen.model.queries import AlertFilter, ScheduleLabel
from everwhen.operations import apply, breakers, stepping
from everwhen.store.opened import store_of
from tests.alerts.notifying import Inbox, Watched, watched

HOUR = 3_600
URGENT = {"group_wait": 0, "cooldown": 0}
Story = Callable[[Watched], Iterator[None]]
# The notifier opens and closes it without an event: its own tests do both.
WITHOUT_EVENTS = frozenset(("scheduler.feed_delayed",))


def failing(world: Watched) -> Iterator[None]:
    world.scheduler.add("s", every="1h")
    world.broken.add("s")
    world.scheduler.step()
    yield
    world.broken.clear()
    world.scheduler.advance("1h")


def died(world: Watched) -> Iterator[None]:
    world.scheduler.add("s", every="1h", max_retries=0, on_exhausted="stop")
    world.broken.add("s")
    world.scheduler.step()
    yield
    world.scheduler.revive("s")


def invalidated(world: Watched) -> Iterator[None]:
    world.scheduler.add("s", every="1h")
    world.scheduler.outcome = lambda _job: Outcome(
        "failed", error="the command is gone", is_final=True, invalidates=True
    )
    world.scheduler.step()
    yield
    store_of(world.scheduler.runtime).catalogue.change(world.scheduler.clock.now(), "s", status.restore)


def breaker_opened(world: Watched) -> Iterator[None]:
    world.scheduler.add("s", every="1h", circuit_breaker={"threshold": 1, "reset_after": "1d"})
    world.broken.add("s")
    world.scheduler.step()
    yield
    (breaker,) = store_of(world.scheduler.runtime).ledger.breakers()
    breakers.reset_breaker(world.scheduler.runtime, breaker.key)


def silent(world: Watched) -> Iterator[None]:
    world.scheduler.add("s", cron="0 * * * *", expect={"each": "slot", "grace": "10m"})
    world.broken.add("s")
    world.scheduler.advance("80m")
    yield
    world.broken.clear()
    world.scheduler.advance("1h")


def missed(world: Watched) -> Iterator[None]:
    world.scheduler.add("s", every="1h", first_run="after_interval", catch_up="skip")
    world.scheduler.sleep("5h")
    world.scheduler.step()
    yield


def overdue(world: Watched) -> Iterator[None]:
    world.scheduler.add("s", every="10m", first_run="after_interval")
    world.scheduler.sleep("25m")
    OverdueWatch(world.scheduler.runtime).step(world.scheduler.node)
    yield
    world.scheduler.step()


def slow(world: Watched) -> Iterator[None]:
    scheduler = world.scheduler
    scheduler.add("s", every="10m")
    for _ in range(20):
        scheduler.step()
        scheduler.advance("10m", work=False)
    (job,) = scheduler.claim()
    scheduler.clock.advance("70s")
    SlowWatch(scheduler.runtime).step(scheduler.node)
    yield
    scheduler.settle(job)


def approval_requested(world: Watched) -> Iterator[None]:
    store, now = store_of(world.scheduler.runtime), world.scheduler.clock.now
    world.scheduler.add("s", every="1h", description="Looks for new mail")
    store.catalogue.change(now(), "s", partial(approval.request, actor="agent"))
    yield
    store.catalogue.change(now(), "s", partial(approval.approve, revision=1, by="ada"))


def budget_used(world: Watched) -> Iterator[None]:
    limits = {"fires_per_hour": 5}
    world.scheduler.add("s", every="10m", owner="team", budgets={"owner:team": limits})
    world.scheduler.advance("50m")
    yield
    world.scheduler.advance("10m")


def budget_unmeasured(world: Watched) -> Iterator[None]:
    limits = {"cost_per_day": "90 USD", "cost_per_run": "0.1 USD"}
    world.scheduler.add("s", every="1m", owner="team", budgets={"owner:team": limits})
    world.scheduler.advance("11m")
    yield
    world.scheduler.outcome = lambda _job: Outcome("succeeded", cost=parse_cost("0.01 USD"))
    world.scheduler.advance("1m")


def node_unfit(world: Watched) -> Iterator[None]:
    slots, clock = store_of(world.scheduler.runtime).slots, world.scheduler.clock
    slots.note_fitness(clock.now(), node="n1", fault="descriptors", since=clock.now())
    yield
    slots.note_fitness(clock.now(), node="n1", fault=None, since=clock.now())


def stalled(world: Watched) -> Iterator[None]:
    clock = world.scheduler.clock

    def record(kind: EventType, detail: dict[str, object]) -> None:
        event = Event(kind, clock.now(), detail={"node": "n1", **detail})
        stepping.record_event(world.scheduler.runtime, event)

    watch = StallWatch(clock, record)
    watch.look("the loop has completed no evaluation for 10s")
    watch.tell()
    yield
    watch.look(None)
    watch.tell()


def node_lost(world: Watched) -> Iterator[None]:
    scheduler = world.scheduler
    scheduler.beat()
    scheduler.restart()
    scheduler.clock.advance("1m")
    store_of(scheduler.runtime).upkeep.note_lost(scheduler.clock.now(), node=scheduler.node, lease=30_000_000)
    yield


def clock_stepped(world: Watched) -> Iterator[None]:
    world.scheduler.clock.step("10m")
    world.scheduler.step()
    yield


def config_rejected(world: Watched) -> Iterator[None]:
    def refuse() -> NoReturn:
        raise ConfigError("everwhen.yaml:3: unknown key")

    with pytest.raises(ConfigError):
        apply.reload(world.scheduler.runtime, refuse)
    yield
    event = Event("config.reloaded", world.scheduler.clock.now(), detail={"revision": 2})
    stepping.record_event(world.scheduler.runtime, event)


def alert_failed(world: Watched) -> Iterator[None]:
    refusing = Inbox(answer=lambda _delivery: Sent(False, "HTTP 404: gone", is_final=True))
    world.channels["command"] = refusing
    refused = {"name": "refused", "command": ["x"], "on": ["scheduler.clock_stepped"], "group_wait": 0}
    world.rules = (*world.rules, *rules_in([refused]))
    world.scheduler.clock.step("10m")
    world.scheduler.step()
    yield
    refusing.answer = lambda _delivery: Sent(True)
    world.scheduler.clock.advance("1h")
    world.look()
    world.scheduler.clock.step("10m")
    world.scheduler.step()


STORIES: dict[str, Story] = {
    "schedule.failing": failing,
    "schedule.died": died,
    "schedule.invalidated": invalidated,
    "breaker.opened": breaker_opened,
    "schedule.silent": silent,
    "schedule.missed": missed,
    "schedule.overdue": overdue,
    "schedule.slow": slow,
    "schedule.approval_requested": approval_requested,
    "budget.warning": budget_used,
    "budget.reached": budget_used,
    "budget.unmeasured": budget_unmeasured,
    "scheduler.stalled": stalled,
    "node.lost": node_lost,
    "node.unfit": node_unfit,
    "scheduler.clock_stepped": clock_stepped,
    "config.rejected": config_rejected,
    "alert.failed": alert_failed,
}


def open_alerts(world: Watched) -> list[str]:
    found = store_of(world.scheduler.runtime).alerts.list(AlertFilter(state="open"), limit=10)
    return [one.class_ for one in found]


@pytest.mark.parametrize("name", sorted(CLASSES.keys() - WITHOUT_EVENTS))
def test_a_class_is_opened_by_its_cause_and_resolved_by_its_end(name: str) -> None:
    with watched({"name": "told", "on": [name], **URGENT}) as world:
        story = STORIES[name](world)
        next(story)
        world.look()
        (message,) = world.inbox.messages
        assert (message["kind"], message["alert"]["class"]) == ("opened", name)
        assert message["alert"]["severity"] == CLASSES[name].severity
        assert message["title"].startswith(f"[everwhen] {CLASSES[name].word} ")
        assert name in open_alerts(world)
        for _ in story:
            pytest.fail("the end comes after the only pause")
        world.look()
        if CLASSES[name].is_fact:
            world.scheduler.clock.advance("10m")
            world.look()
        assert name not in open_alerts(world)
        kinds = ["opened"] if CLASSES[name].is_fact else ["opened", "resolved"]
        assert [one["kind"] for one in world.inbox.messages] == kinds


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_problems_are_reported_without_being_named_and_the_others_are_not(name: str) -> None:
    (rule,) = rules_in([{"http": {"url": "http://a"}}])
    assert (name in rule.classes) == (name != "schedule.slow")


def test_a_refused_configuration_is_reported_with_its_mistakes() -> None:
    with watched({"on": ["config.rejected"], **URGENT}) as world:
        next(config_rejected(world))
        world.look()
        assert 'Last error: "everwhen.yaml:3: unknown key"' in world.inbox.messages[0]["text"]


def test_a_request_for_approval_is_reported_with_what_is_asked_and_how_it_is_answered() -> None:
    with watched({"on": ["schedule.approval_requested"], **URGENT}) as world:
        next(approval_requested(world))
        world.look()
        lines = world.inbox.messages[0]["text"].splitlines()
        assert lines[1] == 'Asked for: every hour, "Looks for new mail"'
        assert lines[2].startswith(
            "If it is approved now: Mon 2026-01-05 01:00:00 UTC, Mon 2026-01-05 02:00:00 UTC, "
        )
        assert lines[-1] == "everwhen schedules approve s --revision 1"


def test_a_request_shows_the_prompt_and_a_reason_is_cleaned_like_every_other_text() -> None:
    with watched({"on": ["schedule.approval_requested"], **URGENT}) as world:
        next(approval_requested(world))
        uid, now = world.scheduler.state("s").uid, world.scheduler.clock.now()
        said = f"odd\r\n\x1b[2J{'x' * 1_000}"
        detail = {"prompt": "Summarise\n\x1b[2Jthe mail", "of_revision": 1}
        event = Event("schedule.approval_requested", now, "s", uid, reason=said, detail=detail)
        stepping.record_event(world.scheduler.runtime, event)
        world.look()
        message = world.inbox.messages[0]
        assert 'Prompt: "Summarise [2Jthe mail"' in message["text"].splitlines()
        assert message["reason"].startswith("odd [2Jxxx") and len(message["reason"]) == 500


def test_a_schedule_with_a_generated_id_is_named_by_its_key_or_its_name() -> None:
    alert = Alert.about("schedule.failing", "01a1e374-2c60", 0, uid="01a1e374-2c60")
    known = {"uid": "01a1e374-2c60", "schedule_id": "01a1e374-2c60", "name": "digest", "timezone": "UTC"}
    facts = ScheduleFacts._make({**dict.fromkeys(ScheduleFacts._fields), "failed_slots": 1, **known}.values())
    named = {
        title_of(AlertMessage("opened", None, (alert,)), Facts({one.uid: one}), 0)
        for one in (facts, facts._replace(key="support/mail"), facts._replace(name=""))
    }
    assert named == {
        f"[everwhen] FAILING {name}: the last slot failed" for name in ("digest", "mail", "01a1e374-2c60")
    }
    generated = facts._replace(key=f"support/{generated_key({'message': 'Tea!'})}")
    title = title_of(AlertMessage("opened", None, (alert,)), Facts({generated.uid: generated}), 0)
    assert title == "[everwhen] FAILING digest: the last slot failed"


def test_a_deleted_schedule_with_a_generated_id_is_named_by_the_record() -> None:
    alert = Alert.about("schedule.failing", "01a1e374-2c60", 0, uid="01a1e374-2c60")
    over = alert._replace(state="resolved", resolved_at=60_000_000, evidence=json.dumps({"how": "deleted"}))
    label = ScheduleLabel("01a1e374-2c60", "Nightly report", None, "Asia/Kolkata")
    for found, name in ((label, "Nightly report"), (label._replace(key="nightly"), "nightly")):
        facts = Facts({}, labels={found.uid: found})
        title = title_of(AlertMessage("resolved", None, (over,)), facts, 0)
        at = "Thu 1970-01-01 05:31:00 IST +05:30"
        assert title == f"[everwhen] RESOLVED {name}: deleted {at}, after 1m"
