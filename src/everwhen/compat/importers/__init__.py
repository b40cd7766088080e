"""Importers of other schedulers' files as `everwhen.yaml`, with a list of differences.

No file is executed, except the module that holds a scheduler object, which the user names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from everwhen.errors import ConfigError
from everwhen.model.kinds import NAME

MOST_ENTRIES = 20_000  # schedules of one import
MOST_FILES, MOST_LEVELS = 1_000, 20  # that files name
_OTHER = re.compile(r"[^a-z0-9]+")


@dataclass(slots=True)
class Imported:
    """Sections of an everwhen.yaml, and notes on what differs, in the order of the file."""

    document: dict[str, Any] = field(default_factory=dict)
    noted: dict[str, None] = field(default_factory=dict)

    @property
    def notes(self) -> list[str]:
        return list(self.noted)

    def note(self, text: str) -> None:
        """Add a note, once."""
        self.noted[text] = None
        if len(self.noted) > MOST_ENTRIES:
            raise ConfigError(f"there is more than {MOST_ENTRIES:,} times something to note; split the file")

    def add_schedule(self, schedule: Mapping[str, Any]) -> None:
        schedules = self.document["schedules"]
        if len(schedules) >= MOST_ENTRIES:
            raise ConfigError(f"there are more than {MOST_ENTRIES:,} entries; split the file")
        schedules.append(schedule)

    def note_others(
        self, keys: Iterable[str], known: Collection[str], place: str = "", why: str = ""
    ) -> None:
        """Note the keys that are left out, because they are not among the known ones."""
        for key in keys:
            if key not in known:
                self.note(f"{place}{key}: left out{why}")


def merged(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two documents: mappings are joined key by key, everything else is replaced.

    >>> merged({"a": {"b": 1, "c": 2}, "d": [1]}, {"a": {"b": 3}, "d": [2]})
    {'a': {'b': 3, 'c': 2}, 'd': [2]}
    """
    found = dict(under)
    for key, value in over.items():
        below = found.get(key)
        if isinstance(below, Mapping) and isinstance(value, Mapping):
            found[key] = merged(below, value)
        else:
            found[key] = value
    return found


class IncludedFiles:
    """The files that a file names, and those that these name: so many at most, and so deep."""

    def __init__(self, read: Callable[[str], Any]) -> None:
        self._read, self._count = read, 0

    def read(self, path: str, level: int) -> Any:
        """Return the document of a file; `level`: how many files name one another up to it."""
        self._count += 1
        if level > MOST_LEVELS:
            raise ConfigError(f"{path}: is named over more than {MOST_LEVELS} files; does it name itself?")
        if self._count > MOST_FILES:
            raise ConfigError(f"{path}: more than {MOST_FILES:,} files are named")
        return self._read(path)


class Names:
    """Ids that are derived from any text, each used once."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._last: dict[str, int] = {}  # the number behind the id that was taken last

    def keep(self, name: str) -> str:
        """Return the name itself where it is an unused id, else an id like it.

        >>> names = Names()
        >>> names.keep("Back_up"), names.keep("Back_up"), names.keep("back up")
        ('Back_up', 'back-up', 'back-up-2')
        """
        if not NAME.fullmatch(name) or name in self._taken:
            return self.take(name)
        self._taken.add(name)
        return name

    def take(self, wish: str, fallback: str = "job") -> str:
        """Return an unused id.

        >>> names = Names()
        >>> names.take("/usr/bin/Back up.sh"), names.take("usr bin back up sh")
        ('usr-bin-back-up-sh', 'usr-bin-back-up-sh-2')
        """
        base = _OTHER.sub("-", wish.lower()).strip("-")[:60].strip("-") or fallback
        name, number = base, self._last.get(base, 1)
        while name in self._taken:
            number += 1
            name = f"{base}-{number}"
        self._last[base] = number
        self._taken.add(name)
        return name


# -- imported schedules of Python functions as a program: calls of `Scheduler.add` --


def written_as_python(schedules: Sequence[Mapping[str, Any]], timezone: str | None = None) -> list[str]:
    """Return the lines of a program that adds the schedules; `timezone` is the zone of those that name none.

    >>> run = {"python": "shop.tasks:greet", "args": ["Ada"]}
    >>> print(*written_as_python([{"id": "greet", "every": "5m", "run": run}], "Europe/Paris"), sep="\\n")
    import shop.tasks
    from everwhen import Scheduler
    <BLANKLINE>
    scheduler = Scheduler("sqlite:///everwhen.db", name="app", timezone="Europe/Paris")
    scheduler.add(
        'greet',
        shop.tasks.greet,
        every='5m',
        args=['Ada'],
        replace_existing=True,
    )
    """
    modules = sorted({_module_of(schedule) for schedule in schedules if not _is_isolated(schedule)})
    lines = [*(f"import {module}" for module in modules), "from everwhen import Scheduler", ""]
    zone = "" if timezone is None else f', timezone="{timezone}"'
    lines.append(f'scheduler = Scheduler("sqlite:///everwhen.db", name="app"{zone})')
    for schedule in schedules:
        lines += ["scheduler.add(", *(f"    {part}," for part in _parts(schedule)), ")"]
    return lines


def _parts(schedule: Mapping[str, Any]) -> list[str]:
    keys = {key: value for key, value in schedule.items() if key not in ("id", "run")}
    run, parts = schedule["run"], [repr(schedule["id"])]
    if _is_isolated(schedule):
        keys["run"] = run  # `add` has no other key for a separate process
    else:
        parts.append(run["python"].replace(":", "."))
        keys |= {name: run[name] for name in ("args", "kwargs") if name in run}
    return [*parts, *(f"{key}={value!r}" for key, value in keys.items()), "replace_existing=True"]


def _is_isolated(schedule: Mapping[str, Any]) -> bool:
    return bool(schedule["run"].get("isolate"))


def _module_of(schedule: Mapping[str, Any]) -> str:
    module, _, _ = schedule["run"]["python"].partition(":")
    return str(module)
