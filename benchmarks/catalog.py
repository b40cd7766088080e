"""Every benchmark there is, in the order of the table. A new theme: a module of its own, and a line here."""

from benchmarks import command_line, cron_next
from benchmarks.model import Benchmark

BENCHMARKS: tuple[Benchmark, ...] = (
    *cron_next.BENCHMARKS,
    *command_line.BENCHMARKS,
)
