"""The worker of B21: lists, filters and single schedules over REST, from one client that keeps its connection."""

import argparse
from pathlib import Path
from time import perf_counter

from benchmarks.workers.answering import Timings, answer_until_end
from benchmarks.workers.loading import AT_ONCE, Rest
from benchmarks.workers.percentiles import percentile
from benchmarks.workers.places import Place, a_place
from everwhen.version import __version__

FEW, MANY, QUICK_MANY = 1_000, 100_000, 10_000
REQUESTS = 200  # of each kind, in one round
PAUSED = 20
INDEXED = {
    "list of 50": "/schedules/",
    "list of 50, summary": "/schedules/?include=summary",
    "a later page": "/schedules/?cursor={cursor}",
    "filter by status": "/schedules/?status=paused",
    "one schedule": "/schedules/{id}/",
    "upcoming of all": "/upcoming/",
}
# Filters without an index: they look at every schedule until the page is full.
SCANNED = {
    "filter by type": "/schedules/?type=cron",
    "filter by target that is rare": "/schedules/?target=http",
    "filter by text": "/schedules/?q=s{number}",
}


class Reading:
    """An `everwhen api` process on a database with so many schedules."""

    version = __version__

    def __init__(self, place: Place, count: int, calls: dict[str, str]) -> None:
        self.calls = calls
        self.surface = Rest(place.fresh())
        self.count = count
        self.amounts: dict[str, float] = {}

    def check(self) -> dict[str, str]:
        for start in range(0, self.count, AT_ONCE):
            self.surface.create(range(start, start + AT_ONCE))
        page = self.surface.get("/schedules/?limit=500")
        ids = [item["id"] for item in page["items"]]
        self.surface.post("/schedules/batch-pause/", {"schedule_ids": ids[:PAUSED]})
        middle = self.surface.get(f"/schedules/?limit=1&offset={self.count // 2}")
        given = {"id": ids[300], "number": self.count // 2, "cursor": middle["next_cursor"]}
        self.calls = {name: path.format(**given) for name, path in self.calls.items()}
        for path in self.calls.values():
            self.surface.get(path)
        return {}

    def run(self, _part: int, parts: int) -> Timings:
        found: Timings = {}
        self.surface.client.close()  # while others had their turn, the server has closed it; it opens by itself
        self.surface.get("/me/")
        for name, path in self.calls.items():
            before = cpu_seconds(self.surface.server.pid)
            durations = [self.timed(path) for _ in range(REQUESTS // parts)]
            spent = cpu_seconds(self.surface.server.pid) - before
            self.amounts[f"CPU of {name}, ms"] = 1_000 * spent / len(durations)
            found[name] = (percentile(durations, 99), 1)
        return found

    def timed(self, path: str) -> float:
        began = perf_counter()
        self.surface.get(path)
        return perf_counter() - began


def cpu_seconds(process: int) -> float:
    """Return the CPU time that a process has had."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("size", choices=("few", "many"))
    parser.add_argument("calls", choices=("indexed", "scanned"))
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    many = QUICK_MANY if options.quick else MANY
    with a_place() as place:
        calls = INDEXED if options.calls == "indexed" else SCANNED
        task = Reading(place, FEW if options.size == "few" else many, calls)
        try:
            answer_until_end(task)
        finally:
            task.surface.close()


if __name__ == "__main__":
    main()
