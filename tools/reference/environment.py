"""`environment.md` and `exit-codes.md`."""

from __future__ import annotations

from collections.abc import Iterator

from everwhen.cli import exit_codes
from everwhen.config.schema import API, SERVICE
from everwhen.config.settings import API_PREFIX, PREFIX
from everwhen.model import variables
from everwhen.model.kinds import Record, Refused
from everwhen.targets.command import EXIT_MEANINGS
from everwhen.targets.process import SAFE_BASE
from tools.reference.markdown import code, prose, table
from tools.reference.markdown import page as make_page


def variables_page() -> str:
    base = ", ".join(code(name) for name in (*SAFE_BASE, "LC_*"))
    return make_page(
        "Environment",
        "An option of a command overrides its variable, and a variable overrides the configuration file.",
        "## Variables that everwhen reads",
        table(
            ("variable", "meaning"), ((code(name), prose(about)) for name, about in variables.READ.items())
        ),
        "## Variables of configuration keys",
        "Every key of the sections `service` and `api` has one. [Configuration](configuration.md) has "
        "their values and defaults.",
        table(
            ("variable", "key", "meaning"),
            [*twins("service", SERVICE, PREFIX), *twins("api", API, API_PREFIX)],
        ),
        "## Variables that a run gets",
        f"Commands, plugins and agents get these, what `env` lists, and of the node's own environment only {base}.",
        table(("variable", "meaning"), ((code(name), prose(about)) for name, about in variables.SET.items())),
    )


def twins(path: str, record: Record, prefix: str) -> Iterator[tuple[str, str, str]]:
    """Return the variables of the keys of a section."""
    for name, key in record.keys.items():
        if isinstance(key.kind, Record):
            yield from twins(f"{path}.{name}", key.kind, f"{prefix}{name.upper()}_")
        elif not isinstance(key.kind, Refused):
            yield code(f"{prefix}{name.upper()}"), code(f"{path}.{name}"), prose(key.about)


def exit_codes_page() -> str:
    ours = ((code(str(number)), prose(about)) for number, about in exit_codes.MEANINGS.items())
    theirs = ((code(word), prose(about)) for word, about in EXIT_MEANINGS.items())
    return make_page(
        "Exit codes",
        "## Of `everwhen`",
        table(("code", "meaning"), ours),
        "A reader that goes away (`everwhen audit | head -1`) changes no exit code.",
        "## Of what a schedule runs",
        "What the exit code of a command, a plugin or an agent means for its job. A plugin that "
        "answered in its protocol is judged by its answer; only 78 counts beside it.",
        table(("code", "meaning"), theirs),
    )
