"""What watchers do, one line each: alert rounds, webhooks, listeners, subscribers, `expect`; and approvals.

Each flow of a watcher says what has to have arrived at the receivers when everything is over.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from everwhen.config.submission import SubmissionRules, read_submission
from everwhen.model.alerts import Sent
from everwhen.model.declare import Declared
from everwhen.model.events import Event, EventType
from everwhen.model.instants import DAY, HOUR
from everwhen.model.queries import AlertFilter
from everwhen.model.token import TokenLimits
from everwhen.operations.access import Caller
from everwhen.operations.alerts import acknowledge_alert, end_silence, silence_alerts
from everwhen.operations.approval import expire_unanswered, forget_over
from everwhen.operations.listening import forget_listener
from everwhen.operations.submissions import (
    approve_schedule,
    create_entries,
    decline_schedule,
    edit_entry,
    put_entry,
)
from everwhen.operations.tokens import create_token, revoke_token
from everwhen.operations.webhooks import WebhookChanges, change_webhook, create_webhook, delete_webhook
from tests.boundaries.flows import HELLO, Act, Flow, Prove, settling, ticking, waited
from tests.boundaries.process import LISTENED, LISTENER, Process
from tests.conformance.tenant import FAILED, LEASE

MOST = 1_000
FINAL = Sent(False, "not wanted", is_final=True)
ASKING = TokenLimits(approval="required")
UUID = "01890000-0000-7000-8000-000000000000"
KEY = "mine"
EACH_SLOT: dict[str, Any] = {"expect": {"each": "slot", "grace": "1m"}}


def caller_of(runtime: Process, limits: TokenLimits = TokenLimits()) -> Caller:  # noqa: B008 - a tuple
    return Caller(create_token(runtime.runtime, "ci", "operator", limits=limits).token)


def refusing(act: Act, *, answer: Sent | None = None, refusals: int = 1) -> Act:
    """Let the receivers refuse what comes first."""

    def refuse(runtime: Process, known: Any) -> None:
        runtime.arrivals.refusals = refusals
        runtime.arrivals.answer = answer or runtime.arrivals.answer
        act(runtime, known)

    return refuse


def record(runtime: Process, kind: EventType, node: str = "node-1") -> None:
    runtime.runtime.slots.record([Event(kind, runtime.now, detail={"node": node})])


def lose(runtime: Process, other: Process) -> None:
    """End another process as by kill -9, and let its lease end."""
    other.close()
    runtime.wait("1m")
    runtime.beat()
    runtime.runtime.upkeep.note_lost(runtime.now, node=runtime.node, lease=LEASE)


def worked(runtime: Process) -> None:
    """Prepare a success, a failure, and a job that runs."""
    runtime.add_many(["a", "b", "c"], every="1h")
    runtime.step()
    first, second, _ = runtime.claim()
    runtime.settle(first)
    runtime.settle(second, outcome=FAILED)


# -- alerts --


def notified(runtime: Process) -> None:
    """Prepare a notifier that has begun, and an event that opens an alert."""
    runtime.notifier.begin()
    record(runtime, "scheduler.stalled")


def reported(runtime: Process) -> int:
    """Prepare an alert that was reported."""
    notified(runtime)
    runtime.notifier.step()
    runtime.notifier.release()
    (alert,) = runtime.runtime.alerts.list(AlertFilter(), limit=MOST)
    return alert.id


def resolved(runtime: Process) -> None:
    """Prepare the event that closes an alert which was reported."""
    reported(runtime)
    runtime.wait("2m")
    record(runtime, "scheduler.recovered")


def gathered(runtime: Process) -> None:
    """Prepare an alert that explains others, and events of several subjects."""
    notified(runtime)
    record(runtime, "scheduler.stalled", "node-2")
    record(runtime, "scheduler.stalled")
    runtime.add_many(["a", "b"], every="1m", catch_up="skip")
    runtime.wait_and_step("10m")


def from_another_notifier(runtime: Process) -> None:
    """Prepare a message that another node has written and not sent, and an event that it has not read."""
    runtime.notifier.begin()
    record(runtime, "scheduler.stalled", "node-2")
    other = runtime.other("node-0")
    other.arrivals.refusals = 1
    other.notifier.step()
    lose(runtime, other)


def pinged(runtime: Process) -> None:
    """Prepare a schedule with a ping whose run has begun and ended."""
    runtime.add("a", every="1h", ping={"url": "http://watcher/ping"})
    runtime.notifier.begin()
    runtime.step()
    runtime.run()


def with_schedule(runtime: Process) -> Caller:
    runtime.add("a", every="1h")
    return caller_of(runtime)


def silenced(runtime: Process) -> tuple[int, Caller]:
    caller = with_schedule(runtime)
    return silence_alerts(runtime.runtime, "a", length=HOUR, caller=caller).id, caller


def notifying(runtime: Process, _: Any) -> None:
    runtime.notifier.step()


def stop_notifying(runtime: Process, _: Any) -> None:
    runtime.notifier.step()
    runtime.notifier.release()


def arrived(*titles: str, perhaps: Sequence[str] = ()) -> Prove:
    """Check that there was one message for each of these, and that each has arrived or was given up.

    `perhaps`: what there is only if the process lived long enough to record a refusal."""

    def prove(runtime: Process) -> None:
        messages = runtime.runtime.alerts.deliveries(rule=None, owner=None, limit=MOST)
        shown = [f"{message.kind} {message.class_ or message.content.get('path')}" for message in messages]
        assert sorted(shown) in (sorted(titles), sorted([*titles, *perhaps]))
        assert all(message.next_at is None for message in messages)
        delivered = {message.delivery_id for message in messages if message.delivered_at is not None}
        assert delivered == {delivery.delivery_id for delivery in runtime.arrivals.alerts}

    return prove


OPENED, RESOLVED = "opened scheduler.stalled", "resolved scheduler.stalled"

ALERT_FLOWS = (
    Flow("open an alert", notified, notifying, arrived(OPENED)),
    Flow("close an alert", resolved, notifying, arrived(OPENED, RESOLVED)),
    Flow("open alerts of several subjects", gathered, notifying, arrived(OPENED)),
    Flow("put a message off", notified, refusing(notifying), arrived(OPENED)),
    Flow(
        "give a message up",
        notified,
        refusing(notifying, answer=FINAL),
        arrived(OPENED, perhaps=["opened alert.failed"]),
    ),
    Flow("take the notifier over", from_another_notifier, notifying, arrived(OPENED, "opened node.lost")),
    Flow("stop notifying", notified, stop_notifying, arrived(OPENED)),
    Flow("ping", pinged, notifying, arrived("ping /start", "ping ")),
    Flow(
        "acknowledge an alert",
        lambda h: (reported(h), caller_of(h)),
        lambda h, known: acknowledge_alert(h.runtime, *known),
        arrived(OPENED),
    ),
    Flow(
        "silence alerts",
        with_schedule,
        lambda h, caller: silence_alerts(h.runtime, "a", length=HOUR, caller=caller),
    ),
    Flow("end a silence", silenced, lambda h, known: end_silence(h.runtime, *known)),
)


# -- event webhooks --


def with_webhook(runtime: Process) -> tuple[str, Caller]:
    """Prepare a webhook, and events for it: recorded ones, starts and ends of jobs."""
    caller = caller_of(runtime)
    webhook_id = make_webhook(runtime, caller)
    worked(runtime)
    return webhook_id, caller


def make_webhook(runtime: Process, caller: Caller) -> str:
    made = create_webhook(runtime.runtime, "http://receiver/events", sorted(LISTENED), caller)
    return made.webhook.webhook_id


def refused_for_a_day(runtime: Process) -> None:
    with_webhook(runtime)
    refusing(send_events)(runtime, None)
    runtime.sender.release()
    runtime.wait("25h")


def off(runtime: Process) -> tuple[str, Caller]:
    webhook_id, caller = with_webhook(runtime)
    switch(runtime, (webhook_id, caller), is_on=False)
    return webhook_id, caller


def revoked(runtime: Process) -> None:
    _, caller = with_webhook(runtime)
    revoke_token(runtime.runtime, caller.token.token_id)


def from_another_sender(runtime: Process) -> None:
    """Prepare a delivery that another node has written and not sent."""
    with_webhook(runtime)
    other = runtime.other("node-0")
    refusing(send_events)(other, None)
    lose(runtime, other)


def switch(runtime: Process, known: tuple[str, Caller], *, is_on: bool) -> None:
    webhook_id, caller = known
    change_webhook(runtime.runtime, webhook_id, WebhookChanges(active=is_on), caller)


def send_events(runtime: Process, _: Any) -> None:
    while runtime.sender.step():
        pass


def stop_sending(runtime: Process, known: Any) -> None:
    send_events(runtime, known)
    runtime.sender.release()


def events_arrived(runtime: Process) -> None:
    """Check that every event is in one delivery, which has the same content whenever it arrives."""
    bodies: dict[str, str] = {}
    for delivery in runtime.arrivals.deliveries:
        assert bodies.setdefault(delivery.delivery_id, delivery.body) == delivery.body
    events = [event for body in bodies.values() for event in json.loads(body)["events"]]
    found = Counter((event["type"], event["job_id"] or event["schedule_id"]) for event in events)
    assert set(found.values()) <= {1}
    is_on = any(webhook.state == "active" for webhook in runtime.runtime.webhooks.all())
    assert set(found) == (happened(runtime) if is_on else set())


def happened(runtime: Process) -> set[tuple[str, str | None]]:
    """Return what is listened to, by the record."""
    ended = {(f"job.{job.status}", job.job_id) for job in runtime.jobs() if job.status != "queued"}
    created = {(event.type, event.schedule_id) for event in runtime.events(None, "schedule.created")}
    return ended | created


WEBHOOK_FLOWS = (
    Flow("create a webhook", caller_of, make_webhook, lambda h: None),
    Flow(
        "change a webhook",
        with_webhook,
        lambda h, known: change_webhook(
            h.runtime, known[0], WebhookChanges(url="http://receiver/new"), known[1]
        ),
        events_arrived,
    ),
    Flow("switch a webhook off", with_webhook, lambda h, known: switch(h, known, is_on=False)),
    Flow("switch a webhook on", off, lambda h, known: switch(h, known, is_on=True), events_arrived),
    Flow(
        "delete a webhook", with_webhook, lambda h, known: delete_webhook(h.runtime, *known), events_arrived
    ),
    Flow("send events", with_webhook, send_events, events_arrived),
    Flow("put a delivery off", with_webhook, refusing(send_events), events_arrived),
    Flow("give a webhook up", refused_for_a_day, refusing(send_events, refusals=MOST), events_arrived),
    Flow("end a webhook with its token", revoked, send_events, events_arrived),
    Flow("take the webhooks over", from_another_sender, send_events, events_arrived),
    Flow("stop sending events", with_webhook, stop_sending, events_arrived),
)


# -- listeners and subscribers --


def listened(runtime: Process) -> None:
    """Prepare a named listener, and entries for it."""
    runtime.listener.begin()
    worked(runtime)


def often_refused(runtime: Process) -> None:
    """Prepare a listener that has refused an entry so often that it is skipped the next time."""
    listened(runtime)
    for _ in range(4):
        refusing(listening)(runtime, None)
        runtime.wait("30s")
    runtime.listener.release()
    runtime.wait("2s")


def from_another_listener(runtime: Process) -> None:
    """Prepare entries of which another node has delivered the first."""
    listened(runtime)
    other = runtime.other("node-0")
    other.listen()
    lose(runtime, other)
    runtime.add("d", every="1h")


def listening(runtime: Process, _: Any) -> None:
    runtime.listen()


def stop_listening(runtime: Process, _: Any) -> None:
    runtime.listen()
    runtime.listener.release()


def entries_arrived(runtime: Process) -> None:
    assert set(runtime.arrivals.entries) == happened(runtime)


def entries_but_one_arrived(runtime: Process) -> None:
    """A process that dies before it has recorded the last refusal asks once more."""
    assert happened(runtime) - set(runtime.arrivals.entries) <= {("schedule.created", "a")}


def subscribed(runtime: Process) -> None:
    """Prepare messages for a subscriber."""
    runtime.subscription.subscribe()
    runtime.add_many([f"s{number}" for number in range(3)], every="1h", target=HELLO)
    runtime.step()


def delivering(runtime: Process, _: Any) -> None:
    runtime.subscription.step()


def messages_arrived(runtime: Process) -> None:
    """Check that every message has arrived, for the first time in the order of the commits."""
    messages = [message.event_id for message in runtime.runtime.messages.after(0, limit=MOST)]
    assert list(dict.fromkeys(runtime.arrivals.messages)) == messages


LISTENER_FLOWS = (
    Flow("begin to listen", worked, lambda h, _: h.listener.begin(), lambda h: None),
    Flow("listen", listened, listening, entries_arrived),
    Flow("put an entry off", listened, refusing(listening), entries_arrived),
    Flow("skip an entry", often_refused, refusing(listening), entries_but_one_arrived),
    Flow("take a listener over", from_another_listener, listening, entries_arrived),
    Flow("stop listening", listened, stop_listening, entries_arrived),
    Flow("forget a listener", listened, lambda h, _: forget_listener(h.runtime, LISTENER)),
    Flow("subscribe", lambda h: None, lambda h, _: h.subscription.subscribe()),
    Flow("deliver messages", subscribed, delivering, messages_arrived),
    Flow("put a message to a subscriber off", subscribed, refusing(delivering), messages_arrived),
)


# -- what is expected --


def expected(runtime: Process, **fields: Any) -> Any:
    """Prepare a run of a schedule that has to succeed in time."""
    runtime.add("a", every="1h", if_running="allow", **{**EACH_SLOT, **fields})
    runtime.step()
    return runtime.claim()


def overdue(runtime: Process) -> None:
    """Prepare a deadline that has passed while a scheduler was alive."""
    expected(runtime)
    for _ in range(8):
        runtime.wait("10s")
        runtime.beat()


def pause_of_what_is_expected(runtime: Process) -> None:
    expected(runtime)
    runtime.pause_system()
    runtime.wait("30m")


def watching(runtime: Process, _: Any) -> None:
    runtime.expectations.step(runtime.node)


def silent_once(runtime: Process) -> None:
    assert len(runtime.events("a", "schedule.silent")) == 1


def never_silent(runtime: Process) -> None:
    assert runtime.events("a", "schedule.silent") == []


EXPECT_FLOWS = (
    Flow("note a silence", overdue, watching, silent_once),
    Flow(
        "move deadlines over a downtime",
        waited("30m", lambda h: expected(h, expect={"within": "1h"})),
        lambda h, _: h.runtime.slots.move_deadlines(h.now - HOUR // 2, h.now),
        never_silent,
    ),
    Flow(
        "move deadlines over a step of the clock",
        expected,
        lambda h, _: h.expectations.skip(h.now - HOUR, h.now),
    ),
    Flow("settle what is expected", expected, settling(), never_silent),
    Flow("settle a failure of what is expected", expected, settling(FAILED)),
    Flow("tick what is expected", lambda h: h.add("a", every="1h", **EACH_SLOT), ticking()),
    Flow(
        "expect by an edit",
        lambda h: h.add("a", every="1h"),
        lambda h, _: h.edit("a", every="1h", **EACH_SLOT),
    ),
    Flow("pause what is expected", expected, lambda h, _: h.pause("a")),
    Flow("pause the system with what is expected", expected, lambda h, _: h.pause_system()),
    Flow(
        "resume the system with what is expected", pause_of_what_is_expected, lambda h, _: h.resume_system()
    ),
)


# -- approvals --


def declared(runtime: Process, every: str = "1m") -> Declared:
    fields = {"every": every, "run": {"http": {"url": "https://example.com/"}}}
    return read_submission(fields, UUID, SubmissionRules(runtime.now, lambda: "UTC"))


def asking(runtime: Process) -> Caller:
    return caller_of(runtime, ASKING)


def asked(runtime: Process) -> tuple[Caller, Caller]:
    """Prepare a schedule that waits for approval; return who asked, and who may answer."""
    caller = asking(runtime)
    create_entries(runtime.runtime, [declared(runtime)], caller)
    return caller, caller_of(runtime)


def approved(runtime: Process) -> tuple[Caller, Caller]:
    """Prepare a schedule that was approved, with a job that is queued."""
    callers = asked(runtime)
    answer(runtime, callers)
    runtime.wait_and_step("1m")
    return callers


def answer(runtime: Process, callers: tuple[Caller, Caller]) -> None:
    approve_schedule(runtime.runtime, UUID, callers[1], revision=1)


def decline(runtime: Process, callers: tuple[Caller, Caller]) -> None:
    decline_schedule(runtime.runtime, UUID, callers[1], note="once is enough")


def edit_approved(runtime: Process, callers: tuple[Caller, Caller]) -> None:
    edit_entry(runtime.runtime, UUID, lambda _: declared(runtime, "2m"), callers[0])


def put(runtime: Process, caller: Caller) -> None:
    put_entry(runtime.runtime, KEY, lambda _: declared(runtime), caller)


def done_for_a_week(runtime: Process) -> None:
    """Prepare what a model has made and what is over."""
    caller = caller_of(runtime)
    by_a_model = Caller(caller.token, via="mcp")
    fields = {"after": "1m", "run": {"http": {"url": "https://example.com/"}}}
    once = read_submission(fields, UUID, SubmissionRules(runtime.now, lambda: "UTC"))
    create_entries(runtime.runtime, [once], by_a_model)
    runtime.wait_and_step("1m")
    runtime.run()
    runtime.wait("8d")


def fired_what_was_approved(runtime: Process) -> None:
    """Check that nothing fired before a person had approved it, nor after it had to wait again."""
    approvals = [event.at for event in runtime.events(UUID, "schedule.approved")]
    requests = [event.at for event in runtime.events(UUID, "schedule.approval_requested")]
    assert len(requests) - len(approvals) in (0, 1)
    for job in runtime.jobs(UUID):
        assert any(at <= job.created_at for at in approvals)
        assert not any(at > max(approvals) for at in requests if at < job.created_at)


APPROVAL_FLOWS = (
    Flow(
        "ask for approval",
        asking,
        lambda h, caller: create_entries(h.runtime, [declared(h)], caller),
        fired_what_was_approved,
    ),
    Flow("ask for approval by key", asking, put, fired_what_was_approved),
    Flow("approve", asked, answer, fired_what_was_approved),
    Flow("decline", asked, decline, fired_what_was_approved),
    Flow("edit what was approved", approved, edit_approved, fired_what_was_approved),
    Flow(
        "let a request for approval expire",
        waited("8d", asked),
        lambda h, _: expire_unanswered(h.runtime, ttl=7 * DAY),
        fired_what_was_approved,
    ),
    Flow("forget what is over", done_for_a_week, lambda h, _: forget_over(h.runtime)),
)

WATCHER_FLOWS = (*ALERT_FLOWS, *WEBHOOK_FLOWS, *LISTENER_FLOWS, *EXPECT_FLOWS, *APPROVAL_FLOWS)
