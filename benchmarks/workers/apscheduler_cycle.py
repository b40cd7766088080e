"""The worker of B5 for APScheduler 3."""

import argparse

from benchmarks.workers.answering import answer_until_end
from benchmarks.workers.apscheduler_jobs import JOURNALS, Cycle
from benchmarks.workers.places import a_place

COUNT, QUICK_COUNT = 2_000, 500  # fewer than everwhen's: its cost per slot only grows with their number


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("journal", choices=JOURNALS)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    with a_place() as place:
        answer_until_end(Cycle(place, options.journal, QUICK_COUNT if options.quick else COUNT))


if __name__ == "__main__":
    main()
