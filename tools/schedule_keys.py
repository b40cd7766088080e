"""Write the files that follow from the keys of a schedule, the rows of `src/everwhen/model/fields.py`.

Run `python tools/schedule_keys.py` after a change of a row; `tests/model/test_one_table.py` compares the files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

from everwhen.compat.body_shapes import SUBMISSION
from everwhen.model.fields import FIELDS, GENERAL, THE_INTERVAL, TRIGGER_KEYS, Column, Field
from everwhen.model.kinds import Either, Key, Kind, ListOf, MapOf, Object, Record
from everwhen.model.scalars import Flag, Number, Only, Parsed, Text, Word

ROOT = Path(__file__).parents[1]
OPTIONS = Path("src/everwhen/scheduler/schedule_options.py")
REFERENCE = Path("docs/reference/schedule-keys.md")

# -- the types for Python --

_OPTIONS = '''"""The keys of a schedule, for type checkers and readers.

`tools/schedule_keys.py` writes this file from `model/fields.py`; do not edit it.
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
    parts += [_typed_dict(_camel(name), record, row.about) for name, row, record in _records(others)]
    parts.append(_class("ScheduleOptions", "TypedDict", others, about))
    triggers = {name: GENERAL[name] for name in beside}
    parts.append(
        _class("TriggerOptions", "ScheduleOptions", triggers, "The keys of `add`: exactly one trigger.")
    )
    return "\n\n".join(parts)


def _records(rows: Mapping[str, Field]) -> Iterator[tuple[str, Field, Record]]:
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


# -- the page of the documentation --

_REFERENCE = """# The keys of a schedule

`tools/schedule_keys.py` writes this page from `src/everwhen/model/fields.py`. The same keys, with the same values, are
taken in `everwhen.yaml`, over REST, by `Scheduler.add` and its decorators, and by `everwhen schedules create`, where
each is an option (`max_retries` is `--max-retries`).

A duration is text such as `30s`, `5m` or `1h30m`, or a whole number of seconds; Python takes a `timedelta`, too. An
instant is text such as `2026-12-24T18:00:00+01:00`; Python takes a `datetime`, too.
"""


def reference_text() -> str:
    """Return the content of `docs/reference/schedule-keys.md`."""
    own = {name: row for name, row in FIELDS.items() if name not in GENERAL}
    parts = [
        _REFERENCE,
        "## Every schedule\n\n" + _table(GENERAL),
        "## Schedules of plugins and agents only\n\n" + _table(own, has_section=True),
        *(f"## Inside `{name}`\n\n{_table(record.keys)}" for name, _, record in _records(FIELDS)),
        "## Other defaults\n\nDefaults belong to what a schedule runs, and to the shape of its body. Where a column is "
        "empty, the default above holds.\n\n" + _defaults(),
        "## Other keys of REST bodies\n\n"
        + _table({k: v for k, v in SUBMISSION.keys.items() if k not in GENERAL}),
    ]
    return "\n".join(parts)


def _table(keys: Mapping[str, Key], *, has_section: bool = False) -> str:
    lines = [
        f"| key | value | default |{' section |' if has_section else ''} |",
        f"|---|---|---|{'---|' * has_section}---|",
    ]
    for name, row in keys.items():
        where = f" {', '.join(row.sections)} |" if has_section and isinstance(row, Field) else ""
        default = "required" if row.is_required else _shown(row.default)
        default = default or (row.otherwise if isinstance(row, Field) else "")
        lines.append(f"| `{name}` | {_value(row.kind)} | {default} |{where} {row.about} |")
    return "\n".join(lines) + "\n"


def _defaults() -> str:
    columns = get_args(Column)
    names = {
        "plugin": "plugins",
        "agent": "agents",
        "seconds": "bodies with `interval_seconds`",
        "spec": "bodies with `type` and `spec`",
    }
    lines = [f"| key | {' | '.join(names[column] for column in columns)} |", f"|---|{'---|' * len(columns)}"]
    for name, row in FIELDS.items():
        if row.defaults:
            lines.append(
                f"| `{name}` | {' | '.join(_shown(row.defaults.get(column)) for column in columns)} |"
            )
    return "\n".join(lines) + "\n"


def _shown(value: Any) -> str:
    if value is THE_INTERVAL:
        return "the interval"
    if value is None:
        return ""
    if isinstance(value, dict):
        return f"`{{{', '.join(f'{key}: {item}' for key, item in value.items())}}}`"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _value(kind: Kind) -> str:
    match kind:
        case Word():
            return ", ".join(f"`{word}`" for word in kind.fields)
        case Number() if kind.most < 2**31:
            return f"{kind.least:,} to {kind.most:,}"
        case Number():
            return f"a whole number from {kind.least} on"
        case Flag():
            return "`true`, `false`"
        case Only():
            return _shown(kind.value)
        case Parsed():
            also = [f"`{value}`" for value in kind.also if isinstance(value, str)]
            return ", ".join([*(f"`{one}`" for one in _examples(kind.schema())), *also[:1]]) or "text"
        case Text():
            return f"text, such as {kind.example}" if kind.example else "text"
        case Record():
            return f"`{{{', '.join(kind.keys)}}}`"
        case Either():
            return " or ".join(_value(one) for one in (kind.last, *(one for _, one in kind.kinds)))
        case Object():
            return f"an object of at most {kind.most_bytes >> 10} KiB"
        case ListOf():
            return "a list"
        case MapOf():
            return "a mapping"
    return "one target: [targets](../guide/targets.md)"


def _examples(schema: dict[str, Any]) -> list[Any]:
    if "examples" in schema:
        return list(schema["examples"])
    return [found for inner in schema.get("anyOf", ()) for found in _examples(inner)][:3]


def write(root: Path = ROOT) -> None:
    """Write both files below a tree."""
    for path, text in ((OPTIONS, options_text()), (REFERENCE, reference_text())):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
