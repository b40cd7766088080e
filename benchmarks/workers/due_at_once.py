"""The worker of B5, B9 and B24: schedules that are due at one instant, until the last of their jobs is settled.

The host is ready before the instant, so its start is not in the figure; neither is it in that of the peers.
"""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from time import sleep, time
from typing import Any

from benchmarks.workers import calls
from benchmarks.workers.answering import Timings, answer_until_end
from benchmarks.workers.bare import COMMANDS, PROGRAM, REQUESTS, a_server
from benchmarks.workers.hosts import HOSTS, TUNED_WORKERS, tune_collector
from benchmarks.workers.ledger import looking_at
from benchmarks.workers.places import Place, a_place
from benchmarks.workers.sizes import Size, accept_sizes, size_of
from everwhen.version import __version__

LEADS = (3, 6, 12, 24, 48)  # seconds between the creation of schedules and the instant when they are due
# How many are due (full, quick, toy), and the workers of a tuned host.
COUNTS = {"B5": (10_000, 2_000, 3), "B24": (5_000, 1_000, 3)}
TUNED_FOR_TARGETS = 32


class DueAtOnce:
    """Begins each round with an empty database."""

    version = __version__

    def __init__(
        self,
        place: Place,
        folder: Path,
        host: str,
        *,
        workers: int | None,
        count: int,
        run: dict[str, Any],
        leads: tuple[int, ...] = LEADS,
    ) -> None:
        self.leads = leads
        self.place, self.folder = place, folder
        self.host, self.workers = HOSTS[host], workers
        self.count, self.target = count, run

    def check(self) -> dict[str, str]:
        return {}

    def run(self, _part: int, _parts: int) -> Timings:
        for lead in self.leads:
            url, due = self.place.fresh(), int(time()) + lead
            host = self.host(url, self.folder, self.workers)
            host.add(self.schedules(due))
            host.start()
            try:
                if time() < due:
                    return {"job": (self.seconds(url, due), self.count)}
            finally:
                host.stop()
        raise TimeoutError(f"it was not ready within {LEADS[-1]} s")

    def seconds(self, url: str, due: int) -> float:
        with looking_at(url) as ledger:
            sleep(due - time())
            return ledger.await_settled(self.count) - due

    def schedules(self, due: int) -> list[dict[str, Any]]:
        fields = {"every": "1h", "start_at": datetime.fromtimestamp(due, UTC).isoformat(), "run": self.target}
        return [{"id": f"s{number}", **fields} for number in range(self.count)]


@contextmanager
def a_target(work: str, size: Size) -> Iterator[tuple[dict[str, Any], int]]:
    """Provide what the schedules run, and how many there are."""
    if work == "command":
        yield {"command": [PROGRAM]}, size.of(*COMMANDS)
    elif work == "http":
        with a_server() as url:
            yield {"http": {"url": url}}, size.of(*REQUESTS)
    else:
        yield {"python": calls.named("nothing")}, size.of(*COUNTS[work])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("work", choices=(*COUNTS, "command", "http"))
    parser.add_argument("host", choices=tuple(HOSTS))
    parser.add_argument("settings", choices=("default", "tuned"))
    accept_sizes(parser)
    options = parser.parse_args()
    workers = None
    if options.settings == "tuned":
        workers = TUNED_FOR_TARGETS if options.work in ("command", "http") else TUNED_WORKERS
        tune_collector()
    with (
        a_place() as place,
        TemporaryDirectory(prefix="everwhen-bench-") as folder,
        a_target(options.work, size_of(options)) as (run, count),
    ):
        leads = size_of(options).of(LEADS, LEADS, LEADS[2:])  # tests would rather wait than begin anew
        task = DueAtOnce(
            place, Path(folder), options.host, workers=workers, count=count, run=run, leads=leads
        )
        answer_until_end(task)


if __name__ == "__main__":
    main()
