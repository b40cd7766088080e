"""The declarations of a configuration, as values: the fields of each schedule, and their place in the file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from everwhen.model.schedule import Definition, QuietHoursPolicy, Target


@dataclass(frozen=True, slots=True)
class Declared:
    """A schedule as a file declares it; `place` is its file and line."""

    schedule_id: str
    fields: Mapping[str, Any]
    target: Target
    definition: Definition
    group: str | None = None
    place: str = ""

    @property
    def is_enabled(self) -> bool:
        return self.fields.get("enabled", True) is not False


@dataclass(frozen=True, slots=True)
class Declarations:
    """All declarations of a configuration, validated as a whole."""

    schedules: tuple[Declared, ...] = ()
    policies: tuple[QuietHoursPolicy, ...] = ()
    digest: str = ""
    warnings: tuple[str, ...] = ()
    sections: Mapping[str, str] = field(default_factory=dict)  # entries that declare no schedules, as JSON
