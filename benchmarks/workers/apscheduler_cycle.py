"""The worker of B5 for APScheduler 3."""

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.workers.answering import answer_until_end
from benchmarks.workers.apscheduler_jobs import JOURNALS, Cycle

COUNT, QUICK_COUNT = 2_000, 500  # fewer than everwhen's: its cost per slot only grows with their number


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("journal", choices=JOURNALS)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        answer_until_end(Cycle(Path(folder), options.journal, QUICK_COUNT if options.quick else COUNT))


if __name__ == "__main__":
    main()
