"""Problems of a configuration: each with its file, line, path and remedy, all reported at once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from everwhen.errors import ConfigError, SubmissionError, shown
from everwhen.model.scalars import Severity

MOST_SUBMITTED = 100  # problems of one submission

Path = tuple[str | int, ...]


class Location(NamedTuple):
    """A place in a file; lines and columns count from 1, and line 0 means the file as a whole."""

    file: str
    line: int
    column: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake, or something that looks like one."""

    place: Location
    path: str
    message: str
    severity: Severity = "error"

    def __str__(self) -> str:
        return f"{self.place}: {f'{self.path}: ' if self.path else ''}{self.message}"


@dataclass(slots=True)
class Report:
    """The problems found so far."""

    found: list[Problem] = field(default_factory=list)
    trusted: dict[str, object] = field(default_factory=dict)  # schedules that were valid before, by id
    most: int | None = None  # for submissions: searching for more would be wasted work
    _spoiled: set[tuple[str, Path]] = field(default_factory=set)

    def add(self, place: Location, path: Path, message: str, severity: Severity = "error") -> None:
        if self.most is not None and len(self.found) >= self.most:
            said = {(problem.path, problem.message) for problem in self.errors}
            raise SubmissionError(said | {("", f"there are more problems; these are the first {self.most}")})
        self.found.append(Problem(place, path_text(path), message, severity))
        if severity == "error":
            self._spoiled.update((place.file, path[:length]) for length in range(len(path) + 1))

    def trusts(self, value: object) -> bool:
        """Return whether a general schedule is exactly equal to one that was valid at the last reading."""
        known = self.trusted.get(str(value.get("id"))) if isinstance(value, dict) else None
        # `==` is not enough: 1 equals true.
        return known is not None and (known is value or (known == value and repr(known) == repr(value)))

    def is_sound(self, file: str, path: Path) -> bool:
        """Return whether the value at a path, and everything inside it, is valid."""
        return (file, path) not in self._spoiled

    @property
    def has_errors(self) -> bool:
        return bool(self._spoiled)

    @property
    def errors(self) -> list[Problem]:
        return self._sorted("error")

    @property
    def warnings(self) -> list[Problem]:
        return self._sorted("warning")

    def _sorted(self, severity: Severity) -> list[Problem]:
        chosen = {problem for problem in self.found if problem.severity == severity}
        return sorted(chosen, key=lambda problem: (problem.place, problem.path, problem.message))

    def refuse(self, section: str | None = None) -> None:
        """Raise ConfigError with every error, one per line, if there is one.

        `section`: only the errors of the file as a whole, and of this section.
        """
        errors = [e for e in self.errors if section is None or _section(e.path) in ("", section)]
        if errors:
            raise ConfigError("\n".join(map(str, errors)))


def _section(path: str) -> str:
    return path.partition(".")[0].partition("[")[0]


def path_text(path: Path) -> str:
    """Format a path as users write it.

    >>> path_text(("plugins", "withings", "schedules", 0, "jitter"))
    'plugins.withings.schedules[0].jitter'
    """
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{shown(step)}"
    return text.removeprefix(".")
