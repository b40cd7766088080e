"""The results as Markdown and as JSON. It computes nothing and does not identify the machine."""

import json
import os
import platform
import sqlite3
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from benchmarks.summary import LimitVerdict, Spread, Summary, Verdict

HEAD = "| # | what | goal | measured | ratio | met? |\n|---|---|---|---|---|---|"
MARKS = {True: "met", False: "**missed**", None: "—"}


@dataclass(frozen=True, slots=True)
class Run:
    started_at: datetime
    rounds: int
    is_quick: bool


def as_markdown(run: Run, summaries: Sequence[Summary]) -> str:
    sections = [
        "# Benchmarks, latest run",
        circumstances(run),
        "\n".join([HEAD, *(row for summary in summaries for row in rows(summary))]),
        tally(summaries),
        *(section for section in (notes(summaries), calibrations(summaries)) if section),
    ]
    return "\n\n".join(sections) + "\n"


def circumstances(run: Run) -> str:
    mode = " (quick: smaller loads)" if run.is_quick else ""
    return (
        f"{run.started_at:%Y-%m-%d}, {run.rounds} interleaved rounds{mode}, {os.cpu_count()} cores, "
        f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}. Costs are medians of the "
        "rounds (lowest–highest); ratios are taken within a round, then their median."
    )


def rows(summary: Summary) -> list[str]:
    return [
        *(row(summary, verdict) for verdict in summary.verdicts),
        *(limit_row(summary, verdict) for verdict in summary.limit_verdicts),
    ]


def row(summary: Summary, verdict: Verdict) -> str:
    cells = (
        summary.benchmark.number,
        summary.benchmark.what,
        goal_text(verdict),
        measured(summary, verdict),
        ratio_text(verdict),
        MARKS[verdict.is_met] if verdict.ratio else "not measured",
    )
    return line(cells)


def limit_row(summary: Summary, verdict: LimitVerdict) -> str:
    limit, amount = verdict.limit, verdict.amount
    cells = (
        summary.benchmark.number,
        summary.benchmark.what,
        limit.text,
        f"{summary.labels[limit.subject]} {amounts(amount)} {limit.unit}" if amount else "—",
        "—",
        MARKS[verdict.is_met] if amount else "not measured",
    )
    return line(cells)


def line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def amounts(spread: Spread) -> str:
    return f"{spread.median:.3g} ({spread.low:.3g}–{spread.high:.3g})"


def goal_text(verdict: Verdict) -> str:
    subject = verdict.goal.subject
    return verdict.goal.text if subject == "everwhen" else f"{subject}: {verdict.goal.text}"


def measured(summary: Summary, verdict: Verdict) -> str:
    names = (verdict.goal.subject, verdict.goal.against)
    if verdict.case and verdict.ratio:
        costs = (f"{name} {duration(summary.case_medians[name][verdict.case])}" for name in names)
        return f"worst case `{verdict.case}`: {', '.join(costs)}"
    known = (name for name in names if name in summary.costs)
    return ", ".join(f"{summary.labels[name]} {durations(summary.costs[name])}" for name in known) or "—"


def ratio_text(verdict: Verdict) -> str:
    if verdict.ratio is None:
        return "—"
    return f"{verdict.ratio.median:.2f} × ({verdict.ratio.low:.2f}–{verdict.ratio.high:.2f})"


def durations(spread: Spread) -> str:
    return f"{duration(spread.median)} ({duration(spread.low)}–{duration(spread.high)})"


def duration(seconds: float) -> str:
    """Format seconds with three significant digits, in a suitable unit.

    >>> duration(0.00000203), duration(0.0641), duration(2.5), duration(0.0004)
    ('2.03 µs', '64.1 ms', '2.5 s', '400 µs')
    """
    if seconds >= 1:
        return f"{seconds:.3g} s"
    if seconds >= 0.001:
        return f"{seconds * 1e3:.3g} ms"
    return f"{seconds * 1e6:.3g} µs"


def tally(summaries: Sequence[Summary]) -> str:
    verdicts = [verdict for summary in summaries for verdict in summary.verdicts]
    bound = [verdict.is_met for verdict in verdicts if verdict.goal.at_least or verdict.goal.at_most]
    limits = [verdict for summary in summaries for verdict in summary.limit_verdicts]
    bound += [one.is_met for one in limits if one.limit.at_most is not None or one.limit.at_least is not None]
    met, missed = bound.count(True), bound.count(False)
    return f"Goals met: {met} of {len(bound)}; missed: {missed}; not measured: {len(bound) - met - missed}."


def notes(summaries: Sequence[Summary]) -> str:
    lines = [
        f"- {summary.benchmark.number}, {summary.benchmark.what}: {note}"
        for summary in summaries
        for note in summary.notes
    ]
    return "\n".join(["## Notes", "", *lines]) if lines else ""


def calibrations(summaries: Sequence[Summary]) -> str:
    """Show the times of the calibration loop before each turn; a change means that the machine changed speed."""
    lines = [
        f"- {summary.benchmark.number}, {summary.benchmark.what}: "
        + ", ".join(f"{spread.median * 1e3:.1f}" for spread in summary.calibrations)
        for summary in summaries
        if summary.calibrations
    ]
    return "\n".join(["## Calibration loop, median of each round, ms", "", *lines]) if lines else ""


def as_json(run: Run, summaries: Sequence[Summary]) -> str:
    document = {
        "started_at": run.started_at.isoformat(),
        "rounds": run.rounds,
        "quick": run.is_quick,
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "cores": os.cpu_count(),
        "benchmarks": [as_document(summary) for summary in summaries],
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def as_document(summary: Summary) -> dict[str, Any]:
    return {
        "number": summary.benchmark.number,
        "what": summary.benchmark.what,
        "contestants": {
            name: {
                "label": summary.labels[name],
                "seconds": asdict(spread),
                "seconds_by_case": summary.case_medians[name],
            }
            for name, spread in summary.costs.items()
        },
        "goals": [
            {
                "subject": verdict.goal.subject,
                "text": verdict.goal.text,
                "ratio": asdict(verdict.ratio) if verdict.ratio else None,
                "met": verdict.is_met,
                "case": verdict.case or None,
            }
            for verdict in summary.verdicts
        ],
        "limits": [
            {
                "subject": verdict.limit.subject,
                "text": verdict.limit.text,
                "amount": asdict(verdict.amount) if verdict.amount else None,
                "met": verdict.is_met,
            }
            for verdict in summary.limit_verdicts
        ],
        "calibration_seconds": [asdict(spread) for spread in summary.calibrations],
        "notes": list(summary.notes),
    }
