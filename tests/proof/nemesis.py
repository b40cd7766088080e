"""The nemesis: executes a plan, second by second, and records what it did and when.

One thread injects faults, undoes them and supervises: the kernel ends our processes with the thread that started
them.
"""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tests.proof.faults import inflict
from tests.proof.plan import HOWS, Strike
from tests.proof.worlds import World

LOOK_EVERY = 0.1
START = 60.0


@dataclass
class Struck:
    """A fault as it happened, by the monotonic clock."""

    strike: Strike
    began: float
    healed: float = 0.0


@dataclass
class Diary:
    """What was done to a world, and when the run began."""

    began: float
    struck: list[Struck] = field(default_factory=list)
    ended: float = 0.0


@dataclass
class Nemesis:
    """Injects faults into a world; `tell` is called for every fault."""

    world: World
    tell: Callable[[str], None]
    _agenda: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    _order: itertools.count[int] = field(default_factory=itertools.count)
    _struck: set[str] = field(default_factory=set)  # and not undone yet
    _rest: threading.Event = field(default_factory=threading.Event)

    def begin(self) -> None:
        """Start everything; return when all processes are at work."""
        deadline = time.monotonic() + START
        while not all(process.is_at_work for process in self.world.processes):
            failed = [fields for process in self.world.processes for fields in process.ended_early]
            assert not failed and time.monotonic() < deadline, failed
            self.watch_until(time.monotonic() + LOOK_EVERY)

    def rage(self, plan: Sequence[Strike], seconds: float) -> Diary:
        """Execute the plan; at the end every fault is undone. A fault whose victim has not recovered is postponed, if
        necessary beyond the end."""
        diary = Diary(time.monotonic())
        for strike in plan:
            self._at(diary.began + strike.at, lambda strike=strike: self._strike(strike, diary))  # type: ignore[misc]
        while self._agenda or time.monotonic() < diary.began + seconds:
            self.watch_until(self._agenda[0][0] if self._agenda else diary.began + seconds)
            while self._agenda and self._agenda[0][0] <= time.monotonic():
                heapq.heappop(self._agenda)[2]()
        diary.ended = time.monotonic()
        return diary

    def watch_until(self, moment: float) -> None:
        """Keep the wanted processes running, until then."""
        while True:
            self.world.supervise()
            left = moment - time.monotonic()
            if left <= 0:
                return
            self._rest.wait(min(left, LOOK_EVERY))

    def _at(self, moment: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._agenda, (moment, next(self._order), action))

    def _strike(self, strike: Strike, diary: Diary) -> None:
        taken = {name.format(strike.machine) for name in HOWS[strike.kind].takes}
        if taken & self._struck or not self._is_whole(strike):
            self._at(time.monotonic() + LOOK_EVERY, lambda: self._strike(strike, diary))
            return
        struck = Struck(strike, time.monotonic())
        diary.struck.append(struck)
        self._struck |= taken
        self.tell(str(strike))
        undo = inflict(self.world, strike)

        def heal() -> None:
            undo()
            self._struck -= taken
            struck.healed = time.monotonic()

        self._at(struck.began + strike.lasts, heal)

    def _is_whole(self, strike: Strike) -> bool:
        """Return whether the victim has recovered from its last fault: killing a process that has not started yet
        shows nothing, and on a busy machine a start takes seconds.

        The clock is not stepped within a user's action, which may wait for a database that is away: waiting for it
        here would prolong every fault that lasts."""
        takes = HOWS[strike.kind].takes
        if "the clock" in takes and self.world.hands.locked():
            return False
        machine = self.world.machines[strike.machine - 1]
        return all(victim.is_at_work for name in takes for victim in machine.processes_named(name))
