"""The types of a schedule's keys for Python: `scheduler/schedule_options.py`, from the rows of `model/fields.py`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from everwhen.model.fields import GENERAL, TRIGGER_KEYS, Field
from everwhen.model.kinds import Either, Key, Kind, Record
from everwhen.model.scalars import Flag, Number, Only, Parsed, Text, Word

PATH = Path("src/everwhen/scheduler/schedule_options.py")

_OPTIONS = '''"""The keys of a schedule, for type checkers and readers.

`python -m tools.reference` writes this file from `model/fields.py`; do not edit it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, tzinfo
from typing import Any, Literal, Required, TypedDict

Duration = str | timedelta
Instant = str | datetime
TimeZone = str | tzinfo
'''


def options_text() -> str:
    """Return the content of `scheduler/schedule_options.py`."""
    beside = (*TRIGGER_KEYS, "run")
    others = {name: row for name, row in GENERAL.items() if name not in beside}
    about = "The keys of a schedule beside its trigger and what it runs; the same as in a configuration file."
    parts = [_OPTIONS]
    parts += [_typed_dict(_camel(name), record, row.about) for name, row, record in records_in(others)]
    parts.append(_class("ScheduleOptions", "TypedDict", others, about))
    triggers = {name: GENERAL[name] for name in beside}
    parts.append(
        _class("TriggerOptions", "ScheduleOptions", triggers, "The keys of `add`: exactly one trigger.")
    )
    parts.append(_changes(others, triggers))
    return "\n\n".join(parts)


def _changes(others: Mapping[str, Key], triggers: Mapping[str, Key]) -> str:
    """Return the keys of `update`, where None clears a key; a schedule has a trigger and a target at any time."""
    about = "The keys of a change: those that are given; None clears a key."
    lines = ["class ScheduleChanges(TypedDict, total=False):", f'    """{about}"""', ""]
    lines += [f"    {key}: {_python(key, row.kind)} | None" for key, row in others.items()]
    lines += [f"    {key}: {_python(key, row.kind)}" for key, row in triggers.items()]
    return "\n".join(lines) + "\n"


def records_in(rows: Mapping[str, Field]) -> Iterator[tuple[str, Field, Record]]:
    """Return the rows whose value is a mapping, each with the keys of that mapping."""
    for name, row in rows.items():
        inner = row.kind.last if isinstance(row.kind, Either) else row.kind
        if isinstance(inner, Record):
            yield name, row, inner


def _typed_dict(name: str, record: Record, about: str) -> str:
    return _class(name, "TypedDict", record.keys, about)


def _class(name: str, base: str, keys: Mapping[str, Key], about: str) -> str:
    lines = [f"class {name}({base}, total=False):", f'    """{about}"""', ""]
    for key, row in keys.items():
        kind = _python(key, row.kind)
        lines.append(f"    {key}: {f'Required[{kind}]' if row.is_required and base == 'TypedDict' else kind}")
    return "\n".join(lines) + "\n"


def _python(name: str, kind: Kind) -> str:
    match kind:
        case Text() | Parsed():
            return kind.python
        case Flag():
            return "bool"
        case Number():
            return "int"
        case Word():
            return f"Literal[{', '.join(_quoted(word) for word in kind.fields)}]"
        case Only():
            return f"Literal[{kind.value!r}]"
        case Record():
            return _camel(name)
        case Either():
            inner = [*(one for _, one in kind.kinds), kind.last]
            return " | ".join(_python(name, one) for one in reversed(inner))
    return "Mapping[str, Any]"


def _quoted(word: str) -> str:
    return f'"{word}"'


def _camel(name: str) -> str:
    return name.title().replace("_", "")
