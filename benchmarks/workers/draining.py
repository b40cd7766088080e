"""The worker of B8: jobs that are ready, from the start of the first function until the last is settled.

They are fired by a scheduler that has no worker for them. Then a host is started, which finds them in the database. Its
start is not in the figure, and neither is that of the peers.
"""

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.workers import calls
from benchmarks.workers.answering import Timings, answer_until_end
from benchmarks.workers.hosts import HOSTS, TUNED_WORKERS, tune_collector
from benchmarks.workers.ledger import looking_at
from benchmarks.workers.places import Place, a_place
from benchmarks.workers.sizes import accept_sizes, size_of
from everwhen.version import __version__

COUNT = (5_000, 1_000, 3)
FIELDS = {"every": "24h", "run": {"python": calls.named("begin")}}


class Draining:
    version = __version__

    def __init__(self, place: Place, folder: Path, host: str, *, workers: int | None, count: int) -> None:
        self.place, self.folder = place, folder
        self.host, self.workers = host, workers
        self.count = count
        self.rounds = 0

    def check(self) -> dict[str, str]:
        return {}

    def run(self, _part: int, _parts: int) -> Timings:
        self.rounds += 1
        url = self.place.fresh()
        host = HOSTS[self.host](url, self.folder, self.workers)
        host.add([{"id": f"s{number}", **FIELDS} for number in range(self.count)])
        with host.firing(), looking_at(url) as ledger:
            ledger.await_jobs(self.count)
        notes = calls.Notes(self.folder, self.rounds)
        host.start()
        try:
            with looking_at(url) as ledger:
                over = ledger.await_settled(self.count)
        finally:
            host.stop()
        ((_, began),) = notes.read()
        notes.close()
        return {"job": (over - float(began), self.count)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("host", choices=tuple(HOSTS))
    parser.add_argument("settings", choices=("default", "tuned"))
    accept_sizes(parser)
    options = parser.parse_args()
    workers, count = None, size_of(options).of(*COUNT)
    if options.settings == "tuned":
        workers = TUNED_WORKERS
        tune_collector()
    with a_place() as place, TemporaryDirectory(prefix="everwhen-bench-") as folder:
        answer_until_end(Draining(place, Path(folder), options.host, workers=workers, count=count))


if __name__ == "__main__":
    main()
