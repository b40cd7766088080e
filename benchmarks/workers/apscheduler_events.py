"""The worker of B23 for APScheduler 3: date jobs of a running scheduler on SQLite."""

import argparse
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from time import sleep, time

from benchmarks.workers import calls
from benchmarks.workers.answering import Timings, answer_until_end
from benchmarks.workers.apscheduler_jobs import Jobs, a_scheduler, end
from benchmarks.workers.events import events_of, lags_by_case
from benchmarks.workers.places import Place, a_place
from benchmarks.workers.sizes import Size, accept_sizes, size_of

LATE_SECONDS = 10
LEADS = (0, 5, 15)  # seconds for a slow disk, which waits for each job that is added


class SingleEvents(Jobs):
    def __init__(self, place: Place, folder: Path, size: Size) -> None:
        super().__init__(place, "wal")
        self.folder, self.size = folder, size
        self.rounds = 0

    def run(self, _part: int, _parts: int) -> Timings:
        for lead in LEADS:
            self.rounds += 1
            notes = calls.Notes(self.folder, self.rounds)
            scheduler = a_scheduler(self.place.fresh(), self.journal)
            events = events_of(time() + lead, self.size)
            for name, at in events.items():
                due = datetime.fromtimestamp(at, UTC)
                scheduler.add_job(calls.note_name, "date", run_date=due, args=[name], id=name)
            scheduler.resume()
            is_ready = time() < min(events.values())
            if is_ready:
                sleep(max(events.values()) - time())
                while len(notes) < len(events) and time() < max(events.values()) + LATE_SECONDS:
                    sleep(0.05)
            end(scheduler)
            started = {name: float(at) for name, at in notes.read()}
            notes.close()
            if is_ready:
                return lags_by_case(events, started)
        raise TimeoutError("the jobs could not be added before the first was due")


def main() -> None:
    parser = argparse.ArgumentParser()
    accept_sizes(parser)
    options = parser.parse_args()
    with a_place(on_file=True) as place, TemporaryDirectory(prefix="everwhen-bench-") as folder:
        answer_until_end(SingleEvents(place, Path(folder), size_of(options)))


if __name__ == "__main__":
    main()
