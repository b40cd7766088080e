"""The worker of B20: the command `everwhen simulate` in a process of its own, its time and its memory."""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from benchmarks.workers.answering import Timings, answer_until_end
from benchmarks.workers.sizes import Size, accept_sizes, size_of
from everwhen.version import __version__

SPANS = {"month": ("2026-12-01", "2027-01-01", 31 * 24), "day": ("2026-12-01", "2026-12-02", 24)}


class Simulating:
    """The start of the process is left out: it is that of the same command for a span without a slot."""

    version = __version__

    def __init__(self, folder: Path, span: str, size: Size) -> None:
        self.folder = folder
        self.start, self.end, hours = SPANS["day" if size.is_toy else span]
        self.schedules = size.of(1_000, 200, 2)
        self.slots = self.schedules * hours
        self.amounts: dict[str, float] = {}

    def check(self) -> dict[str, str]:
        schedules = [
            {"id": f"s{number}", "cron": f"{number % 60} * * * *", "run": {"message": {"text": "now"}}}
            for number in range(self.schedules)
        ]
        # The configuration is JSON, which is YAML as well; the database is never made.
        service = {"database": f"sqlite:///{self.folder}/none.db"}
        config = {"service": service, "schedules": schedules}
        (self.folder / "everwhen.yaml").write_text(json.dumps(config))
        return {}

    def run(self, _part: int, _parts: int) -> Timings:
        # All slots lie on whole minutes.
        start_up, _, _ = self.simulated(f"{self.start}T00:00:10Z", f"{self.start}T00:00:40Z")
        seconds, megabytes, fired = self.simulated(f"{self.start}T00:00:10Z", f"{self.end}T00:00:10Z")
        if fired != self.slots:
            raise AssertionError(f"{fired} slots were fired, not {self.slots}")
        spent = max(seconds - start_up, 1e-6)
        self.amounts = {"a slot": 1e6 * spent / fired, "memory": megabytes}
        return {"slot": (spent, fired)}

    def simulated(self, start: str, end: str) -> tuple[float, float, int]:
        """Return the seconds, the largest memory in MB, and the slots that fired."""
        command = [sys.executable, "-m", "everwhen", "simulate", "--json", "--tz", "UTC"]
        options = ["--config", "everwhen.yaml", "--from", start, "--to", end]
        answer = self.folder / "answer.json"
        began = perf_counter()
        with answer.open("wb") as output:
            process = subprocess.Popen(
                command + options, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=output
            )
            _, status, used = os.wait4(process.pid, 0)
        seconds = perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise RuntimeError(f"everwhen simulate ended with {process.returncode}")
        return seconds, used.ru_maxrss / 1_024, json.loads(answer.read_text())["fired"]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("span", choices=tuple(SPANS))
    accept_sizes(parser)
    options = parser.parse_args()
    with TemporaryDirectory(prefix="everwhen-bench-") as folder:
        answer_until_end(Simulating(Path(folder), options.span, size_of(options)))


if __name__ == "__main__":
    main()
