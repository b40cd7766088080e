"""An installation on an SQLite file with something in every table, and everything pending that there can be."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from everwhen.config.sections.notify import rules_in
from everwhen.config.submission import SubmissionRules, read_submission
from everwhen.engine.notifier import Notifier
from everwhen.model.alerts import Silence
from everwhen.model.declare import Declarations
from everwhen.model.event_cursor import EventCursor
from everwhen.model.events import Event
from everwhen.model.message import message_target
from everwhen.model.outcome import SUCCEEDED, Outcome, OutputPiece, OutputStream, PluginUpdate
from everwhen.model.schedule import QuietHoursPolicy
from everwhen.model.token import StoredResponse, limits_of
from everwhen.operations import submissions, tokens
from everwhen.operations.access import Caller
from everwhen.operations.apply import apply
from everwhen.operations.listening import position_now
from everwhen.operations.webhooks import create_webhook
from everwhen.store.opened import store_of
from everwhen.testing import manual_scheduler
from everwhen.testing.manual import ManualScheduler
from everwhen.timetable.civil_time import zone
from everwhen.timetable.windows import QuietHours, QuietWindow, parse_window

START = "2026-01-05T08:00:00Z"  # a Monday
MOVED = "2026-01-05T10:10:00Z"
FAILED = Outcome("failed", error="no luck")
SAID = message_target({"text": "Presents!", "thread_id": "family"})
HOLD = 60_000_000


@dataclass(frozen=True, slots=True)
class Installation:
    """What a test wants to find again on the other side."""

    url: str
    secret: str
    session: str
    cursor: int


@functools.cache
def _made() -> tuple[Installation, bytes]:
    """Make one per process; a test gets a copy of its file."""
    with TemporaryDirectory() as folder:
        made = _make(Path(folder))
        return made, Path(folder, "everwhen.db").read_bytes()


def make_installation(folder: Path) -> Installation:
    made, content = _made()
    (folder / "everwhen.db").write_bytes(content)
    return replace(made, url=f"sqlite:///{folder}/everwhen.db")


def _make(folder: Path) -> Installation:
    url = f"sqlite:///{folder}/everwhen.db"
    with closing(manual_scheduler(START, database=url)) as s:
        s.node = "old-1"
        s.beat()
        _declare(s)
        secret, session = _let_in(s)
        _alert(s)
        s.run_until("2026-01-05T10:00:00Z")
        cursor = _deliver_half(s)
        _leave_pending(s)
        assert s.check().is_clean, s.check().faults
    return Installation(url, secret, session, cursor)


def _declare(s: ManualScheduler) -> None:
    """Every kind of schedule, with history by the time that it moves."""
    apply(s.runtime, Declarations(digest="first"))
    s.pause_system()
    s.resume_system()
    store_of(s.runtime).messages.subscribe(s.clock.now(), "inbox")
    heard = position_now(s.runtime, follows=True).stored_in(EventCursor("audit", 0, 0))
    store_of(s.runtime).event_cursors.create(s.clock.now(), heard)
    nights = QuietHours(zone("UTC"), (QuietWindow(parse_window("10:00-10:30")),))
    store_of(s.runtime).catalogue.add_policy(
        s.clock.now(), QuietHoursPolicy("nights", "nights", nights, "defer")
    )
    s.add("interval", every="30m", name="naïve ☃", owner="team", budgets={"team": {"cost_per_day": "50 USD"}})
    s.add("cron", cron="15 * * * *", timezone="Europe/Berlin")
    s.add("monthly", every="monthly", first_run="after_interval")
    s.add("chain", every="7m", interval_from="completion")
    s.add("at", at="2026-01-05T11:30:00Z")
    s.add("after", after="3h")
    s.add("hook", type="webhook")
    s.add("chat", type="chat")
    s.add("jittered", every="1h", jitter="5m")
    s.add("quiet", cron="*/20 * * * *", quiet_hours="nights")
    s.add("speaks", every="20m", target=SAID)
    s.add("paused", every="1h")
    s.add("gone", every="1h")
    s.advance("1s")
    s.pause("paused", note="for a while")
    s.delete("gone")


def _alert(s: ManualScheduler) -> None:
    """A row of every table of alerts."""
    store, now = store_of(s.runtime), s.clock.now()
    rules = rules_in([{"http": {"url": "http://127.0.0.1:9/"}, "group_wait": 0}])
    notifier = Notifier(s.runtime, lambda: rules, {}, node=lambda: s.node, is_threaded=False)
    notifier.begin()
    store.slots.record([Event("scheduler.stalled", now, detail={"node": "old-1"})])
    notifier.step()
    notifier.release()
    store.alerts.silence(Silence(0, "group", "g", now, None, now), Event("alert.silenced", now))


def _let_in(s: ManualScheduler) -> tuple[str, str]:
    made = tokens.create_token(s.runtime, "ada's", "operator", owner="ada")
    caller = Caller(made.token)
    now = s.clock.now()
    create_webhook(s.runtime, "https://example.com/events", ["job.*"], caller)
    fields = {"every": "1h", "run": {"http": {"url": "https://example.com/"}}}
    one = read_submission(fields, submissions.new_id(now), SubmissionRules(now, lambda: "UTC"))
    answer = StoredResponse(made.token.token_id, "a-key", "digest", "{}")
    submissions.create_entries(s.runtime, [one], caller, answer=lambda _entries: answer)
    spaced = tokens.create_token(s.runtime, "spaced", "operator", limits=limits_of({"min_interval": "1h"}))
    other = read_submission(fields, submissions.new_id(now), SubmissionRules(now, lambda: "UTC"))
    submissions.create_entries(s.runtime, [other], Caller(spaced.token))
    return made.secret, tokens.begin_session(s.runtime, made.token).secret


def _deliver_half(s: ManualScheduler) -> int:
    """A subscriber that has had some of the messages, and a list that begins after those that were forgotten."""
    now, messages = s.clock.now(), store_of(s.runtime).messages
    found = messages.take(now, "inbox", node=s.node, limit=3, held_until=now + HOLD)
    assert messages.advance(now, "inbox", node=s.node, cursor=found[-1].id, held_until=None)
    return int(found[-1].id)


def _leave_pending(s: ManualScheduler) -> None:
    """Held, queued, running, waiting for a retry; a breaker that is open; skips that are gathered."""
    s.add("retried", every="24h", max_retries=3, retry_delay="20m")
    s.add(
        "broken",
        every="24h",
        group="p",
        command="poll",
        circuit_breaker={"threshold": 1, "reset_after": "30m"},
    )
    s.add("remembers", every="24h", group="p", command="write")
    s.add("queued", every="24h")
    s.add("g.running", every="24h", group="g", max_concurrent=1)
    s.add("g.held", every="24h", group="g", max_concurrent=1)
    s.add("busy", every="10s", end_at="2026-01-05T10:12:00Z")
    s.tick()
    for claimed in s.claim():
        name = claimed.job.schedule_id
        if name in ("retried", "broken"):
            s.settle(claimed, FAILED)
        elif name == "remembers":
            s.settle(claimed, Outcome("succeeded", also=PluginUpdate("p", '{"seen": 17}')))
        elif name not in ("g.running", "busy"):
            s.settle(claimed, SUCCEEDED)
        else:
            stream = OutputStream(claimed.job.job_id, 1, "stdout")
            store_of(s.runtime).slots.write_output(
                s.clock.now(), [OutputPiece(stream, 0, b"bytes \x00\xff")], []
            )
    s.run_until(MOVED, work=False)


@contextmanager
def on_target(url: str) -> Iterator[ManualScheduler]:
    """The first node on the target, a minute after the last on the source."""
    with closing(manual_scheduler("2026-01-05T10:11:00Z", database=url)) as s:
        s.node = "new-1"
        s.beat()
        yield s
