"""All benchmarks, in the order of the table. A new theme needs a separate module and a line here."""

from benchmarks import (
    command_line,
    cron_next,
    firing,
    functions,
    handing_over,
    idle,
    lag,
    loading,
    recovery,
    rest,
    restart,
    second_node,
    simulating,
    storage,
    way,
    working,
)
from benchmarks.model import Benchmark

BENCHMARKS: tuple[Benchmark, ...] = tuple(
    sorted(
        (
            *cron_next.BENCHMARKS,
            *loading.BENCHMARKS,
            *idle.BENCHMARKS,
            *firing.BENCHMARKS,
            *functions.BENCHMARKS,
            *lag.BENCHMARKS,
            *restart.BENCHMARKS,
            *second_node.BENCHMARKS,
            *working.BENCHMARKS,
            *handing_over.BENCHMARKS,
            *command_line.BENCHMARKS,
            *rest.BENCHMARKS,
            *recovery.BENCHMARKS,
            *simulating.BENCHMARKS,
            *storage.BENCHMARKS,
            *way.BENCHMARKS,
        ),
        key=lambda benchmark: int(benchmark.number[1:]),
    )
)
