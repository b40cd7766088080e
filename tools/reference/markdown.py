"""Markdown as the reference writes it: tables, code, and texts of the source whose characters must not be markup."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import yaml

GENERATED = "<!-- written by `python -m tools.reference` from the source; do not edit -->\n"


def page(title: str, *parts: str) -> str:
    """Return a page: its title, then its parts with empty lines between them."""
    return "\n\n".join((GENERATED + f"\n# {title}", *(part.strip("\n") for part in parts if part))) + "\n"


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; a column that is empty in every row is left out, and so is a table without rows."""
    cells = [[cell.replace("\n", " ").strip() for cell in row] for row in rows]
    if not cells:
        return ""
    used = [number for number in range(len(columns)) if number == 0 or any(row[number] for row in cells)]
    lines = [[columns[number] for number in used], ["---" for _ in used]]
    lines += [[row[number] for number in used] for row in cells]
    return "\n".join(f"| {' | '.join(line)} |".replace("|  |", "| |") for line in lines)


def code(text: str) -> str:
    """Return text as code, also inside a table.

    >>> code("a|b"), code("")
    ('`a\\\\|b`', '')
    """
    if not text:
        return ""
    ticks = "``" if "`" in text else "`"
    space = " " if "`" in text else ""
    return f"{ticks}{space}{text}{space}{ticks}".replace("|", "\\|")


def prose(text: str) -> str:
    """Return a sentence of the source as Markdown: code stays code, other characters mean themselves."""
    parts = re.split(r"(`[^`]*`)", " ".join(text.split()))
    return "".join(
        part.replace("|", "\\|") if part.startswith("`") else re.sub(r"([|<*])", r"\\\1", part)
        for part in parts
    )


def flow(value: Any) -> str:
    """Return a value as YAML on one line.

    >>> flow({"gap": "skip"}), flow("30s"), flow(True)
    ('{gap: skip}', '30s', 'true')
    """
    text: str = yaml.safe_dump(
        value, default_flow_style=True, width=10_000, sort_keys=False, allow_unicode=True
    )
    return text.removesuffix("\n").removesuffix("\n...")


def fence(language: str, text: str) -> str:
    return f"```{language}\n{text.strip()}\n```"
