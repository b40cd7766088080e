"""Tables of keys: what each may be, its default, what it means, and an example."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from everwhen.config.schema import COST, SHARE
from everwhen.model.fields import FIELDS, THE_INTERVAL, Field
from everwhen.model.kinds import Anything, Either, Headers, Key, Kind, ListOf, MapOf, Object, Record, Refused
from everwhen.model.scalars import AnyText, Flag, Number, Only, Parsed, Text, Word
from everwhen.model.values import (
    ARGV,
    DATE,
    NETWORK,
    PERCENT_OR_DURATION,
    QUIET_DAYS,
    SCALAR,
    SIZE,
    URL,
    WEEKDAYS,
    WINDOW,
)
from tools.reference.examples import example_of, examples_in
from tools.reference.markdown import code, flow, prose, table

MOST_WORDS = 12  # choices in a cell
_NAMED = {
    "Duration": "a duration",
    "Duration | int": "a duration",
    "TimeZone": "a time zone",
    "Instant": "an instant",
}
_KINDS: tuple[tuple[Kind, str], ...] = (
    (DATE, "a date"),
    (WINDOW, "a window"),
    (SIZE, "a size"),
    (NETWORK, "a network"),
    (WEEKDAYS, "weekdays"),
    (QUIET_DAYS, "weekdays"),
    (COST, "a cost"),
    (SHARE, "a share"),
    (FIELDS["cron"].kind, "a cron expression"),
    (FIELDS["every"].kind, "an interval"),
    (PERCENT_OR_DURATION, "a duration or a percentage"),
    (ARGV, "a program and its arguments, as a list"),
    (SCALAR, "text, a number, `true` or `false`"),
)
# Defaults of groups that are not one value, or that come from another place than the table of keys.
OF_GROUPS = {
    ("plugin", "timeout"): "that of the command in `timeouts`, else `10m`",
    ("plugin", "max_concurrent"): "no limit; `1` where the manifest says `concurrency_safe: false`",
    ("workflow", "timeout"): "`10m`",
}


def key_table(keys: Mapping[str, Key], *, sections: bool = False, group: str = "") -> str:
    """Return the table of some keys; with `sections`, where each may stand; with the defaults of a kind of group."""
    columns = ("key", "value", "default", "in", "meaning")
    return table(columns, (_row(name, key, sections, group) for name, key in keys.items()))


def _row(name: str, key: Key, sections: bool, group: str) -> tuple[str, ...]:
    where = ", ".join(key.sections) if sections and isinstance(key, Field) else ""
    if isinstance(key.kind, Refused):
        return code(name), "", "", where, prose(f"No longer taken: {key.kind.message}.")
    return (
        code(name),
        "a target, see below" if key is FIELDS["run"] else value_text(key.kind),
        default_text(name, key, group),
        where,
        prose(key.about) + "".join(_meanings(key.kind)) + _example(name, key),
    )


def _meanings(kind: Kind) -> Iterator[str]:
    if isinstance(kind, Word):
        for word, meaning in kind.meanings.items():
            yield f"<br>{code(word)}: {prose(meaning)}."


def _example(name: str, key: Key) -> str:
    value = example_of(name, key)
    return "" if value is None else f"<br>Example: {code(f'{name}: {flow(value)}')}"


def default_text(name: str, key: Key, group: str = "") -> str:
    """Return the default of a key, in words where it is not one value; `group` is what the schedule runs."""
    if key.is_required:
        return "required"
    if (group, name) in OF_GROUPS:
        return OF_GROUPS[group, name]
    of_groups = {str(name): value for name, value in key.defaults.items()} if isinstance(key, Field) else {}
    if of_groups.get(group) is not None:
        return shown(of_groups[group])
    return shown(key.default) or (key.otherwise if isinstance(key, Field) else "")


def shown(value: Any) -> str:
    """Return a default as code; nothing for None."""
    if value is THE_INTERVAL:
        return "the interval"
    return "" if value is None else code(flow(value))


def value_text(kind: Kind) -> str:
    """Return what a value may be, in a few words."""
    named = _name_of(kind)
    if named is not None and not isinstance(kind, Parsed):
        return named
    match kind:
        case Word():
            few = [code(word) for word in kind.fields[:MOST_WORDS]]
            return ", ".join([*few, "…"] if len(kind.fields) > MOST_WORDS else few)
        case Number() if kind.most < 2**31:
            return f"{kind.least:,} to {kind.most:,}"
        case Number():
            return f"a whole number from {kind.least} on"
        case Flag():
            return "`true`, `false`"
        case Only():
            return shown(kind.value)
        case Parsed():
            return _parsed(kind)
        case Text() if kind is URL:
            return "a URL"
        case Text() | AnyText():
            return "text"
        case Record():
            return code(f"{{{', '.join(kind.keys)}}}") if len(kind.keys) < 7 else "a mapping, see below"
        case Either() if isinstance(kind.last, ListOf) and [one for _, one in kind.kinds] == [kind.last.kind]:
            return f"{value_text(kind.last.kind)}, or a list of them"
        case Either():
            return " or ".join(value_text(one) for one in (kind.last, *(one for _, one in kind.kinds)))
        case Object():
            return f"an object of at most {kind.most_bytes >> 10} KiB"
        case ListOf():
            return f"a list of {value_text(kind.kind)}" if not _is_large(kind.kind) else "a list, see below"
        case MapOf() | Headers():
            return "a mapping" if not _is_large(kind.kind) else "a mapping of names, see below"
        case Anything():
            return "anything"
    return "anything"


def _name_of(kind: Kind) -> str | None:
    return next((name for known, name in _KINDS if kind == known), None)


def _is_large(kind: Kind) -> bool:
    return isinstance(kind, Record) and len(kind.keys) > 6


def _parsed(kind: Parsed) -> str:
    also = [code(value) for value in kind.also if isinstance(value, str)][:1]
    named = _name_of(kind) or _NAMED.get(kind.python)
    shapes = [code(flow(one)) for one in examples_in(kind.schema())] or ["text"]
    return " or ".join([named or ", ".join(shapes), *also])
