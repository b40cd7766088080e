"""A node in one role, as a process of its own, with a short lease: the victim of the crash tests.

Targets succeed at once, but for those that are told to `hang`: they say so, and run until they are killed.
"""

from __future__ import annotations

import sys
import threading

from everwhen.engine.service import Service
from everwhen.model.node import Role
from everwhen.model.outcome import SUCCEEDED, Outcome
from everwhen.ports.target import Run
from everwhen.wiring import open_stack

LEASE = 0.9


class Victim:
    """A target without a process."""

    def run(self, spec: str, run: Run) -> Outcome:
        if spec != "hang":
            return SUCCEEDED
        print(f"hanging {run.job_id} {run.attempt}", flush=True)
        threading.Event().wait()
        raise AssertionError("nobody sets it")


def main(url: str, role: Role, check_interval: float) -> None:
    stack = open_stack(url)
    service = Service(
        stack.house,
        {"command": Victim()},
        role=role,
        check_interval=check_interval,
        lease=LEASE,
        changes=stack.changes,
    )
    if stack.listen is not None:
        stack.leave.append(stack.listen(stack.house))
    service.start()
    print("ready", flush=True)
    sys.stdin.readline()  # until it is killed, or told to stop
    service.stop(wait_for_jobs=False)
    stack.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]))  # type: ignore[arg-type]
