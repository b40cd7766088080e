"""B17: how long the command line takes to show its version and its help, against a bare click program. B19: the CPU
time of commands that read a database of this machine."""

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


def reading(words: str) -> Benchmark:
    what = words.replace(" ", "-")
    return Benchmark(
        number="B19",
        what=f"`everwhen {words}` on a local SQLite file, CPU time of the process",
        contestants=(
            Contestant(EVERWHEN, "benchmarks.workers.commands", ("everwhen", what)),
            Contestant(CLICK, "benchmarks.workers.commands", ("click", what)),
        ),
        parts=5,
        goals=(Goal(against=CLICK, at_most=3),),
    )


BENCHMARKS = (
    starting("version"),
    starting("help"),
    *map(reading, ("schedules list", "why", "jobs list", "system status")),
)
