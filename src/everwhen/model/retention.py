"""How long the record is kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from everwhen.model.instants import DAY


@dataclass(frozen=True, slots=True)
class Retention:
    """Ages beyond which things may go; what is outstanding never does."""

    jobs: int = 30 * DAY
    audit: int = 90 * DAY
    breaker_transitions: int = 90 * DAY
    output: int = 7 * DAY


class Cutoffs(NamedTuple):
    """Instants before which things may go."""

    jobs: int
    audit: int
    breaker_transitions: int
    output: int
