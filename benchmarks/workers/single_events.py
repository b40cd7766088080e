"""The worker of B23: one-shots of a `Scheduler`, from the instant that was asked for to the start of the function."""

import argparse
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from time import sleep, time

from benchmarks.workers import calls
from benchmarks.workers.answering import Timings, answer_until_end
from benchmarks.workers.events import Events, events_of, lags_by_case
from benchmarks.workers.hosts import InProgram
from benchmarks.workers.places import Place, a_place
from benchmarks.workers.sizes import Size, accept_sizes, size_of
from everwhen.version import __version__

LATE_SECONDS = 10


class SingleEvents:
    """All of them are in the database before the first is due; the settings are the defaults."""

    version = __version__

    def __init__(self, place: Place, folder: Path, size: Size) -> None:
        self.place, self.folder, self.size = place, folder, size
        self.rounds = 0

    def check(self) -> dict[str, str]:
        return {}

    def run(self, _part: int, _parts: int) -> Timings:
        self.rounds += 1
        notes = calls.Notes(self.folder, self.rounds)
        host = InProgram(self.place.fresh(), self.folder)
        events = events_of(time(), self.size)
        run = {"python": calls.named("note_run")}
        host.add([{"id": name, "at": in_words(at), "run": run} for name, at in events.items()])
        host.start()
        try:
            await_all(notes, events)
        finally:
            host.stop()
        started = {name: float(at) for name, _, at in notes.read()}
        notes.close()
        return lags_by_case(events, started)


def in_words(instant: float) -> str:
    return datetime.fromtimestamp(instant, UTC).isoformat(timespec="microseconds")


def await_all(notes: calls.Notes, events: Events) -> None:
    sleep(max(events.values()) - time())
    while len(notes) < len(events) and time() < max(events.values()) + LATE_SECONDS:
        sleep(0.05)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("database", choices=("here", "file"), help="that of the benchmark, or always SQLite")
    accept_sizes(parser)
    options = parser.parse_args()
    with (
        a_place(on_file=options.database == "file") as place,
        TemporaryDirectory(prefix="everwhen-bench-") as folder,
    ):
        answer_until_end(SingleEvents(place, Path(folder), size_of(options)))


if __name__ == "__main__":
    main()
