"""A scheduler on a clock of the test, with a notifier whose messages the test reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from everwhen.config.sections.notify import rules_in
from everwhen.engine.notifier import Notifier
from everwhen.model.alerts import AlertDelivery, AlertRule, ChannelKind, Sent
from everwhen.model.claim import ClaimedJob
from everwhen.model.outcome import Outcome
from everwhen.testing.manual import ManualScheduler, manual_scheduler

FAILED = Outcome("failed", error="API key\n not set")
SUCCEEDED = Outcome("succeeded")


@dataclass
class Inbox:
    """A channel that keeps what it gets; `answer` decides what it says to that."""

    messages: list[dict[str, Any]] = field(default_factory=list)
    answer: Callable[[AlertDelivery], Sent] = lambda _delivery: Sent(True, "kept")

    def send(self, spec: Mapping[str, Any], delivery: AlertDelivery) -> Sent:
        found = self.answer(delivery)
        if found.is_delivered:
            self.messages.append(delivery.content)
        return found

    @property
    def titles(self) -> list[str]:
        return [one["title"].removeprefix("[everwhen] ") for one in self.messages]


@dataclass
class Watched:
    """A scheduler and its notifier. `broken`: the schedules whose jobs fail."""

    scheduler: ManualScheduler
    inbox: Inbox
    rules: tuple[AlertRule, ...]
    channels: dict[ChannelKind, Any] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)
    public_url: str | None = None

    def __post_init__(self) -> None:
        self.scheduler.outcome = self._outcome
        self.channels |= {"http": self.inbox, "command": self.inbox}
        self.notifier = self.new_notifier()

    def new_notifier(self, node: str = "n1") -> Notifier:
        notifier = Notifier(
            self.scheduler.runtime,
            lambda: self.rules,
            self.channels,
            node=lambda: node,
            is_threaded=False,
            public_url=lambda: self.public_url,
        )
        notifier.begin()
        return notifier

    def _outcome(self, claimed: ClaimedJob) -> Outcome:
        is_broken = "*" in self.broken or claimed.job.schedule_id in self.broken
        return FAILED if is_broken else SUCCEEDED

    def look(self, times: int = 3) -> None:
        """Let the notifier work until nothing is left to do at this instant."""
        for _ in range(times):
            while self.notifier.step():
                pass

    def pass_time(self, seconds: int, *, every: int = 10) -> None:
        """Let time pass for the scheduler and the notifier alike."""
        for _ in range(seconds // every):
            self.scheduler.advance(every)
            self.look(2)

    @property
    def titles(self) -> list[str]:
        return self.inbox.titles


@contextmanager
def watched(*notify: dict[str, Any], start: str = "2026-01-05T00:00:00Z", **keys: Any) -> Iterator[Watched]:
    """Build one on SQLite in memory; the rules are written as in a file, without a channel where it is the inbox."""
    scheduler = manual_scheduler(start, **keys)
    rules = rules_in([{"http": {"url": "http://inbox"}, **one} for one in notify or ({},)])
    found = Watched(scheduler, Inbox(), rules)
    found.look()
    try:
        yield found
    finally:
        scheduler.close()
