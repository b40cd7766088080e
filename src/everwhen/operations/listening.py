"""The event feed as listeners receive it: events, firings, starts and ends of jobs, from a position that can be stored.

`event_feed` has two sequences, events and jobs; a start and an end are read from the row of their job and have none. A
position therefore also has the jobs up to its place that have not ended. Each of them is read until it has ended, so no
end is missed, whatever the order of commits and however long there was no reader. A position with `MOST_FOLLOWED` jobs
takes no further firings until some of these have ended: they are delayed, and none is lost. Events continue meanwhile.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal, NamedTuple

from everwhen.errors import ConfigError, shown
from everwhen.model.event_cursor import EventCursor, open_jobs_in, open_jobs_to_text
from everwhen.model.events import (
    Derived,
    Event,
    Hold,
    Progress,
    event_of_end,
    event_of_firing,
    event_of_hold,
    event_of_start,
)
from everwhen.model.scalars import unknown
from everwhen.model.values import program_of
from everwhen.operations.audit import held_slots
from everwhen.operations.event_feed import MOST_FOLLOWED, TYPES, FeedEntry, facts_of, last_place
from everwhen.runtime import Runtime
from everwhen.store.opened import store_of

MOVES = frozenset({"job.started", "job.succeeded", "job.failed", "job.timed_out"})
HELD = "schedule.held"
_MOST_KNOWN = 50_000  # schedules whose program is remembered


def checked_types(types: Sequence[str]) -> frozenset[str]:
    """Return the types that a listener takes, all of them where none is given; ConfigError for an unknown one."""
    for one in types:
        if one not in TYPES:
            raise ConfigError(f'event type "{shown(one)}": {unknown("type", str(one), TYPES)}')
    return frozenset(types or TYPES)


def forget_listener(runtime: Runtime, name: str) -> None:
    """Delete what the database remembers under the name of a listener; ConfigError where a process uses it, or none."""
    cursors = store_of(runtime).event_cursors
    names = cursors.names()
    if name not in names:
        raise ConfigError(f'listener "{shown(name)}": {unknown("listener", str(name), names)}')
    node = cursors.forget(runtime.clock.now(), name)
    if node is not None:
        raise ConfigError(
            f'listener "{name}" is used by node {node}; stop the process, or remove the listener from it'
        )


class FeedStep(NamedTuple):
    """One entry, and how a position moves behind it. Without an entry there is nothing to deliver."""

    kind: Literal["event", "firing", "start", "end"]
    number: int
    entry: FeedEntry | None
    starts: int = 0

    @property
    def key(self) -> str:
        return f"{self.kind} {self.number}.{self.starts}"

    @property
    def at(self) -> int:
        return 0 if self.entry is None else facts_of(self.entry).at


@dataclass(slots=True)
class FeedPosition:
    """How far one reader has read. `open_jobs`: by row, the reported starts; None where no listener takes them."""

    event_row: int
    job_row: int
    open_jobs: dict[int, int] | None

    def move_behind(self, step: FeedStep) -> None:
        if step.kind == "event":
            self.event_row = step.number
        elif step.kind == "firing":
            self.job_row = step.number
        if self.open_jobs is None or step.kind == "event":
            return
        if step.kind == "end":
            self.open_jobs.pop(step.number, None)
        else:
            self.open_jobs[step.number] = step.starts

    def stored_in(self, cursor: EventCursor) -> EventCursor:
        """Return the cursor with this position."""
        return cursor._replace(event_row=self.event_row, job_row=self.job_row, open_jobs=self.jobs_text)

    @property
    def jobs_text(self) -> str | None:
        """Return the open jobs as they are stored."""
        return None if self.open_jobs is None else open_jobs_to_text(self.open_jobs)


def position_now(runtime: Runtime, *, follows: bool, patience: float = 0.0) -> FeedPosition:
    """Return the position behind everything that was committed; jobs that are outstanding have yet to start or end."""
    place = last_place(runtime, patience=patience)
    return FeedPosition(place.event, place.job, outstanding_jobs(runtime, place.job) if follows else None)


def position_of(runtime: Runtime, cursor: EventCursor, *, follows: bool) -> FeedPosition:
    """Return a stored position. Where no listener took starts and ends so far, they are delivered from now on."""
    if not follows:
        return FeedPosition(cursor.event_row, cursor.job_row, None)
    text = cursor.open_jobs
    jobs = outstanding_jobs(runtime, cursor.job_row) if text is None else open_jobs_in(text)
    return FeedPosition(cursor.event_row, cursor.job_row, jobs)


def outstanding_jobs(runtime: Runtime, until: int) -> dict[int, int]:
    """Return the jobs up to a row that have not ended, with their starts."""
    found = store_of(runtime).firings.outstanding(limit=MOST_FOLLOWED)
    return {job.row_id: _starts(job) for job in found if job.row_id <= until}


def steps_after(
    runtime: Runtime, position: FeedPosition, *, limit: int, most_followed: int = MOST_FOLLOWED
) -> list[FeedStep]:
    """Return what was committed after a position, and what became of its open jobs; the position does not move."""
    store, open_jobs = store_of(runtime), position.open_jobs
    events = [
        FeedStep("event", one.id, one) for one in store.ledger.events_after(position.event_row, limit=limit)
    ]
    is_full = open_jobs is not None and len(open_jobs) >= most_followed
    jobs = [] if is_full else store.firings.after(position.job_row, limit=limit)
    firings = [FeedStep("firing", job.row_id, event_of_firing(job)) for job in jobs]
    feed = list(islice(heapq.merge(events, firings, key=lambda step: step.at), limit))
    if open_jobs is None:
        return feed
    reported = {**open_jobs, **{step.number: 0 for step in feed if step.kind == "firing"}}
    return list(_merged(feed, reported, store.firings.progress_of(reported.keys())))


def _merged(
    feed: Sequence[FeedStep], reported: Mapping[int, int], progress: Iterable[Progress]
) -> Iterator[FeedStep]:
    """Merge by instants; a start stays behind its firing and an end behind its start, also if the clock was set."""
    keyed: list[tuple[int, FeedStep]] = []
    behind: dict[int, int] = {}  # by job: the instant of its last step so far
    latest = 0
    for step in feed:
        latest = max(latest, step.at)
        keyed.append((latest, step))
        if step.kind == "firing":
            behind[step.number] = latest
    gone = set(reported)
    moves: list[tuple[int, FeedStep]] = []
    for job in progress:
        gone.discard(job.row_id)
        for step in _moves(job, reported[job.row_id]):
            behind[job.row_id] = max(step.at, behind.get(job.row_id, 0))
            moves.append((behind[job.row_id], step))
    moves += [(0, FeedStep("end", row, None)) for row in gone]  # ended long ago: retention deleted them
    moves.sort(key=_instant)
    return (step for _, step in heapq.merge(keyed, moves, key=_instant))


def _instant(keyed: tuple[int, FeedStep]) -> int:
    at, _ = keyed
    return at


def _moves(job: Progress, reported: int) -> Iterator[FeedStep]:
    starts = _starts(job)
    if starts > reported:
        yield FeedStep("start", job.row_id, event_of_start(job), starts)
    if job.is_over:
        yield FeedStep("end", job.row_id, event_of_end(job), starts)


def _starts(job: Progress) -> int:
    return 0 if job.started_at is None else job.attempt


# What concerns a process: the starts and ends of jobs that it ran, and what happened to schedules of its program.


class OwnEvents:
    """The events that concern one process. Not for two threads at once."""

    def __init__(self, runtime: Runtime, program: str) -> None:
        self._runtime = runtime
        self._program = program
        self._is_own: dict[str, bool] = {}  # by uid

    def load(self, entries: Iterable[FeedEntry]) -> None:
        """Learn which schedules belong to this program, before `concerns` is called."""
        wanted = set()
        for facts in map(facts_of, entries):
            if facts.uid is not None and facts.type == "schedule.updated":
                self._is_own.pop(facts.uid, None)  # it may be another program's from now on
            if facts.uid is not None and facts.uid not in self._is_own:
                wanted.add(facts.uid)
        if not wanted:
            return
        if len(self._is_own) > _MOST_KNOWN:
            self._is_own.clear()
        queues = store_of(self._runtime).event_cursors.queues_of(wanted)
        for uid in wanted:
            self._is_own[uid] = self._is_program_of(queues.get(uid))

    def concerns(self, entry: FeedEntry, node: str) -> bool:
        """Check whether a process with that node gets an entry; one without a schedule concerns every process."""
        facts = facts_of(entry)
        if isinstance(facts, Derived) and facts.type in MOVES:
            return facts.node == node
        if facts.uid is not None:
            return self._is_own.get(facts.uid, False)
        is_about_nodes = isinstance(facts, Event) and facts.type.startswith("scheduler.")
        return not is_about_nodes or facts.detail.get("node") == node

    def _is_program_of(self, queue: str | None) -> bool:
        program = None if queue is None else program_of(queue)
        return program is not None and program.partition("/")[0] == self._program


class HoldWatch:
    """Slots that are held, which are in no sequence: a new hold since the last look is reported."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._known: frozenset[tuple[str, int, int]] | None = None

    def look(self) -> list[Derived]:
        """Return the holds since the last call; nothing at the first call."""
        found = {_key(hold): hold for hold in held_slots(self._runtime)}
        known, self._known = self._known, frozenset(found)
        if known is None:
            return []
        return [event_of_hold(hold) for key, hold in found.items() if key not in known]


def _key(hold: Hold) -> tuple[str, int, int]:
    return hold.uid, hold.slot_at, hold.since
