"""What a person sees during a measurement: one line that is updated on a terminal, plain lines otherwise."""

import shutil
from typing import TextIO

from benchmarks.model import Benchmark
from benchmarks.report import duration


class Progress:
    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.is_terminal = stream.isatty()

    def say(self, text: str) -> None:
        self.clear()
        print(text, file=self.stream, flush=True)

    def turn(self, benchmark: Benchmark, at_round: int, rounds: int, name: str) -> None:
        if self.is_terminal:
            self.replace(f"{benchmark.number} {benchmark.what}: round {at_round + 1}/{rounds}, {name} …")

    def round_done(
        self, benchmark: Benchmark, at_round: int, rounds: int, calibration: float, costs: dict[str, float]
    ) -> None:
        measured = ", ".join(f"{name} {duration(cost)}" for name, cost in costs.items())
        self.say(
            f"{benchmark.number} {benchmark.what}: round {at_round + 1}/{rounds}, "
            f"calibration {duration(calibration)}; {measured}"
        )

    def replace(self, text: str) -> None:
        # A line longer than the terminal wraps, and a wrapped line cannot be erased.
        width = shutil.get_terminal_size().columns - 1
        self.stream.write(f"\r\x1b[K{text[:width]}")
        self.stream.flush()

    def clear(self) -> None:
        if self.is_terminal:
            self.stream.write("\r\x1b[K")
