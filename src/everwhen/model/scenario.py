"""Scenarios: how runs behave where nothing runs really."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from zlib import crc32

from everwhen.model.instants import SECOND
from everwhen.model.job import Job
from everwhen.model.outcome import SUCCEEDED, Outcome

_WHOLE = 1 << 32
_FAILED = Outcome("failed", error="so the scenario says")


@dataclass(frozen=True, slots=True)
class Behaviour:
    """How long a run takes, from the shortest to the longest, and which share of the runs fails."""

    shortest: int = SECOND
    longest: int = SECOND
    failing: float = 0.0

    def of(self, job: Job) -> tuple[int, Outcome]:
        """The same for the same job on every run: chance comes from its name."""
        chance = crc32(job.job_id.encode())
        duration = self.shortest + (self.longest - self.shortest) * chance // _WHOLE
        return duration, _FAILED if crc32(b"fails", chance) < self.failing * _WHOLE else SUCCEEDED


@dataclass(frozen=True, slots=True)
class Scenario:
    """Behaviour by schedule id or pattern, the first that fits; and spans in which nothing runs at all."""

    default: Behaviour = field(default_factory=Behaviour)
    patterns: Mapping[str, Behaviour] = field(default_factory=dict)
    outages: Sequence[tuple[int, int]] = ()

    def behaviour(self, schedule_id: str) -> Behaviour:
        fitting = (b for pattern, b in self.patterns.items() if fnmatchcase(schedule_id, pattern))
        return next(fitting, self.default)
