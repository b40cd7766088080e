"""A worker for the tests of the conversation: it prints where it should not, then fails when told to."""

import sys
from typing import ClassVar

from benchmarks.workers.answering import Timings, answer_until_end


class Scripted:
    version = "1.0"
    amounts: ClassVar[dict[str, float]] = {"memory": 3.0}

    def check(self) -> dict[str, str]:
        print("a peer that prints")
        return {"case": "digest"}

    def run(self, part: int, parts: int) -> Timings:
        if sys.argv[1:] == ["dies"]:
            sys.exit("its last words")
        if part == 1:
            raise RuntimeError("no part 1 here")
        return {"case": (2.0, parts)}


if __name__ == "__main__":
    answer_until_end(Scripted())
