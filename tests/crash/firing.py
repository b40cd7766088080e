"""A process that fires and settles as fast as it can until it is killed: the victim of the crash tests."""

from __future__ import annotations

import sys

from everwhen.engine.service import Service
from everwhen.model.outcome import SUCCEEDED, Outcome
from everwhen.ports.target import Run
from everwhen.wiring import open_stack


class Nothing:
    """A target that succeeds at once."""

    def run(self, spec: str, run: Run) -> Outcome:
        return SUCCEEDED


def main(url: str) -> None:
    stack = open_stack(url)
    service = Service(stack.house, {"command": Nothing()}, check_interval=0.2, lease=0.6)
    service.start()
    print("firing", flush=True)
    sys.stdin.readline()  # until it is killed, or told to stop
    service.stop()
    stack.close()


if __name__ == "__main__":
    main(sys.argv[1])
