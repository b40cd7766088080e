"""The hand-over: which ready jobs are sent to a queue (O1, O4, R6).

The rules are those of a claim, but jobs on their way count as claimed. A queue does not know which job is next, so
there are never more messages for a capacity, or for a line, than jobs that may run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from everwhen.decide.claim import in_line, retry_wait
from everwhen.model.counters import ScheduleCounters
from everwhen.model.job import Job
from everwhen.model.message import MESSAGE
from everwhen.model.schedule import Plan
from everwhen.model.shared import Shared


@dataclass(slots=True)
class OnTheirWay:
    """Jobs that were handed over and are not claimed yet: the number per capacity, and their lines."""

    of_key: dict[str, int] = field(default_factory=dict)
    lines: set[str] = field(default_factory=set)  # uids whose own line has a job on its way


class HandOver(NamedTuple):
    """Jobs to send, retries postponed by breaker or token limits, and jobs that are messages, which need no worker."""

    given: list[Job]
    postponed: list[tuple[Job, int]]
    messages: list[Job]


def hand_over(
    jobs: Sequence[Job],
    plans: Mapping[tuple[str, int], Plan],
    counters: Mapping[str, ScheduleCounters],
    shared: Shared,
    under_way: OnTheirWay,
    *,
    limit: int,
    now: int,
) -> HandOver:
    """Choose up to `limit` of the ready jobs in order; each choice updates `under_way`."""
    chosen = HandOver([], [], [])
    for job in in_line(jobs):
        if len(chosen.given) == limit:
            break
        plan = plans[job.uid, job.revision]
        if not _is_its_turn(job, counters, under_way) or not _has_place(job, shared, under_way):
            continue
        waits_until = retry_wait(job, plan, shared, now)
        if waits_until is not None:
            chosen.postponed.append((job, waits_until))
        elif plan.definition.target.kind == MESSAGE:
            chosen.messages.append(job)
        else:
            _set_out(job, under_way)
            chosen.given.append(job)
    return chosen


def _is_its_turn(job: Job, counters: Mapping[str, ScheduleCounters], under_way: OnTheirWay) -> bool:
    if job.line != "own":
        return True
    counts = counters.get(job.uid)
    return job.uid not in under_way.lines and (counts is None or not counts.running_jobs)


def _has_place(job: Job, shared: Shared, under_way: OnTheirWay) -> bool:
    key = job.capacity_key
    if key is None or job.capacity_limit is None:
        return True
    return shared.limit(key).running + under_way.of_key.get(key, 0) < job.capacity_limit


def _set_out(job: Job, under_way: OnTheirWay) -> None:
    if job.line == "own":
        under_way.lines.add(job.uid)
    if job.capacity_key is not None:
        under_way.of_key[job.capacity_key] = under_way.of_key.get(job.capacity_key, 0) + 1
