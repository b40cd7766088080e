"""What watchers owe, compared with what has arrived: alerts, event webhooks, listeners, messages, pings, `expect`.

Each promise is at least once, and each thing has one id or one delivery, however often it arrives. What happened before
everything was at work (`Mark`) is not judged: watchers begin with their first node.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from uuid import NAMESPACE_URL, uuid5

from everwhen.engine.loop import patiently
from everwhen.model.alerts import Alert, AlertDelivery
from everwhen.model.event_cursor import EventCursor
from everwhen.model.events import Event
from everwhen.model.history import Recorded
from everwhen.model.instants import SECOND, to_datetime
from everwhen.model.job import OWN_ORIGINS, Job
from everwhen.model.queries import AlertFilter
from everwhen.runtime import Runtime
from everwhen.store.opened import store_of
from tests.proof import program
from tests.proof.receiver import ALERTS, EVENTS, INBOX, PING, Arrival, Arrivals
from tests.proof.schedules import PINGED

MOST = 1_000_000
PORTION = 1_000
CURSORS = ("everwhen:notifier", "everwhen:pings", program.NAME)
# Classes whose alerts open by their events alone, each event once.
COUNTED = (
    "schedule.died",
    "schedule.silent",
    "schedule.missed",
    "breaker.opened",
    "node.lost",
    "budget.reached",
    "scheduler.clock_stepped",
)
RESTARTS = (
    "schedule.resumed",
    "schedule.revived",
    "schedule.updated",
    "schedule.restored",
    "schedule.created",
)


class Mark(NamedTuple):
    """A place in the record: what is judged comes after it."""

    event: int
    job: int

    @classmethod
    def now(cls, open_runtime: Runtime) -> Mark:
        runtime = store_of(open_runtime)
        return patiently(
            lambda: cls(runtime.ledger.last_event_id(), runtime.firings.last(5.0)),
            "no mark yet",
            patience=30.0,
        )


@dataclass
class WatchRecord:
    """What one database records about its watchers, and what has arrived."""

    mark: Mark
    jobs: Mapping[str, Job]
    arrivals: Arrivals
    events: Sequence[Recorded] = ()
    alerts: Sequence[Alert] = ()
    messages: Sequence[AlertDelivery] = ()  # of alerts, and pings
    said: Sequence[str] = ()  # the ids of messages, in the order of the commits
    entries: Sequence[tuple[str, str, str]] = ()  # of the listener: type, subject, slot
    graces: Mapping[str, int] = field(
        default_factory=dict
    )  # of schedules from which a success is expected, by uid
    states: Mapping[str, str] = field(default_factory=dict)  # of breakers by key, and of schedules by uid

    @property
    def recent(self) -> Iterator[Recorded]:
        return (one for one in self.events if one.id > self.mark.event)


def record_of(
    open_runtime: Runtime, mark: Mark, jobs: Mapping[str, Job], runs: Path, arrivals: Arrivals
) -> WatchRecord:
    runtime = store_of(open_runtime)
    graces: dict[str, int] = {}
    states: dict[str, str] = {}
    with runtime.ledger.history() as record:
        for breaker in record.breakers.rows if record.breakers is not None else ():
            states[breaker.key] = breaker.state
        for history in record.histories:
            states[history.uid] = "deleted" if history.state is None else history.state.status
            for revision in history.revisions:
                definition = revision.plan.definition
                if definition.is_expected:
                    graces[history.uid] = definition.expect_grace or 0
    return WatchRecord(
        mark,
        jobs,
        arrivals,
        events=list(_all_events(runtime)),
        alerts=runtime.alerts.list(AlertFilter(), limit=MOST),
        messages=runtime.alerts.deliveries(rule=None, owner=None, limit=MOST),
        said=[message.event_id for message in runtime.messages.after(0, limit=MOST)],
        entries=read_entries(runs),
        graces=graces,
        states=states,
    )


def _all_events(open_runtime: Runtime) -> Iterator[Recorded]:
    ledger, place = store_of(open_runtime).ledger, 0
    while found := ledger.events_after(place, limit=PORTION):
        yield from found
        place = found[-1].id


def read_entries(runs: Path) -> list[tuple[str, str, str]]:
    path = runs / program.ENTRIES
    if not path.exists():
        return []
    lines = (line.split("\t") for line in path.read_text().splitlines())
    return [(kind, subject, slot_at) for _, kind, subject, slot_at, _ in lines]


# -- rest --


def undelivered(open_runtime: Runtime, mark: Mark) -> list[str]:
    """Return what watchers still owe of everything up to the mark."""
    runtime = store_of(open_runtime)
    found = [f"the message {one.kind} of {one.rule}: {one.error}" for one in runtime.alerts.pending()]
    for name in CURSORS:
        cursor = runtime.event_cursors.find(name)
        if cursor is None or _is_behind(cursor, mark):
            found.append(f"the cursor {name} is at {cursor}")
    for webhook in runtime.webhooks.all():
        if webhook.delivery_id is not None or webhook.event_row < mark.event:
            found.append(f"the webhook {webhook.webhook_id} is at {webhook.event_row}: {webhook.error}")
    last = runtime.messages.last_id()
    for subscription in runtime.messages.subscriptions():
        if subscription.cursor != last:
            found.append(f"the subscriber {subscription.subscriber} is at {subscription.cursor}")
    return found


def _is_behind(cursor: EventCursor, mark: Mark) -> bool:
    return cursor.event_row < mark.event or (cursor.open_jobs is not None and cursor.job_row < mark.job)


# -- promises --


def broken_watches(record: WatchRecord) -> list[str]:
    """Return what watchers owe and have not delivered, and what they should not have."""
    return [
        *_alerts(record),
        *_uncounted_alerts(record),
        *_stale_alerts(record),
        *_webhook(record),
        *_listener(record),
        *_messages(record),
        *_pings(record),
        *_silences(record),
    ]


def _alerts(record: WatchRecord) -> Iterator[str]:
    arrived = record.arrivals.taken[ALERTS]
    yield from _changed("an alert", arrived)
    ids = {arrival.id for arrival in arrived}
    messages = {one.delivery_id: one for one in record.messages if one.kind != "ping"}
    for message in messages.values():
        if message.delivered_at is not None and message.delivery_id not in ids:
            yield f"lost: the message {message.kind} {message.class_} counts as delivered, and did not arrive"
        if message.next_at is not None or message.given_up_at is not None:
            yield f"lost: the message {message.kind} {message.class_} is not delivered: {message.error}"
    for arrival in arrived:
        # A node that cannot write says so by itself, without a record.
        is_alone = arrival.content["alert"]["class"] == "scheduler.stalled"
        if arrival.id not in messages and not is_alone:
            yield f"doubled: the message {arrival.content['title']!r} arrived, and is not on record"


def _uncounted_alerts(record: WatchRecord) -> Iterator[str]:
    """Yield where alerts count more or fewer events than there are."""
    events = Counter(
        (one.event.type, _subject(one.event)) for one in record.recent if one.event.type in COUNTED
    )
    before = Counter(
        (one.event.type, _subject(one.event)) for one in record.events if one.id <= record.mark.event
    )
    counted: Counter[tuple[str, str]] = Counter()
    for alert in record.alerts:
        counted[alert.class_, alert.key.partition(" ")[2]] += alert.count_
    for (kind, subject), count in events.items():
        # Of the events before the mark the notifier has read those since its own beginning.
        most = count + before[kind, subject]
        if not count <= counted[kind, subject] <= most:
            yield f"lost: alerts count {counted[kind, subject]} events {kind} about {subject}, and there are {count}"


def _stale_alerts(record: WatchRecord) -> Iterator[str]:
    """Yield alerts that are open although what they are about is over."""
    for alert in record.alerts:
        over = {"breaker.opened": ("closed",), "schedule.died": ("active", "paused", "done", "deleted")}
        subject = alert.key.partition(" ")[2]
        if alert.state == "open" and record.states.get(subject) in over.get(alert.class_, ()):
            yield f"alerts: {alert.key} is open, and {subject} is {record.states[subject]}"


def _subject(event: Event) -> str:
    detail = event.detail
    if event.type.startswith("budget."):
        return f"{str(detail['key']).removeprefix('budget:')} {detail['limit']}"
    if event.type.startswith("breaker."):
        return str(detail["key"])
    return str(event.uid or detail.get("node"))


def _webhook(record: WatchRecord) -> Iterator[str]:
    arrived = record.arrivals.taken[EVENTS]
    yield from _changed("a delivery of events", arrived)
    deliveries = {arrival.id: arrival.content["events"] for arrival in arrived}
    events = [event for found in deliveries.values() for event in found]
    places = {one.id: place for place, one in enumerate(record.events)}
    order = [places.get(event["id"], 0) for event in events if event["id"] is not None]
    if order != sorted(order):
        yield "webhook: events arrived in another order than that of the commits"
    counts = Counter(
        (event["type"], event["job_id"] or event["id"]) for event in events if event["id"] is None
    )
    counts.update((event["type"], event["id"]) for event in events if event["id"] is not None)
    for (kind, subject), count in counts.items():
        if count > 1:
            yield f"doubled: {kind} {subject} is in {count} deliveries of the webhook"
    for one in record.recent:
        if _is_listened(one.event.type) and (one.event.type, one.id) not in counts:
            yield f"lost: {one.event.type} {one.id} is in no delivery of the webhook"
    for job in _failed(record):
        if ("job.failed", job.job_id) not in counts:
            yield f"lost: job.failed of {job.job_id} is in no delivery of the webhook"


def _is_listened(kind: str) -> bool:
    return kind in program.LISTENED or kind.startswith("breaker.")


def _listener(record: WatchRecord) -> Iterator[str]:
    entries = set(record.entries)
    for _, event in record.recent:
        if event.type in program.LISTENED:
            slot_at = None if event.slot_at is None else to_datetime(event.slot_at)
            if (event.type, str(event.job_id or event.schedule_id), str(slot_at)) not in entries:
                yield f"lost: the listener never got {event.type} of {event.schedule_id} for {slot_at}"
    ended = {subject for kind, subject, _ in entries if kind == "job.failed"}
    for job in _failed(record):
        if job.job_id not in ended:
            yield f"lost: the listener never got job.failed of {job.job_id}"


def _failed(record: WatchRecord) -> Iterator[Job]:
    """Yield the jobs that were fired after the mark and have failed."""
    return (job for job in record.jobs.values() if job.row_id > record.mark.job and job.status == "failed")


def _messages(record: WatchRecord) -> Iterator[str]:
    arrived = list(dict.fromkeys(arrival.id for arrival in record.arrivals.taken[INBOX]))
    for place, event_id in enumerate(record.said):
        if event_id not in arrived:
            yield f"lost: the message {event_id}, number {place}, has not arrived"
    known = [event_id for event_id in arrived if event_id in set(record.said)]
    if known != [event_id for event_id in record.said if event_id in set(known)]:
        yield "messages: they arrived for the first time in another order than that of the commits"
    for event_id in set(arrived) - set(record.said):
        yield f"doubled: the message {event_id} arrived, and is not on record"


def _pings(record: WatchRecord) -> Iterator[str]:
    arrived = {arrival.id for arrival in record.arrivals.taken[PING]}
    dropped = sum(one.event.type == "ping.dropped" for one in record.events)
    missing = [
        job.job_id
        for job in record.jobs.values()
        if job.schedule_id == PINGED and job.row_id > record.mark.job and job.origin in OWN_ORIGINS
        if job.status == "succeeded" and f"{run_id(job)} " not in arrived
    ]
    if len(missing) > dropped:
        yield f"lost: {len(missing)} successes were not pinged, {dropped} pings were dropped: {missing[:5]}"


def run_id(job: Job) -> str:
    return str(uuid5(NAMESPACE_URL, f"everwhen:{job.job_id}:{job.attempt}"))


def _changed(what: str, arrived: Iterable[Arrival]) -> Iterator[str]:
    contents: dict[str, str] = {}
    for arrival in arrived:
        text = json.dumps(arrival.content, sort_keys=True)
        if contents.setdefault(arrival.id, text) != text:
            yield f"doubled: {what} has two contents under the id {arrival.id}"


def _silences(record: WatchRecord) -> Iterator[str]:
    """Yield the silences that were none, and those that were reported twice."""
    successes: dict[str, list[int]] = defaultdict(list)
    for job in record.jobs.values():
        if job.status == "succeeded" and job.ended_at is not None:
            successes[job.uid].append(job.ended_at)
    is_stepped = any(one.event.type == "scheduler.clock_stepped" for one in record.events)
    last: dict[str, int] = {}  # the silence that nothing has ended, by uid
    # Of one schedule the numbers are in the order of its changes; the order of the feed is that of transactions.
    for _, event in sorted(record.events, key=lambda one: one.id):
        if event.type == "system.resumed":
            last.clear()
        elif event.uid is not None and event.type in RESTARTS:
            last.pop(event.uid, None)
        if event.type != "schedule.silent" or event.uid is None:
            continue
        expected_by = int(str(event.detail["expected_by"]))
        since = last.get(event.uid)
        if since is not None and not any(since <= at + SECOND for at in successes[event.uid]):
            yield f"doubled: {event.schedule_id} was reported silent twice, without a success between"
        last[event.uid] = event.at
        grace = record.graces.get(event.uid, 0)
        if not is_stepped and any(expected_by - grace < at < expected_by for at in successes[event.uid]):
            yield f"silent: {event.schedule_id} had a success before {to_datetime(expected_by)}"
