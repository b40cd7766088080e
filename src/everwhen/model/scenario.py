"""Scenarios: the behaviour of runs in a simulation."""

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
    """The duration of a run, from the shortest to the longest, and the share of runs that fail."""

    shortest: int = SECOND
    longest: int = SECOND
    failing: float = 0.0

    def of(self, job: Job) -> tuple[int, Outcome]:
        """Return the duration and the outcome of a job. They are derived from its id, so every simulation agrees."""
        chance = crc32(job.job_id.encode())
        duration = self.shortest + (self.longest - self.shortest) * chance // _WHOLE
        return duration, _FAILED if crc32(b"fails", chance) < self.failing * _WHOLE else SUCCEEDED


@dataclass(frozen=True, slots=True)
class Scenario:
    """Behaviour by schedule id or pattern, where the first match wins, and outages in which nothing runs."""

    default: Behaviour = field(default_factory=Behaviour)
    patterns: Mapping[str, Behaviour] = field(default_factory=dict)
    outages: Sequence[tuple[int, int]] = ()

    def behaviour(self, schedule_id: str) -> Behaviour:
        fitting = (b for pattern, b in self.patterns.items() if fnmatchcase(schedule_id, pattern))
        return next(fitting, self.default)
