"""`schedule-keys.md`: the keys of a schedule, and of the targets that it runs."""

from __future__ import annotations

from typing import get_args

from everwhen.compat.body_shapes import SUBMISSION
from everwhen.config.target_fields import RUN, TARGET_KEYS
from everwhen.model.fields import FIELDS, GENERAL, Column
from everwhen.model.target_kinds import KINDS
from tools.reference.examples import SCHEDULE
from tools.reference.keys import default_text, key_table
from tools.reference.markdown import code, fence, prose, table
from tools.reference.markdown import page as make_page
from tools.reference.options import records_in

INTRODUCTION = """The same keys, with the same values, are taken in `everwhen.yaml`, over REST, by
`Scheduler.add` and its decorators, and by `everwhen schedules create`, where each is an option (`max_retries`
is `--max-retries`). [Configuration](configuration.md#how-values-are-written) says how durations, instants,
windows and other values are written; Python also takes a `timedelta` and a `datetime`. Exactly one of `every`,
`cron`, `at` and `after` says when."""
DEFAULTS = """Defaults belong to what a schedule runs, and to the shape of its body: those of plugins and agents
hold for every schedule that runs one, also in `schedules`, over REST and in Python."""
COLUMNS: dict[Column, str] = {
    "plugin": "plugins",
    "agent": "agents",
    "seconds": "bodies with `interval_seconds`",
    "spec": "bodies with `type` and `spec`",
}


def page() -> str:
    own = {name: row for name, row in FIELDS.items() if name not in GENERAL}
    return make_page(
        "The keys of a schedule",
        INTRODUCTION,
        fence("yaml", SCHEDULE),
        "## Every schedule",
        key_table(GENERAL),
        "## Schedules of plugins and agents only",
        key_table(own, sections=True),
        *(f"## Inside `{name}`\n\n{key_table(record.keys)}" for name, _, record in records_in(FIELDS)),
        "## Defaults by what a schedule runs",
        DEFAULTS,
        _defaults(),
        "## Inside `run`",
        "Exactly one kind of target. Installed packages can bring further kinds: [targets](../guide/targets.md).",
        *_targets(),
        "## Other keys of REST bodies",
        key_table({name: key for name, key in SUBMISSION.keys.items() if name not in GENERAL}),
    )


def _defaults() -> str:
    columns = get_args(Column)
    rows = []
    for name, row in FIELDS.items():
        if row.defaults:
            general = default_text(name, row) or "not set"
            rows.append((code(name), general, *(default_text(name, row, one) or general for one in columns)))
    return table(("key", "general", *(COLUMNS[column] for column in columns)), rows)


def _targets() -> list[str]:
    """Return a part for each kind: its keys inside `run: {KIND: {…}}`, or beside it in `run`."""
    found = []
    for name, kind in KINDS.items():
        keys = TARGET_KEYS[name].keys
        if kind.value is not None:
            keys = {one: RUN.keys[one] for one in (name, *kind.other_keys)}
        form = f"run: {{{name}: …}}" if kind.value is not None else f"run: {{{name}: {{{', '.join(keys)}}}}}"
        found += [f"### `{name}`", f"{prose(kind.about)} {code(form)}", key_table(keys)]
    return found
