"""`configuration.md`: every section of `everwhen.yaml`, and how values are written."""

from __future__ import annotations

from collections.abc import Iterator

from everwhen.config.schema import AGENT_SCHEDULE, COST, PLUGIN_SCHEDULE, SCHEDULE, SECTIONS, SHARE
from everwhen.config.target_fields import RUN, TARGET_KEYS
from everwhen.model.fields import FIELDS
from everwhen.model.kinds import Either, Kind, ListOf, MapOf, Record
from everwhen.model.values import DATE, DURATION, INSTANT, NAME_TEXT, NETWORK, SIZE, WEEKDAYS, WINDOW, ZONE
from tools.reference.examples import FILES
from tools.reference.keys import key_table
from tools.reference.markdown import code, fence, flow, prose, table
from tools.reference.markdown import page as make_page

INTRODUCTION = """`everwhen.yaml` is found through `--config`, then `EVERWHEN_CONFIG`, then in the current
directory. `everwhen config check` names every mistake with its line and its cure, `config show` prints the file
with all defaults, and `config schema` prints a JSON Schema for editors. The [guide](../guide/configuration.md)
explains how a file is loaded and reloaded.

A key of `service` and `api` has a [variable in the environment](environment.md), which overrides the file.
Anywhere in the file
`${NAME}` is replaced by a variable of the environment, `${NAME:-default}` by the default where the variable is
not set or empty, and `$${NAME}` is the text itself."""

# What a value is called, its kind, examples, and its rules.
VALUES: tuple[tuple[str, Kind, tuple[object, ...], str], ...] = (
    (
        "a duration",
        DURATION,
        ("30s", "5m", "1h30m", "7d", 90),
        "Numbers with the units `s`, `m`, `h` and `d`, or a whole number of seconds; 0 means none, where it is taken.",
    ),
    (
        "an interval (`every`)",
        FIELDS["every"].kind,
        ("5m", "hourly", "daily", "weekly", "monthly"),
        "A duration or a word.",
    ),
    (
        "a cron expression",
        FIELDS["cron"].kind,
        ("0 2 * * *", "*/15 8-18 * * mon-fri", "@daily"),
        "Minute, hour, day of the month, month and weekday, or a shortcut. `everwhen next EXPRESSION` explains one.",
    ),
    (
        "an instant",
        INSTANT,
        ("2026-12-24T18:00:00+01:00", "2026-12-24T17:00:00Z", "2026-12-24T18:00:00"),
        "ISO 8601. A time without an offset is in the schedule's time zone.",
    ),
    (
        "a time zone",
        ZONE,
        ("UTC", "Europe/Berlin", "local"),
        "An IANA name, or `local`: the zone of the machine.",
    ),
    (
        "a window",
        WINDOW,
        ("08:00-18:00", "22:00-07:00", "00:00-24:00"),
        "Hours and minutes of the wall clock, the end excluded. One that passes midnight belongs to its first day.",
    ),
    (
        "weekdays",
        WEEKDAYS,
        ("saturday", ["sat", "sun"], [6, 0]),
        "One or a list: names, their first three letters, or numbers from 0 (Sunday) to 6; 7 is Sunday, too.",
    ),
    (
        "a date",
        DATE,
        ("2026-12-25",),
        "A whole day in the time zone of the quiet hours; `{from, to}` is a range of days.",
    ),
    ("a size", SIZE, ("64KiB", "16MiB", 4096), "With `B`, `KiB`, `MiB` or `GiB`, or a number of bytes."),
    (
        "a cost",
        COST,
        ("5 USD", "0.50 EUR", "2000000 TOKENS"),
        "An amount and a unit of 3 to 12 capital letters. All limits of one budget have the same unit.",
    ),
    ("a share", SHARE, ("50%", 25), "Per cent, from 0 to 100."),
    ("a network", NETWORK, ("10.0.0.0/8", "127.0.0.1"), "An address, or a network with its prefix."),
    (
        "a name",
        NAME_TEXT,
        ("nightly-backup",),
        "At most 100 letters, digits, `-` and `_`, beginning with a letter or digit.",
    ),
    (
        "jitter",
        FIELDS["jitter"].kind,
        ("30s", "5%"),
        "A duration, or a share of the interval; smaller than the interval.",
    ),
)
# Sections whose keys need more words than a line about each.
NOTES = {
    "quiet_hours": "A policy has a name of your choice, which schedules set as `quiet_hours`. It closes its "
    "`windows` (hours of certain days) and its `dates` (whole days). `action` says what happens to a "
    "slot in a closed time. Schedules may also have hours of their own: `only_between` and `not_on`.",
    "budgets": "A budget has the name of a group (a plugin, an agent or a workflow), or `owner:` and the name of "
    "an owner. Every limit of every budget that a schedule belongs to has to allow a slot. The "
    "[guide](../guide/budgets.md) explains how runs report their cost.",
    "workflows": "The name of a workflow is the `workflow_id` of REST bodies and the `id` of `run: {workflow: …}`. "
    "Its `run` is what a slot starts. Schedules of workflows stand in `schedules`, or come over REST.",
    "plugins": "The [guide](../guide/plugins.md) explains how a plugin is written.",
    "agents": "The [guide](../guide/agents.md) explains prompts, work items and self-scheduling.",
    "messages": "The [guide](../guide/messages.md) shows what a subscriber receives.",
    "notify": "Exactly one of `http`, `email`, `command` and `apprise` says where to. The "
    "[guide](../guide/alerts.md) explains which events become alerts, and how they are grouped.",
    "include": "Further files have all sections but `service`, `api` and `include`.",
    "schedules": "All keys are on [their own page](schedule-keys.md).",
}
GROUPS = ("plugins", "agents", "workflows")  # their keys are those of schedules, with defaults of their own
ON_OTHER_PAGE = (SCHEDULE, PLUGIN_SCHEDULE, AGENT_SCHEDULE, RUN, *TARGET_KEYS.values())
_OF_SCHEDULES = {name for name, row in FIELDS.items() if isinstance(row.kind, Record | Either)}


def page() -> str:
    sections = [part for name in SECTIONS for part in _section(name)]
    listed = table(
        ("section", "holds"),
        ((f"[{code(name)}](#{name})", prose(key.about)) for name, key in SECTIONS.items()),
    )
    return make_page(
        "Configuration",
        INTRODUCTION,
        "## Sections",
        listed,
        *sections,
        "## How values are written",
        _values(),
    )


def _section(name: str) -> Iterator[str]:
    key = SECTIONS[name]
    yield f"## `{name}`"
    yield prose(key.about)
    yield NOTES.get(name, "")
    yield fence("yaml", FILES[name])
    for path, record in records_of(name, key.kind):
        if record not in ON_OTHER_PAGE:
            yield f"### Inside `{path}`" if path != name else ""
            yield key_table(record.keys, group=name.removesuffix("s") if name in GROUPS else "")
    if name in ("plugins", "agents"):
        yield "The keys of its schedules are on [their own page](schedule-keys.md)."


def records_of(path: str, kind: Kind) -> Iterator[tuple[str, Record]]:
    """Return the mappings inside a kind, each with its path; keys of schedules are not followed."""
    match kind:
        case Record():
            yield path, kind
            for name, key in kind.keys.items():
                if kind not in ON_OTHER_PAGE and key.kind not in ON_OTHER_PAGE and name not in _OF_SCHEDULES:
                    yield from records_of(f"{path}.{name}", key.kind)
        case ListOf():
            yield from records_of(f"{path}[]" if path.count(".") or path != "budgets" else path, kind.kind)
        case MapOf():
            yield from records_of(f"{path}.NAME", kind.kind)
        case Either():
            for _, one in kind.kinds:
                yield from records_of(path, one)
            yield from records_of(path, kind.last)


def _values() -> str:
    rows = (
        (name, ", ".join(code(flow(one)) for one in examples), rule) for name, _, examples, rule in VALUES
    )
    return table(("value", "examples", "rules"), rows)
