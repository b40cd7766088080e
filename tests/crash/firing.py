"""A process that fires and settles as fast as it can until it is killed: the victim of the crash tests."""

from __future__ import annotations

import json
import sys

from everwhen.engine.service import Service, ServiceOptions
from everwhen.model.outcome import SUCCEEDED, Outcome, PluginUpdate
from everwhen.target import Run, Target
from everwhen.wiring import open_stack


class Nothing:
    """A target that succeeds at once."""

    def run(self, spec: str, run: Run) -> Outcome:
        return SUCCEEDED


class Remembering:
    """A target that wants each of its jobs remembered."""

    def run(self, spec: str, run: Run) -> Outcome:
        return Outcome("succeeded", also=PluginUpdate("counter", json.dumps({run.job_id: 1})))


def main(url: str) -> None:
    stack = open_stack(url)
    targets: dict[str, Target] = {"command": Nothing(), "remembering": Remembering()}
    service = Service(stack.runtime, targets, ServiceOptions(check_interval=0.2, lease=0.6))
    service.start()
    print("firing", flush=True)
    sys.stdin.readline()  # until it is killed, or told to stop
    service.stop()
    stack.close()


if __name__ == "__main__":
    main(sys.argv[1])
