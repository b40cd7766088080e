"""The worker of B21: lists, filters and single schedules over REST, from one client that keeps its connection."""

import argparse
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import perf_counter

from benchmarks.workers.answering import Timings, answer_until_end
from benchmarks.workers.loading import AT_ONCE, Rest
from benchmarks.workers.percentiles import percentile
from benchmarks.workers.places import Place, a_place
from benchmarks.workers.sizes import accept_sizes, size_of
from everwhen.version import __version__

FEW, MANY = (1_000, 1_000, 1_000), (100_000, 10_000, 1_000)  # a batch at least
REQUESTS = (200, 200, 2)  # of each kind, in one round
FEWER = (50, 50, 1)  # of those that the dashboard sends
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
# What the dashboard asks: the calls of its first page, and those of a search, a filter and an order of its list.
FIRST_PAGE = {
    "health": "/system/status/",
    "time line of 6 hours": "/timeline/?from={past}&to={future}&rows=60",
    "map of the day": "/timeline/?from={midnight}&to={next_midnight}&stretch=360&rare=0",
    "up next": "/upcoming/?limit=12",
    "counts by status": "/schedules/?facets=status&limit=1",
    "held": "/schedules/?held=true&limit=5&sort=next_run_at",
    "failing": "/schedules/?failing=true&limit=6&sort=-last_fired_at",
}
LIST = {
    "list with all facets": "/schedules/?recent=true&facets=status,group,owner,type",
    "search by name": "/schedules/?q=s{number}&recent=true&facets=status,group,owner,type",
    "search that matches many": "/schedules/?q=9&sort=-last_fired_at&recent=true&facets=status,group,owner,type",
    "order by name": "/schedules/?sort=name&recent=true&facets=status",
    "order by next run": "/schedules/?sort=next_run_at&recent=true&facets=status",
}
CALLS = {"indexed": INDEXED, "scanned": SCANNED, "dashboard": {**FIRST_PAGE, **LIST}}


class Reading:
    """An `everwhen api` process on a database with so many schedules."""

    version = __version__

    def __init__(self, place: Place, count: int, calls: dict[str, str], requests: int) -> None:
        self.requests = requests
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
        given = {
            "id": ids[300],
            "number": self.count // 2,
            "cursor": middle["next_cursor"],
            **instants(),
        }
        self.calls = {name: path.format(**given) for name, path in self.calls.items()}
        for path in self.calls.values():
            self.surface.get(path)
        return {}

    def run(self, _part: int, parts: int) -> Timings:
        found: Timings = {}
        self.surface.open()
        for name, path in self.calls.items():
            before = cpu_seconds(self.surface.server.pid)
            durations = [self.timed(path) for _ in range(self.requests // parts)]
            spent = cpu_seconds(self.surface.server.pid) - before
            self.amounts[f"CPU of {name}, ms"] = 1_000 * spent / len(durations)
            found[name] = (percentile(durations, 99), 1)
        for group, names in (("first page", FIRST_PAGE), ("list", LIST)):
            if slowest := [found[name][0] for name in names if name in found]:
                self.amounts[f"slowest call of the {group}, ms"] = 1_000 * max(slowest)
        return found

    def timed(self, path: str) -> float:
        began = perf_counter()
        self.surface.get(path)
        return perf_counter() - began


def instants() -> dict[str, str]:
    """Return the window that the dashboard opens with, and the day, as it asks for them."""
    now = datetime.now(UTC).replace(microsecond=0)
    midnight = now.replace(hour=0, minute=0, second=0)
    found = {
        "past": now - timedelta(hours=6.6),
        "future": now + timedelta(hours=5.4),
        "midnight": midnight,
        "next_midnight": midnight + timedelta(days=1),
    }
    return {name: instant.strftime("%Y-%m-%dT%H:%M:%SZ") for name, instant in found.items()}


def cpu_seconds(process: int) -> float:
    """Return the CPU time that a process has had."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("size", choices=("few", "many"))
    parser.add_argument("calls", choices=tuple(CALLS))
    accept_sizes(parser)
    options = parser.parse_args()
    size = size_of(options)
    requests = size.of(*(FEWER if options.calls == "dashboard" else REQUESTS))
    with a_place() as place:
        count = size.of(*(FEW if options.size == "few" else MANY))
        task = Reading(place, count, CALLS[options.calls], requests)
        try:
            answer_until_end(task)
        finally:
            task.surface.close()


if __name__ == "__main__":
    main()
