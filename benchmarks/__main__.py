"""The command line of `python -m benchmarks`: chooses, measures, writes the results.

It ends with 1 where a contestant failed: a ratio that is missing must not look like one that was not asked for.
"""

import argparse
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.catalog import BENCHMARKS
from benchmarks.charts import draw, picture_of
from benchmarks.children import measure
from benchmarks.comparison import beside
from benchmarks.model import DATABASES, Benchmark
from benchmarks.progress import Progress
from benchmarks.report import Run, as_json, as_markdown
from benchmarks.rounds import FEWEST_ROUNDS, Measurements
from benchmarks.summary import Summary, summarize

RESULTS = Path(__file__).parent / "results"
PARTIAL = Path(__file__).parents[1] / ".bench" / "results"  # partial or quick results never replace the table
USUAL_ROUNDS = 15
QUICK_ROUNDS = 3  # to check that everything runs; too few for a reliable median


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    rounds = options.rounds or (QUICK_ROUNDS if options.quick else USUAL_ROUNDS)
    progress = Progress(sys.stderr)
    run = Run(started_at=datetime.now(UTC), rounds=rounds, is_quick=options.quick)
    chosen_ones = [one for one in options.only if options.database in (None, one.database)]
    if options.against:
        chosen_ones = [beside(one, options.against) for one in chosen_ones]
    measured = [
        measure(benchmark, rounds=rounds, is_quick=options.quick, progress=progress)
        for benchmark in chosen_ones
    ]
    summaries = [summarize(measurements) for measurements in measured]
    is_whole = chosen_ones == list(BENCHMARKS) and not options.quick
    folder = RESULTS if is_whole else PARTIAL
    write(folder, run, summaries)
    results = folder / "latest.json"
    draw(results, picture_of(results) if is_whole else results.with_suffix(".svg"))
    print(as_markdown(run, summaries))
    failures = [failure for measurements in measured for failure in failures_of(measurements)]
    for failure in failures:
        progress.say(failure)
    return 1 if failures else 0


def failures_of(measurements: Measurements) -> list[str]:
    """Return a line for each contestant that was not measured: such a run has failed, whatever the others show."""
    number = measurements.benchmark.number
    return [f"{number}: {name} failed: {reason}" for name, reason in measurements.absent.items()]


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Measure everwhen and its peers."
    )
    parser.add_argument(
        "--only", type=chosen, default=BENCHMARKS, metavar="B1,B17", help="measure these numbers alone"
    )
    parser.add_argument("--database", choices=DATABASES, help="measure on this one alone")
    parser.add_argument("--rounds", type=enough_rounds, help=f"interleaved rounds (usually {USUAL_ROUNDS})")
    parser.add_argument("--quick", action="store_true", help="three rounds, smaller loads")
    parser.add_argument(
        "--against",
        type=checkout,
        metavar="FOLDER",
        help="measure another checkout beside this one, and no peers",
    )
    return parser.parse_args(arguments)


def chosen(text: str) -> tuple[Benchmark, ...]:
    wanted = {number.strip().upper() for number in text.split(",")}
    known = {benchmark.number for benchmark in BENCHMARKS}
    if unknown := wanted - known:
        names = ", ".join(sorted(known, key=lambda number: int(number[1:])))
        raise argparse.ArgumentTypeError(f"no benchmark {', '.join(sorted(unknown))}; there are {names}")
    return tuple(benchmark for benchmark in BENCHMARKS if benchmark.number in wanted)


def checkout(text: str) -> Path:
    folder = Path(text).resolve()
    if not (folder / ".venv" / "bin" / "python").exists():
        raise argparse.ArgumentTypeError(f"{text} has no environment; run `make check` there first")
    return folder


def enough_rounds(text: str) -> int:
    if not text.isdigit() or int(text) < FEWEST_ROUNDS:
        raise argparse.ArgumentTypeError(f"at least {FEWEST_ROUNDS} rounds: fewer give no median to trust")
    return int(text)


def write(folder: Path, run: Run, summaries: Sequence[Summary]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "latest.json").write_text(as_json(run, summaries), encoding="utf-8")
    (folder / "latest.md").write_text(as_markdown(run, summaries), encoding="utf-8")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
