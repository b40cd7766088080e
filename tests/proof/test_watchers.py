"""What watchers owe, callers were told and budgets allow: each promise, broken in a constructed record, is reported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from everwhen.model.alerts import Alert, AlertDelivery
from everwhen.model.events import Event, EventType
from everwhen.model.history import Recorded
from everwhen.model.instants import HOUR, SECOND, to_datetime
from everwhen.model.job import Job
from tests.proof.callers import Given, Promise
from tests.proof.given import broken_answers, fired_unapproved, spent_too_much
from tests.proof.receiver import ALERTS, EVENTS, INBOX, PING, Arrival, Arrivals
from tests.proof.schedules import MOST_FIRES, PAYERS, PINGED, SPENDERS
from tests.proof.test_verdict import a_job
from tests.proof.watchers import Mark, WatchRecord, broken_watches, run_id

NOBODY = Mark(0, 0)


def an_event(number: int, kind: EventType, **fields: Any) -> Recorded:
    return Recorded(number, Event(kind, number * SECOND, **{"schedule_id": "s", "uid": "u", **fields}))


def a_message(name: str, **fields: Any) -> AlertDelivery:
    values: dict[str, Any] = {
        "delivery_id": name,
        "rule": "everything",
        "kind": "opened",
        "class_": "breaker.opened",
        "body": "{}",
        "created_at": 0,
        "delivered_at": 1,
        "next_at": None,
        "given_up_at": None,
    }
    blank = dict.fromkeys(AlertDelivery._fields)
    return AlertDelivery(**{**blank, "id": 1, "attempts": 1, **values, **fields})


def an_alert_arrival(name: str, class_: str = "breaker.opened", title: str = "a") -> Arrival:
    return Arrival(1.0, name, {"alert": {"class": class_}, "title": title})


def a_delivery(name: str, *events: dict[str, Any]) -> Arrival:
    return Arrival(1.0, name, {"events": list(events)})


def a_record(
    *events: Recorded,
    arrivals: dict[str, Sequence[Arrival]] | None = None,
    jobs: Sequence[Job] = (),
    **fields: Any,
) -> WatchRecord:
    taken = Arrivals()
    for path, found in (arrivals or {}).items():
        taken.taken[path] = list(found)
    return WatchRecord(NOBODY, {job.job_id: job for job in jobs}, taken, events=events, **fields)


def faults(*events: Recorded, **fields: Any) -> list[str]:
    return broken_watches(a_record(*events, **fields))


def test_an_empty_record_owes_nothing() -> None:
    assert faults() == []


# -- alerts --


def test_a_message_that_counts_as_delivered_has_arrived() -> None:
    assert faults(messages=[a_message("m")], arrivals={ALERTS: [an_alert_arrival("m")]}) == []
    (said,) = faults(messages=[a_message("m")])
    assert "counts as delivered, and did not arrive" in said


def test_a_message_that_is_never_delivered_is_lost() -> None:
    (said,) = faults(messages=[a_message("m", delivered_at=None, next_at=5, error="busy")])
    assert said.endswith("is not delivered: busy")


def test_a_message_that_is_not_on_record_is_doubled_unless_the_database_was_away() -> None:
    (said,) = faults(arrivals={ALERTS: [an_alert_arrival("m")]})
    assert "arrived, and is not on record" in said
    assert faults(arrivals={ALERTS: [an_alert_arrival("m", "scheduler.stalled")]}) == []


def test_a_message_has_one_content_under_its_id() -> None:
    twice = [an_alert_arrival("m"), an_alert_arrival("m", title="b")]
    (said,) = faults(messages=[a_message("m")], arrivals={ALERTS: twice})
    assert said == "doubled: an alert has two contents under the id m"
    assert faults(messages=[a_message("m")], arrivals={ALERTS: twice[:1] * 2}) == []


@pytest.mark.parametrize(("count", "is_right"), [(2, True), (1, False), (3, False)])
def test_alerts_count_each_event_once(count: int, is_right: bool) -> None:
    opened = [an_event(n, "schedule.died") for n in (1, 2)]
    alert = Alert.about("schedule.died", "u", 1)._replace(count_=count)
    assert (faults(*opened, alerts=[alert]) == []) is is_right


def test_an_alert_is_open_no_longer_than_what_it_is_about() -> None:
    alert = Alert.about("breaker.opened", "p:poll", 1)
    assert faults(alerts=[alert], states={"p:poll": "open"}) == []
    (said,) = faults(alerts=[alert], states={"p:poll": "closed"})
    assert said == "alerts: breaker.opened p:poll is open, and p:poll is closed"
    assert faults(alerts=[alert._replace(state="resolved")], states={"p:poll": "closed"}) == []


# -- webhooks and listeners --

CREATED = {"id": 1, "type": "schedule.created", "job_id": None}
ENTRY = ("schedule.created", "s", "None")


def test_an_event_is_in_one_delivery_and_reaches_the_listener() -> None:
    made = an_event(1, "schedule.created")
    assert faults(made, arrivals={EVENTS: [a_delivery("d", CREATED)] * 2}, entries=[ENTRY, ENTRY]) == []
    lost = faults(made)
    assert [said.partition(" ")[0] for said in lost] == ["lost:", "lost:"]
    doubled = [a_delivery("d", CREATED), a_delivery("e", CREATED)]
    (said,) = faults(made, arrivals={EVENTS: doubled}, entries=[ENTRY])
    assert said == "doubled: schedule.created 1 is in 2 deliveries of the webhook"


def test_events_come_in_the_order_of_the_record() -> None:
    # Of two transactions the one with the larger number may commit first.
    record = [an_event(2, "schedule.created", schedule_id="b"), an_event(1, "schedule.created")]
    entries = [ENTRY, ("schedule.created", "b", "None")]
    second = {**CREATED, "id": 2}
    assert faults(*record, arrivals={EVENTS: [a_delivery("d", second, CREATED)]}, entries=entries) == []
    (said,) = faults(*record, arrivals={EVENTS: [a_delivery("d", CREATED, second)]}, entries=entries)
    assert "another order" in said


def test_the_end_of_a_job_reaches_webhook_and_listener() -> None:
    job = a_job(status="failed", row_id=7)
    ended = {"id": None, "type": "job.failed", "job_id": "j1"}
    entry = ("job.failed", "j1", str(to_datetime(0)))
    assert faults(jobs=[job], arrivals={EVENTS: [a_delivery("d", ended)]}, entries=[entry]) == []
    assert len(faults(jobs=[job])) == 2
    assert broken_watches(replace(a_record(jobs=[job]), mark=Mark(0, 7))) == []  # fired before


# -- messages and pings --


def test_messages_arrive_in_the_order_of_the_commits() -> None:
    one, two = Arrival(1.0, "one", {}), Arrival(2.0, "two", {})
    assert faults(said=["one", "two"], arrivals={INBOX: [one, one, two]}) == []
    (lost,) = faults(said=["one", "two"], arrivals={INBOX: [one]})
    assert lost.endswith("two, number 1, has not arrived")
    (order,) = faults(said=["one", "two"], arrivals={INBOX: [two, one]})
    assert "another order" in order
    (unknown,) = faults(arrivals={INBOX: [one]})
    assert unknown.endswith("is not on record")


def test_a_success_is_pinged_or_its_ping_was_dropped() -> None:
    job = a_job(schedule_id=PINGED, row_id=7)
    pinged = Arrival(1.0, f"{run_id(job)} ", "")
    assert faults(jobs=[job], arrivals={PING: [pinged]}) == []
    assert len(faults(jobs=[job])) == 1
    assert faults(an_event(1, "ping.dropped"), jobs=[job]) == []


# -- silences --


def silences(*events: Recorded, **fields: Any) -> list[str]:
    """Return the faults about silences; alerts about them are none of these tests."""
    return [said for said in faults(*events, **fields) if "alerts count" not in said]


def silent(number: int) -> Recorded:
    return an_event(number, "schedule.silent", detail={"expected_by": (number - 1) * SECOND})


def test_a_silence_is_reported_once_until_a_success_or_a_new_beginning() -> None:
    success = a_job(ended_at=15 * SECOND)
    assert silences(silent(10), jobs=[success]) == []
    (said,) = silences(silent(10), silent(12), graces={"u": SECOND})
    assert "reported silent twice" in said
    assert silences(silent(10), silent(20), jobs=[success]) == []
    assert silences(silent(10), an_event(11, "schedule.resumed"), silent(12)) == []
    assert silences(silent(10), an_event(11, "system.resumed", uid=None), silent(12)) == []


def test_a_silence_with_a_success_in_its_grace_is_none() -> None:
    success = a_job(ended_at=8 * SECOND)
    (said,) = silences(silent(10), jobs=[success], graces={"u": 2 * SECOND})
    assert said.startswith("silent: s had a success before")
    assert silences(silent(10), jobs=[success], graces={"u": SECOND}) == []


# -- callers --


def answer_faults(
    given: Given, *events: Recorded, jobs: Sequence[Job] = (), names: dict[str, str] | None = None
) -> list[str]:
    return list(broken_answers(given, names or {}, {job.job_id: job for job in jobs}, events))


def test_what_a_caller_was_answered_is_on_record() -> None:
    given = Given(promises=[Promise("created", "s"), Promise("trigger", "j1"), Promise("deleted", "s")])
    deleted = an_event(1, "schedule.deleted")
    assert answer_faults(given, deleted, jobs=[a_job()], names={"s": "rest-1"}) == []
    assert len(answer_faults(given)) == 3


def test_what_was_asked_under_one_key_is_done_once() -> None:
    given = Given(created_names={"rest-1"}, marks={"mark-1"})
    assert (
        answer_faults(
            given, names={"a": "rest-1", "b": "another"}, jobs=[a_job(payload='{"mark": "mark-1"}', retry=0)]
        )
        == []
    )
    (said,) = answer_faults(given, names={"a": "rest-1", "b": "rest-1"})
    assert said == "doubled: rest-1 was created 2 times under one key"
    twice = [a_job(name, payload='{"mark": "mark-1"}', retry=0) for name in ("j1", "j2")]
    (said,) = answer_faults(given, jobs=twice)
    assert said == "doubled: mark-1 was triggered 2 times under one key"


def test_an_error_of_the_service_is_no_answer() -> None:
    assert answer_faults(Given(faults=["read: 500"])) == ["a caller was told: read: 500"]


def test_nothing_fires_before_it_was_approved() -> None:
    given, job = Given(asked={"s"}), a_job(created_at=5 * SECOND)
    approved = an_event(4, "schedule.approved")
    assert list(fired_unapproved(given, {"j1": job}, [approved])) == []
    assert len(list(fired_unapproved(given, {"j1": job}, []))) == 1
    assert len(list(fired_unapproved(given, {"j1": job}, [an_event(6, "schedule.approved")]))) == 1


def test_a_budget_that_was_exceeded_is_named() -> None:
    fired = {f"j{n}": a_job(f"j{n}", created_at=n) for n in range(MOST_FIRES + 1)}
    (said,) = spent_too_much(fired, {SPENDERS: {"u"}})
    assert said == f"limit: {MOST_FIRES + 1} firings of {SPENDERS} in hour 0, {MOST_FIRES} are allowed"
    later = {**fired, "j0": a_job("j0", created_at=HOUR)}
    assert list(spent_too_much(later, {SPENDERS: {"u"}})) == []
    paid = {"j": a_job("j", created_at=0, cost_amount=9_000_000)}
    (said,) = spent_too_much(paid, {PAYERS: {"u"}})
    assert "spent 9.00 on day 0" in said
