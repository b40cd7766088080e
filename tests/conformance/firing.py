"""A node as a process: it fires and works until it is asked to stop, then prints how much it fired."""

from __future__ import annotations

import sys

from everwhen.engine.service import Service, ServiceOptions
from everwhen.model.outcome import SUCCEEDED, Outcome
from everwhen.target import Run
from everwhen.wiring import open_stack


class Nothing:
    """A target that succeeds at once."""

    def run(self, spec: str, run: Run) -> Outcome:
        return SUCCEEDED


def main(url: str) -> None:
    stack = open_stack(url)
    service = Service(stack.runtime, {"command": Nothing()}, ServiceOptions(check_interval=0.2))
    service.start()
    print("firing", flush=True)
    sys.stdin.readline()
    service.stop()
    stack.close()
    print(service.ticker.counts.fired, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
