"""The generated files of the repository: `docs/reference/`, and the types of a schedule's keys for Python.

`python -m tools.reference` (`make reference`) writes them from the tables of the source; `tests/docs/test_reference.py`
fails when one of them is not what the source says.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tools.reference import (
    command_line,
    configuration,
    database,
    environment,
    events,
    index,
    metrics,
    options,
    python,
    rest,
    schedule_keys,
)

ROOT = Path(__file__).parents[2]
REFERENCE = Path("docs/reference")
PAGES: dict[str, Callable[[], str]] = {
    "index.md": index.page,
    "configuration.md": configuration.page,
    "schedule-keys.md": schedule_keys.page,
    "rest.md": rest.calls_page,
    "rest-shapes.md": rest.shapes_page,
    "command-line.md": command_line.page,
    "python.md": python.page,
    "events.md": events.page,
    "metrics.md": metrics.page,
    "database.md": database.page,
    "exit-codes.md": environment.exit_codes_page,
    "environment.md": environment.variables_page,
}
FILES: dict[Path, Callable[[], str]] = {
    options.PATH: options.options_text,
    **{REFERENCE / name: page for name, page in PAGES.items()},
}


def write(root: Path = ROOT) -> None:
    """Write every generated file below a tree."""
    for path, text in FILES.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text(), encoding="utf-8")
