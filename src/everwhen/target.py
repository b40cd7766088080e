"""Targets: what a slot runs, the argument that they get, and the observers of their runs."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from everwhen.model.cost import Cost
from everwhen.model.job import Origin
from everwhen.model.outcome import Outcome

if TYPE_CHECKING:
    from everwhen.model.fields import Definition

SIGNALS_APART, LOOK_AGAIN = 1.0, 0.05

Stream = Literal["stdout", "stderr", "log"]
T = TypeVar("T")


class Output(Protocol):
    """The destination of a run's output while it runs. Accepts pieces from any thread; never blocks, never raises."""

    def write(self, stream: Stream, data: bytes, /) -> None: ...


class Nowhere:
    """Output that is discarded."""

    def write(self, stream: Stream, data: bytes, /) -> None:
        return None


class StopFlag:
    """The request that a run end, like a `threading.Event`, which is made only for a waiting thread: that is rare."""

    __slots__ = ("_event", "_is_set")
    _guard = threading.Lock()

    def __init__(self) -> None:
        self._event: threading.Event | None = None
        self._is_set = False

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        with self._guard:
            self._is_set = True
            if self._event is not None:
                self._event.set()

    def wait(self, seconds: float | None = None) -> bool:
        """Sleep for at most that many seconds; True when the run is to end."""
        with self._guard:
            if self._is_set:
                return True
            event = self._event = self._event or threading.Event()
        return event.wait(seconds)


@dataclass(frozen=True, slots=True)
class Run:
    """The argument of every target: which job, of which slot, with which payload, and its deadline.

    A target that cannot be stopped (a thread) fills `still_running`: work that continues after the run has ended and
    keeps its worker occupied until then. `stopping` is set when its node receives the request to stop.
    `max_cost`: the most that its budgets allow for one run. `definition`: the revision that the job is of, which may be
    older than the one in force.
    """

    job_id: str
    schedule_id: str
    schedule_name: str
    slot_at: int
    attempt: int
    origin: Origin
    repeat_number: int
    payload: dict[str, Any]
    deadline_at: int | None
    seconds_left: float | None
    owner: str | None = None
    cancelled: StopFlag = field(default_factory=StopFlag)
    stopping: StopFlag = field(default_factory=StopFlag, compare=False)
    output: Output = field(default_factory=Nowhere, compare=False)
    still_running: list[Future[Any]] = field(default_factory=list, compare=False)
    max_cost: Cost | None = None
    definition: Definition | None = field(default=None, compare=False, repr=False)

    @property
    def catch_up(self) -> bool:
        return self.origin == "catch_up"

    async def is_node_stopping(self) -> bool:
        """Return whether the node is asked to stop, for a run that a signal has ended.

        A signal to a whole control group may reach a run's processes before the node handles its own, so this waits a
        moment.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + SIGNALS_APART
        while not self.stopping.is_set() and loop.time() < deadline:
            await asyncio.sleep(LOOK_AGAIN)
        return self.stopping.is_set()

    async def until_cancelled(self, work: Future[T]) -> T:
        """Return the result of work that cannot be stopped; on cancellation, leave it running."""
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        work.add_done_callback(partial(_wake, ended))
        try:
            await ended
        except asyncio.CancelledError:
            if not work.cancel() and not work.done():
                self.still_running.append(work)
            raise
        return work.result()


class Target(Protocol):
    """One kind of work. It does not raise when the work fails: it returns an Outcome.

    An async `run` is a task of the node's event loop and must not block it. When the time is up, or the job is
    cancelled, the task is cancelled and `run.cancelled` is set: it ends what it started, then returns or lets
    CancelledError pass. The worker then reports `timed_out` or `cancelled`, with the returned error as detail. A
    plain `run` is called in a thread and can only check `run.cancelled`.

    It may also have `kill()`, which ends everything at once, from any thread, and `async close()`, called when the
    loop ends. A target of another package counts as a code target over REST, unless it has `runs_code = False`.
    """

    def run(self, spec: str, run: Run) -> Awaitable[Outcome] | Outcome: ...


def _wake(ended: asyncio.Future[None], _work: Future[Any]) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed: no task waits any more
        ended.get_loop().call_soon_threadsafe(_resolve, ended)


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class Observer(Protocol):
    """A receiver of the starts and ends of runs, called by the worker; it must not raise and must return quickly."""

    def started(self, run: Run) -> None: ...

    def ended(self, run: Run, outcome: Outcome) -> None: ...


class Several:
    """Any number of observers, called one after another."""

    def __init__(self, *observers: Observer) -> None:
        self._observers = observers

    def started(self, run: Run) -> None:
        for observer in self._observers:
            observer.started(run)

    def ended(self, run: Run, outcome: Outcome) -> None:
        for observer in self._observers:
            observer.ended(run, outcome)
