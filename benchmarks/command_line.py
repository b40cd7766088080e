"""B17: how long the command line takes to print its version and its help, compared with a minimal click program."""

from benchmarks.model import EVERWHEN, Benchmark, Contestant, Goal

CLICK = "bare click"


def starting(option: str) -> Benchmark:
    return Benchmark(
        number="B17",
        what=f"`everwhen --{option}`, wall time of the process",
        contestants=(
            Contestant(EVERWHEN, "benchmarks.workers.commands", ("everwhen", option)),
            Contestant(CLICK, "benchmarks.workers.commands", ("click", option)),
        ),
        parts=5,
        goals=(Goal(against=CLICK, at_most=2),),
    )


BENCHMARKS = (starting("version"), starting("help"))
