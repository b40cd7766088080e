"""Queues: messages to workers, links, and the rules for chains of them (`rq-chain`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, Protocol

from everwhen.model.schedule import Definition
from everwhen.timetable.trigger import Cron, Every, EveryMonth, Once, OnRequest, Trigger


class Delivery(NamedTuple):
    """The message "this job is ready". `number` counts the messages about one job: only the last one is valid.

    `seconds` is the job's own timeout; None means no timeout.
    """

    job_id: str
    number: int
    queue: str
    handed_over_at: int
    seconds: float | None = None

    @property
    def message_id(self) -> str:
        """Return an id that no other message has, not even an earlier one about the job that the queue still keeps.

        >>> Delivery("sched-a-n1-rc0", 1, "default", 0).message_id
        'sched-a-n1-rc0'
        >>> Delivery("sched-a-n1-rc0", 2, "default", 0).message_id
        'sched-a-n1-rc0-d2'
        """
        return self.job_id if self.number == 1 else f"{self.job_id}-d{self.number}"


Whereabouts = Literal["waiting", "gone", "failed", "unknown"]


class Found(NamedTuple):
    """The state of a message: it still waits, is gone, or the queue's worker failed with it before the job began.

    `unknown`: the queue cannot be queried for a single message.
    """

    whereabouts: Whereabouts
    error: str | None = None


WAITING, GONE, UNKNOWN = Found("waiting"), Found("gone"), Found("unknown")


class Queue(Protocol):
    """An external queue. Every method raises QueueError while it is unreachable, and may be repeated."""

    @property
    def name(self) -> str:
        """Return its display name: RQ, Celery."""
        ...

    def ping(self) -> None:
        """Raise QueueError when the queue cannot be reached."""
        ...

    def put(self, deliveries: Sequence[Delivery]) -> None:
        """Send messages; skip those that are in the queue already, where the queue can detect that."""
        ...

    def find(self, deliveries: Sequence[Delivery]) -> list[Found]:
        """Return what happened to each of these messages."""
        ...

    def withdraw(self, deliveries: Sequence[Delivery]) -> None:
        """Remove messages from the queue, as far as that is possible."""
        ...

    def close(self) -> None: ...


# A link: a queue message that makes a worker process one schedule at a given time (`rq-chain`).


class Link(NamedTuple):
    """One link. `link_id` is derived from its purpose, so that the same link cannot be put into the queue twice.

    `is_slot`: it is for a slot of the clock, and not for a job that exists already.
    `is_expected`: the process that created the job is about to run it, or has put this same link into the queue.
    """

    link_id: str
    uid: str
    schedule_id: str
    queue: str
    at: int
    is_slot: bool = True
    is_expected: bool = False


def link_id(job_id: str, at: int) -> str:
    """Return the id of a link: the id of the expected job, and its instant.

    The instant is needed because a skipped slot does not change the number of the next run: a link that puts its
    successor into the queue while it is itself still there must not use its own id again.

    >>> link_id("sched-a1b2c3d4-n5-rc0", 1_767_600_060_000_000)
    'sched-a1b2c3d4-n5-rc0-at1767600060000000'
    """
    return f"{job_id}-at{at}"


class Links(Protocol):
    """A queue that delivers a link to one of its workers when it is due; raises QueueError when it is unreachable."""

    def put(self, link: Link, now: int) -> bool:
        """Schedule a link for its instant, or for now if that has passed; False when it is scheduled already.

        A link with the same id that was delivered earlier, and whose work is not done, does not count: this one is
        added next to it, at most once per period.
        """
        ...

    def ping(self) -> None:
        """Raise QueueError when the queue cannot be reached."""
        ...

    def close(self) -> None: ...


# The rules for schedules that run as a chain of one-shot queue jobs, without a scheduler process
# (`rq-chain`).


RQ_CHAIN = "rq-chain"
OVERLAPS = ("skip", "queue")

_INSTEAD = 'with dispatch "local", "rq" or "celery" it can'
_COMPLETION = (
    'an interval counted from completion cannot run with dispatch "rq-chain": the next run is put into the queue '
    f"before this one begins; {_INSTEAD}, and so it can with interval_from: slot"
)


def chain_faults(definition: Definition) -> Iterator[tuple[str, str]]:
    """Yield why a schedule cannot run as a chain: the invalid key, and the reason.

    A run puts the next one into the queue before it begins, so the next slot must be known by then and may depend on
    the clock only.
    """
    if not isinstance(definition.trigger, Every):
        key, name = _trigger_key(definition.trigger)
        yield key, f'{name} cannot run with dispatch "rq-chain", which knows intervals only; {_INSTEAD}'
    elif definition.is_chain:
        yield "interval_from", _COMPLETION
    if definition.if_running not in OVERLAPS:
        yield (
            "if_running",
            f'"{definition.if_running}" cannot be had with dispatch "rq-chain", only "skip" or "queue"; {_INSTEAD}',
        )


def _trigger_key(trigger: Trigger) -> tuple[str, str]:
    """Return the key of the trigger, and its name in a message."""
    match trigger:
        case Cron():
            return "cron", "a cron expression"
        case Once():
            return trigger.kind, f'a one-shot ("{trigger.kind}")'
        case OnRequest():
            return "type", f'type "{trigger.kind}"'
        case EveryMonth() | Every():
            return "every", f'"{trigger.text}"'
