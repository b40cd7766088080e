"""A node in one role, as a process of its own, with a short lease: the victim of the crash tests.

Targets succeed at once, but for those that are told otherwise: to `hang`, which they say, and run until they are
killed; to be `brief`, which takes as long as a small piece of work; to `fail`. Told `step SECONDS` on its standard
input, a node that was given a clock of its own sets it.
"""

from __future__ import annotations

import sys
import threading

from everwhen.clock import SystemClock
from everwhen.engine.service import Service, ServiceOptions
from everwhen.model.node import Role
from everwhen.model.outcome import SUCCEEDED, Outcome
from everwhen.target import Run
from everwhen.wiring import Stack, open_stack

BRIEF = 0.005


class Victim:
    """A target without a process."""

    def run(self, spec: str, run: Run) -> Outcome:
        if spec == "fail":
            return Outcome("failed", error="no luck")
        if spec == "brief":
            threading.Event().wait(BRIEF)
        if spec != "hang":
            return SUCCEEDED
        print(f"hanging {run.job_id} {run.attempt}", flush=True)
        threading.Event().wait()
        raise AssertionError("nobody sets it")


class SettableClock(SystemClock):
    """This machine's clock, as far off as it was set."""

    def __init__(self) -> None:
        self.offset = 0

    def now(self) -> int:
        return super().now() + self.offset


def main(url: str, role: Role, check_interval: float, lease: float, *, has_own_clock: bool) -> None:
    clock = SettableClock()
    stack = open_stack(url, clock=clock if has_own_clock else None)
    service = Service(
        stack.runtime,
        {"command": Victim()},
        ServiceOptions(role=role, check_interval=check_interval, lease=lease),
        changes=stack.changes,
    )
    if stack.listen is not None:
        stack.leave.append(stack.listen(stack.runtime))
    service.start()
    print("ready", flush=True)
    obey(clock)
    end(service, stack)


def obey(clock: SettableClock) -> None:
    """Until it is killed, or told to stop."""
    while (reported := sys.stdin.readline().split()) and reported[0] == "step":
        clock.offset += int(float(reported[1]) * 1_000_000)
        print("stepped", flush=True)


def end(service: Service, stack: Stack) -> None:
    service.stop(wait_for_jobs=False)
    print(f"fired {service.ticker.counts.fired}", flush=True)
    stack.close()


if __name__ == "__main__":
    url, role, check_interval, lease, *more = sys.argv[1:]
    main(url, role, float(check_interval), float(lease), has_own_clock="own-clock" in more)  # type: ignore[arg-type]
