"""`index.md`: what is on which page of the reference."""

from __future__ import annotations

from tools.reference.markdown import page as make_page
from tools.reference.markdown import table

PAGES = {
    "Configuration": (
        "configuration.md",
        "every section and key of `everwhen.yaml`, and how values are written",
    ),
    "The keys of a schedule": (
        "schedule-keys.md",
        "the same in files, over REST, in Python and on the command line",
    ),
    "Command line": ("command-line.md", "every command, with its arguments and options"),
    "REST": ("rest.md", "every call: its role, parameters, body and answers"),
    "Shapes of REST": ("rest-shapes.md", "every body and answer, field by field"),
    "Python": ("python.md", "every public name, with its signature"),
    "Events and reasons": ("events.md", "what is on record, and why a slot did not fire"),
    "Metrics": ("metrics.md", "for Prometheus"),
    "Environment": ("environment.md", "variables that are read, and those that a run gets"),
    "Exit codes": ("exit-codes.md", "of `everwhen`, and of what a schedule runs"),
    "Database": ("database.md", "tables, columns and indexes"),
    "What is stable": (
        "stability.md",
        "which of these parts stay as they are, and for how long; supported systems",
    ),
}


def page() -> str:
    rows = ((f"[{title}]({path})", about) for title, (path, about) in PAGES.items())
    return make_page(
        "Reference",
        "These pages are generated from the source of this release, except the last.",
        table(("page", "holds"), rows),
    )
