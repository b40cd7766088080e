"""Runs of one schedule that were under way at once, as the work itself noted it: which ones, and why they may.

An attempt lasts from its first line to its last, which is a sign of life and no guess. Two attempts at once are broken
unless the schedule allows it, or the first one could not be ended: its node was alive when another took the job over
(cut off, frozen, or kept from its heartbeats by a busy machine). The processes of a node that ended are gone by then.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from typing import Literal, NamedTuple

from everwhen.model.job import Job
from tests.proof.processes import Supervised
from tests.proof.work import Line

BLUR = 0.05  # error of the programs' clock
Kind = Literal["plain", "cancelled", "taken over"]
ALIVE = "its node was alive, and had lost its lease"
FORKED = "it ran in a process that outlives its worker"


class Stay(NamedTuple):
    """One attempt of a job, from its first sign of life to its last one."""

    began: float
    last_sign: float
    job: Job
    attempt: int
    node: str

    @property
    def is_taken_over(self) -> bool:
        """Return whether another node has begun, or ended, what this attempt began; one that was taken over may be
        cancelled before it begins again, and belongs to no node then."""
        is_cancelled_again = self.job.status == "cancelled" and self.job.rescues > 0 and self.job.node is None
        return self.attempt < self.job.attempt or self.job.status == "lost" or is_cancelled_again

    @property
    def kind(self) -> Kind:
        if self.is_taken_over:
            return "taken over"
        return "cancelled" if self.job.status == "cancelled" else "plain"


class Overlap(NamedTuple):
    """Two attempts at once. `excuse`: why that may be; None where it may not."""

    earlier: Stay
    later: Stay
    excuse: str | None

    @property
    def seconds(self) -> float:
        return self.earlier.last_sign - self.later.began

    def __str__(self) -> str:
        first, second = self.earlier, self.later
        return (
            f"overlap: attempt {second.attempt} of {second.job.job_id} began {self.seconds:.2f} s before attempt "
            f"{first.attempt} of {first.job.job_id} was over ({first.kind}, on {first.node})"
        )


@dataclass(frozen=True)
class Nodes:
    """What is known of nodes: those that were found lost, by id, and when processes ended, by name."""

    lost: frozenset[str] = frozenset()
    ends: Mapping[str, Sequence[float]] = field(default_factory=dict)
    forking: frozenset[str] = frozenset()

    @classmethod
    def of(cls, processes: Sequence[Supervised], lost: frozenset[str]) -> Nodes:
        ends = {process.name: [absence.began for absence in process.absences] for process in processes}
        return cls(lost, ends, frozenset(process.name for process in processes if process.may_end))

    def ended_between(self, name: str, first: float, last: float) -> bool:
        return any(first <= at <= last for at in self.ends.get(name, ()))


def overlaps_of(
    lines: Sequence[Line], jobs: Mapping[str, Job], allowing: set[str], nodes: Nodes
) -> Iterator[Overlap]:
    """Yield every pair of attempts of one schedule that were under way at once."""
    for uid, stays in _stays(lines, jobs).items():
        under_way: list[Stay] = []
        for later in sorted(stays, key=attrgetter("began")):
            under_way = [stay for stay in under_way if stay.last_sign - BLUR > later.began]
            for earlier in under_way:
                if uid not in allowing or earlier.job.job_id == later.job.job_id:
                    yield Overlap(earlier, later, _excuse(earlier, later, nodes))
            under_way.append(later)


def _stays(lines: Sequence[Line], jobs: Mapping[str, Job]) -> dict[str, list[Stay]]:
    found: dict[str, list[Stay]] = defaultdict(list)
    key = attrgetter("job_id", "attempt")
    for (job_id, attempt), group in groupby(sorted(lines, key=key), key=key):
        own = sorted(group)
        job = jobs.get(job_id)
        if job is not None and job.origin != "backfill":  # they have a line of their own
            found[job.uid].append(Stay(own[0].at, own[-1].at, job, attempt, own[0].node))
    return found


def _excuse(earlier: Stay, later: Stay, nodes: Nodes) -> str | None:
    if earlier.kind == "cancelled" and earlier.job.node in nodes.lost:
        return ALIVE
    if earlier.kind != "taken over":
        return None
    if earlier.node in nodes.forking:
        return FORKED
    return None if nodes.ended_between(earlier.node, earlier.began, later.began) else ALIVE
