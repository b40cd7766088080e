"""The worker of B5 and B24 for APScheduler 3."""

import argparse

from benchmarks.workers.answering import answer_until_end
from benchmarks.workers.apscheduler_jobs import JOURNALS, Cycle, tune_collector
from benchmarks.workers.places import a_place
from benchmarks.workers.sizes import accept_sizes, size_of

COUNT = (2_000, 500, 3)  # fewer than everwhen's: its cost per slot only grows with their number


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("journal", choices=JOURNALS)
    parser.add_argument("settings", choices=("default", "tuned"))
    accept_sizes(parser)
    options = parser.parse_args()
    if options.settings == "tuned":
        tune_collector()
    with a_place() as place:
        answer_until_end(Cycle(place, options.journal, size_of(options).of(*COUNT)))


if __name__ == "__main__":
    main()
