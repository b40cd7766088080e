"""The worker of B6 and B14 for everwhen: how late jobs are committed by a whole node on the real clock."""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import Event
from time import time_ns

from benchmarks.workers import runaway, runtimes
from benchmarks.workers.answering import Task, Timings, answer_until_end
from benchmarks.workers.backends import backend_of
from benchmarks.workers.percentiles import percentile
from benchmarks.workers.places import Place, a_place
from benchmarks.workers.runtimes import NoWork, SetClock, Witness
from everwhen.cli.api_server import open_api_server
from everwhen.config.read import Configuration
from everwhen.config.settings import ApiSettings
from everwhen.engine.service import Service, ServiceOptions
from everwhen.model.instants import SECOND
from everwhen.model.schedule import State, Target
from everwhen.model.token import limits_of
from everwhen.operations.tokens import create_token
from everwhen.store.opened import store_of
from everwhen.wiring import Stack

EVERY_SECOND = 1_000
ROUND_SECONDS, QUICK_SECONDS = 12, 2
BEHIND, QUICK_BEHIND = 100_000, 10_000
BACKLOG_SECONDS, QUICK_BACKLOG_SECONDS = 12, 3
OUTAGE = 3_600 * SECOND
AT_ONCE = 100  # jobs at a time

PER_SECOND = {"every": "1s", "if_running": "allow"}
PER_MINUTE = {"every": "1m", "catch_up": "run_once", "misfire_grace": "10s"}


LIMITS = {"max_schedules": 20, "min_interval": "10m", "fires_per_day": 100}


@contextmanager
def attack(stack: Stack) -> Iterator[dict[str, float]]:
    """Serve the API in this process, as `everwhen up` does, and let a limited token create and trigger without end.

    How it was answered is known afterwards.
    """
    found: dict[str, float] = {}
    settings = ApiSettings(port=0)
    server = open_api_server(stack.runtime, Configuration, settings, changes=stack.changes)
    try:
        limits = limits_of(LIMITS)
        token = create_token(stack.runtime, "wild", "operator", limits=limits)
        (path,) = (f"/schedules/{state.schedule_id}/trigger/" for state in load_attacked(stack))
        command = [sys.executable, "-m", runaway.__name__, server.url, path]
        environment = {**os.environ, runaway.TOKEN: token.secret}
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
        ) as process:
            yield found
            said = json.loads(process.communicate()[0])
            within = {f"answered {one}": said["answers"].get(one, 0) for one in ("create 201", "trigger 202")}
            refused = sum(said["answers"].values()) - sum(within.values())
            found.update({**within, "refused a second": refused / said["seconds"]})
    finally:
        server.stop()


def load_attacked(stack: Stack) -> list[State]:
    """Create the schedule that the token triggers."""
    return runtimes.load(stack, 1, {"every": "1d", "first_run": "after_interval"}, name="attacked")


class Lag:
    """A node with 1,000 schedules that are due in every second, and optionally a backlog.

    An outage is simulated by filling the database with a clock that is an hour slow.
    """

    version = runtimes.VERSION

    def __init__(
        self,
        place: Place,
        seconds: int,
        behind: int = 0,
        target: Target = runtimes.TARGET,
        *,
        beside: Callable[[Stack], AbstractContextManager[dict[str, float]]] = lambda _stack: nullcontext({}),
    ) -> None:
        self.beside = beside  # what else goes on
        self.place = place
        self.seconds = seconds
        self.behind = behind
        self.target = target
        self.amounts: dict[str, float] = {}

    def check(self) -> dict[str, str]:
        self.template = self.place.fresh()
        now = time_ns() // 1_000
        stack = runtimes.a_stack(self.template, SetClock(now - OUTAGE if self.behind else now))
        if self.behind:
            runtimes.load_many(stack, self.behind, PER_MINUTE, name="behind")
        stack.close()
        return {}

    def run(self, _part: int, _parts: int) -> Timings:
        url = self.place.copy_of(self.template)
        stack = runtimes.a_stack(url)
        runtimes.load(stack, EVERY_SECOND, PER_SECOND, name="live", target=self.target)
        witness = store_of(stack.runtime).slots = Witness(store_of(stack.runtime).slots)  # type: ignore[assignment]
        with self.beside(stack) as answers:
            began, ended = self.watch(stack)
        lags = list(self.lags(stack, witness, began, ended))
        stack.close()
        self.place.drop(url)
        expected = EVERY_SECOND * (ended - began) // SECOND
        self.amounts = {"slots missed": expected - len(lags), "lag p99": percentile(lags, 99) / SECOND}
        self.amounts |= answers
        return {"lag p99": (percentile(lags, 99) / SECOND, 1)}

    def watch(self, stack: Stack) -> tuple[int, int]:
        """Run the node; return the whole seconds in which every slot must be found, from the next one on."""
        service = Service(stack.runtime, {"command": NoWork()}, ServiceOptions(max_workers=AT_ONCE))
        began = time_ns() // 1_000 // SECOND * SECOND + SECOND
        ended = began + self.seconds * SECOND
        service.start()
        try:
            # Late ones may still come: they count, with their lag, while we wait.
            Event().wait((ended - time_ns() // 1_000) / SECOND + 1.5)
        finally:
            service.stop()
        return began, ended

    def lags(self, stack: Stack, witness: Witness, began: int, ended: int) -> Iterator[int]:
        """Yield the lags. Jobs were inserted in the order of the ticks, so each tick's commit belongs to the next few
        rows."""
        backend = backend_of(stack.database)
        query = "FROM jobs WHERE origin IN ('schedule', 'catch_up') ORDER BY row_id"
        rows = iter(backend.rows(f"SELECT {backend.microseconds('due_at')}, schedule_id {query}"))
        for committed_at, fired in witness.commits:
            for _ in range(fired):
                due_at, schedule_id = next(rows)
                if ".live" in schedule_id and began <= due_at < ended:
                    yield committed_at - due_at


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("task", choices=("steady", "messages", "runaway", "backlog"))
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    with a_place() as place:
        target = runtimes.SAYING if options.task == "messages" else runtimes.TARGET
        task: Task = Lag(place, QUICK_SECONDS if options.quick else ROUND_SECONDS, target=target)
        if options.task == "runaway":
            task = Lag(place, QUICK_SECONDS if options.quick else ROUND_SECONDS, beside=attack)
        if options.task == "backlog":
            seconds = QUICK_BACKLOG_SECONDS if options.quick else BACKLOG_SECONDS
            task = Lag(place, seconds, QUICK_BEHIND if options.quick else BEHIND)
        answer_until_end(task)


if __name__ == "__main__":
    main()
