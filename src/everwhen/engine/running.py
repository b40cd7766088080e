"""One job that this node runs: its task, its deadline, why it is ended, and its output on the way to the store."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from math import inf
from typing import Literal

from everwhen.clock import Clock
from everwhen.decide.budgets import max_cost
from everwhen.errors import StoreError
from everwhen.model.claim import ClaimedJob, Held
from everwhen.model.job import Job
from everwhen.model.outcome import (
    JobEnd,
    Outcome,
    OutcomeStatus,
    OutputGap,
    OutputPiece,
    OutputStream,
    type_of,
)
from everwhen.model.share import Share
from everwhen.target import Nowhere, Output, Run, StopFlag, Stream

# `abandoned`: the node stops and gives up its lease; the node that runs the job again reports its outcome.
# `superseded`: the job was rescued while this node was considered dead, and then claimed by it again.
# `cut_off`: the node cannot renew its lease, and is configured to end its work then.
Ending = Literal["timed_out", "cancelled", "abandoned", "superseded", "cut_off"]
TRACEBACK_LIMIT = 20
_ENDINGS = {
    "cancelled": "cancelled",
    "abandoned": "cancelled",
    "superseded": "superseded: its node was taken for dead, and the job is run again",
}


@dataclass(slots=True, eq=False)
class Running:
    """A claimed job, which runs or is about to. It is ended once: the first reason counts.

    Owned by the loop's thread; others read `is_over`. `begin_by`: when it is given back if it has not begun, in
    monotonic seconds.
    """

    claimed: ClaimedJob
    run: Run
    begin_by: float = inf
    began_at: int | None = None
    task: asyncio.Task[Outcome] | None = None
    timer: asyncio.TimerHandle | None = None
    ending: Ending | None = None
    is_over: bool = False
    is_settled: bool = False  # its outcome is recorded, while work of it continues
    before: list[Running] = field(default_factory=list)  # older copies of the same job: have to end first
    is_call: bool = False  # on a thread, not a task
    has_returned: bool = False  # the call, before anybody ended it
    call_end: Future[None] | None = None  # of a call that was left behind

    @property
    def share(self) -> Share:
        return Share(self.claimed.definition.owner, self.claimed.definition.group)

    @property
    def held(self) -> Held:
        return self.claimed.job.job_id, self.claimed.job.fence

    def begin(self, now: int) -> None:
        """Note when the target begins: the time for it counts from here, not from the claim."""
        claimed_at = self.claimed.job.began_at
        if now <= claimed_at:  # the clock was set back
            return
        self.began_at = now
        if self.run.deadline_at is not None:
            self.run = replace(self.run, deadline_at=self.run.deadline_at + now - claimed_at)

    def job_end(self, outcome: Outcome) -> JobEnd:
        """Return how this job ended. What counts towards a budget was counted at the claim, and so it began there."""
        started_at = None if self.claimed.definition.budgets else self.began_at
        return JobEnd(*self.held, outcome, started_at)

    def end(self, ending: Ending) -> None:
        """Cancel the task; a task that has not begun yet is cancelled as soon as it does."""
        if self.ending is None and not (self.task and self.task.done()):
            self.ending = ending
            self.run.cancelled.set()
            if self.task is not None:
                self.task.cancel()

    @property
    def is_left_behind(self) -> bool:
        """Return whether work of this run continues although the run has ended."""
        return any(not work.done() for work in self.run.still_running)

    def outcome(self) -> Outcome:
        """Return the outcome of the task, whatever the target did."""
        assert self.task is not None
        return self.outcome_of(_reported(self.task))

    def outcome_of(self, reported: Outcome) -> Outcome:
        """Return the outcome of the run, from what the target has reported."""
        if self.ending is None:
            return reported
        if self.ending == "cut_off":
            return Outcome("lost", error="its node could not renew its lease")
        seconds = self.run.seconds_left
        said = f"timed out after {seconds:g}s" if self.ending == "timed_out" else _ENDINGS[self.ending]
        error = f"{said}: {reported.error}" if reported.error else said
        status: OutcomeStatus = "timed_out" if self.ending == "timed_out" else "cancelled"
        return Outcome(status, error=error, cost=reported.cost)


def _reported(task: asyncio.Task[Outcome]) -> Outcome:
    if task.cancelled():
        return Outcome("failed", error="")
    error = task.exception()
    if error is not None:
        return failed_by(error)
    outcome: object = task.result()
    if isinstance(outcome, Outcome):
        return outcome
    text = f"the target returned {type(outcome).__name__}, not an outcome"
    return Outcome("failed", error=text, is_final=True)


def failed_by(error: BaseException) -> Outcome:
    """Turn an exception of a target into an outcome: this is the worker boundary."""
    trace = "".join(traceback.format_exception(error, limit=TRACEBACK_LIMIT)).strip()
    return Outcome("failed", error=trace, error_type=type_of(error))


def run_of(claimed: ClaimedJob, output: Output | None = None, stopping: StopFlag | None = None) -> Run:
    job, definition = claimed.job, claimed.definition
    payload = job.payload or definition.payload
    return Run(
        job_id=job.job_id,
        schedule_id=job.schedule_id,
        schedule_name=claimed.schedule_name or job.schedule_id,
        slot_at=job.slot_at,
        attempt=job.attempt,
        origin=job.origin,
        repeat_number=claimed.repeat_number,
        payload={} if payload == "{}" else json.loads(payload),  # the first is the usual case
        deadline_at=job.deadline_at,
        seconds_left=None if definition.timeout is None else definition.timeout / 1_000_000,
        owner=definition.owner,
        max_cost=max_cost(definition) if definition.budgets else None,
        definition=definition,
        stopping=stopping or StopFlag(),
        output=output or Nowhere(),
    )


# The output of runs on its way to the store: collected, bounded, and written a few times a second.
#
# Of each stream the first 64 KiB and the last 192 KiB are kept, in memory until they are written and in the
# store while the job runs. Writes use the second-lowest of the writer's lanes and never delay a run. A write
# that the store refuses is retried, and what does not fit meanwhile is lost, oldest first.


HEAD = 64 * 1024
TAIL = 192 * 1024
PIECE = 64 * 1024
PAUSE = 0.5
LONGEST_PAUSE = 16.0  # between two attempts, and two log lines, while the store refuses
CLOSING = 5.0

WriteOutput = Callable[[int, list[OutputPiece], list[OutputGap]], None]

log = logging.getLogger("everwhen")


class OutputBook:
    """The output of every run of a node. Its thread starts with the first piece and ends with `close`."""

    def __init__(self, write: WriteOutput, clock: Clock, *, pause: float = PAUSE) -> None:
        self._write, self._clock, self._pause = write, clock, pause
        self._lock = threading.Lock()
        self._changed: dict[OutputStream, _Waiting] = {}
        self._writing = threading.Lock()
        self._is_refused = False  # by the store, at the last attempt
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()

    def of(self, job: Job) -> RunOutput:
        return RunOutput(self, job.job_id, job.attempt)

    def add(self, waiting: _Waiting, data: bytes) -> None:
        with self._lock:
            waiting.add(data)
            self._changed[waiting.stream] = waiting
            if self._thread is None:
                self._closing.clear()
                thread = threading.Thread(target=self._serve, name="everwhen-output", daemon=True)
                with contextlib.suppress(RuntimeError):  # none can be started now: the next piece tries again
                    thread.start()
                    self._thread = thread

    def flush(self) -> None:
        """Write the waiting pieces; on StoreError they keep waiting."""
        with self._writing:
            with self._lock:
                changed = list(self._changed.values())
                pieces = [piece for waiting in changed for piece in waiting.pieces()]
                gaps = [gap for waiting in changed for gap in waiting.gaps()]
            if not pieces:
                return
            self._write(self._clock.now(), pieces, gaps)
            with self._lock:
                for waiting in changed:
                    waiting.forget(pieces)
                    if waiting.is_empty:
                        self._changed.pop(waiting.stream, None)

    def flush_ended(self, job_ids: Iterable[str]) -> None:
        """Write what these jobs have printed, before their ends are recorded: who sees the end sees all of it.

        A store that refuses output does not delay the ends.
        """
        if not self._changed or self._is_refused:
            return
        ended = set(job_ids)
        with self._lock:
            is_waiting = any(stream.job_id in ended for stream in self._changed)
        if is_waiting:
            self._flushed()

    def close(self) -> None:
        """Write the remaining pieces and end the thread."""
        self._closing.set()
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None:
            thread.join(CLOSING)

    def _serve(self) -> None:
        is_over, pause = False, self._pause
        while not is_over:
            is_over = self._closing.wait(pause)
            pause = self._pause if self._flushed() else min(2 * pause, max(LONGEST_PAUSE, self._pause))

    def _flushed(self) -> bool:
        try:
            self.flush()
            self._is_refused = False
        except StoreError as error:  # a disk may be full for hours
            self._is_refused = True
            log.warning("output cannot be written at the moment: %s", error)
        except Exception:
            self._is_refused = True
            log.exception("output cannot be written")
        return not self._is_refused


class RunOutput:
    """The output of one run."""

    def __init__(self, book: OutputBook, job_id: str, attempt: int) -> None:
        self._book, self._job_id, self._attempt = book, job_id, attempt
        self._streams: dict[Stream, _Waiting] = {}

    def write(self, stream: Stream, data: bytes, /) -> None:
        if stream not in self._streams:
            self._streams.setdefault(stream, _Waiting(OutputStream(self._job_id, self._attempt, stream)))
        self._book.add(self._streams[stream], data)


class _Waiting:
    """The unwritten pieces of one stream, and the stream's current length."""

    def __init__(self, stream: OutputStream) -> None:
        self.stream = stream
        self._total = 0
        self._head: deque[OutputPiece] = deque()
        self._tail: deque[OutputPiece] = deque()

    @property
    def is_empty(self) -> bool:
        return not self._head and not self._tail

    def add(self, data: bytes) -> None:
        while data:
            head_left = HEAD - self._total
            size = min(head_left, PIECE) if head_left > 0 else PIECE
            piece = OutputPiece(self.stream, self._total, data[:size])
            _append(self._head if head_left > 0 else self._tail, piece)
            self._total += len(piece.data)
            data = data[size:]
        while self._tail and self._tail[0].position + len(self._tail[0].data) <= self._total - TAIL:
            self._tail.popleft()

    def pieces(self) -> list[OutputPiece]:
        return [*self._head, *self._tail]

    def gaps(self) -> list[OutputGap]:
        end = self._total - TAIL
        return [OutputGap(self.stream, HEAD, end)] if end > HEAD else []

    def forget(self, written: list[OutputPiece]) -> None:
        """Remove the written pieces; a piece that grew meanwhile is written again as a whole."""
        done = set(map(id, written))
        self._head = deque(piece for piece in self._head if id(piece) not in done)
        self._tail = deque(piece for piece in self._tail if id(piece) not in done)


def _append(pieces: deque[OutputPiece], piece: OutputPiece) -> None:
    """Append the piece, joined to the last one if both fit: a thousand short lines are one piece."""
    last = pieces[-1] if pieces else None
    if last is not None and last.position + len(last.data) == piece.position:
        joined = len(last.data) + len(piece.data)
        if joined <= PIECE and (last.position >= HEAD or piece.position + len(piece.data) <= HEAD):
            pieces[-1] = last._replace(data=last.data + piece.data)
            return
    pieces.append(piece)
