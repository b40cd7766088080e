"""How much a worker does in a turn: what the table says, less to see that all runs, or next to nothing in tests."""

import argparse
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Size:
    """The form of a run. `toy` is for tests, which only look whether a worker works."""

    is_quick: bool = False
    is_toy: bool = False

    def of(self, full: T, quick: T, toy: T) -> T:
        """Return what belongs to this form.

        >>> Size(is_quick=True).of(5_000, 1_000, 10), Size(is_quick=True, is_toy=True).of(5_000, 1_000, 10)
        (1000, 10)
        """
        return toy if self.is_toy else quick if self.is_quick else full


def accept_sizes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--toy", action="store_true")


def size_of(options: argparse.Namespace) -> Size:
    return Size(is_quick=options.quick, is_toy=options.toy)
