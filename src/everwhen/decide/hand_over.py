"""The hand-over to queues: which ready jobs are sent, and which links a chain needs.

The rules are those of a claim, but jobs on their way count as claimed. A queue does not know which job is next, so
there are never more messages for a capacity, or for a line, than jobs that may run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from everwhen.decide.budgets import Refusal
from everwhen.decide.claim import has_place, in_line, is_its_turn, put_off
from everwhen.decide.turns import take_turns
from everwhen.model.claim import ScheduleCounters
from everwhen.model.instants import SECOND
from everwhen.model.job import Job, job_id
from everwhen.model.limits import Shared
from everwhen.model.message import MESSAGE
from everwhen.model.queue import Link, link_id
from everwhen.model.schedule import Plan, Schedule
from everwhen.model.share import NONE_IN_USE
from everwhen.model.values import BOUND


@dataclass(slots=True)
class OnTheirWay:
    """Jobs that were handed over and are not claimed yet: the number per capacity, and their lines."""

    of_key: dict[str, int] = field(default_factory=dict)
    lines: set[str] = field(default_factory=set)  # uids whose own line has a job on its way


class HandOver(NamedTuple):
    """Jobs to send, retries postponed by their breaker, jobs that are messages, which need no worker, and retries that
    a budget refuses, each with the limit.
    """

    given: list[Job]
    postponed: list[tuple[Job, int]]
    messages: list[Job]
    refused: list[tuple[Job, Refusal]]


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
    """Choose up to `limit` of the ready jobs, by turns of their owners; each choice updates `under_way`."""
    chosen = HandOver([], [], [], [])

    def may_go(job: Job) -> bool:
        sent = under_way.of_key.get(job.capacity_key or "", 0)
        if not is_its_turn(job, counters, under_way.lines) or not has_place(job, shared, sent):
            return False
        return not put_off(job, plans[job.uid, job.revision], chosen, shared, now)

    for job in take_turns(in_line(jobs), plans, NONE_IN_USE, may_go, free=limit):
        if plans[job.uid, job.revision].definition.target.kind == MESSAGE:
            chosen.messages.append(job)
            continue
        chosen.given.append(job)
        key = job.capacity_key or ""
        under_way.of_key[key] = under_way.of_key.get(key, 0) + 1
        if job.line == "own":
            under_way.lines.add(job.uid)
        if len(chosen.given) == limit:
            break
    return chosen


# The links that a schedule needs: one for each instant at which a process must look after it (`rq-chain`).
#
# Links follow from what is stored and from nothing else, so several processes can compute them at any time: the run
# that continues the chain, a program that restarts, the watch of `everwhen up`. A link that exists is not added again.


LATER = 5 * SECOND  # how often a job that may not begin now is tried again


def links_of(schedule: Schedule | None, jobs: Iterable[Job]) -> list[Link]:
    """Return the links of a schedule (None when it is deleted), and one for the first of its jobs that wait."""
    slots = [] if schedule is None else _slot_links(schedule)
    waiting = [job for job in jobs if _waits_for_us(job)]
    if not waiting:
        return slots
    return [*slots, job_link(min(waiting, key=lambda job: (job.ready_at, job.slot_at)))]


def job_link(job: Job) -> Link:
    """Return the link for a job that may begin at a known instant; its worker also runs what else is ready by then."""
    assert job.ready_at is not None
    return _for_job(job, job.ready_at)


def later_link(job: Job, now: int) -> Link:
    """Return the link for a job without a place now; processes that try at about the same time get the same instant."""
    return _for_job(job, now - now % LATER + LATER)


def look_again_link(schedule: Schedule, now: int) -> Link:
    """Return the link for a schedule that may not be decided now, because the system is paused."""
    return _for_slot(schedule, now - now % LATER + 2 * LATER)


def next_ready(jobs: Iterable[Job], now: int) -> Job | None:
    """Return the job of one schedule that runs first, in order of slot_at."""
    ready = [job for job in jobs if _waits_for_us(job) and job.ready_at is not None and job.ready_at <= now]
    return min(ready, key=lambda job: (job.slot_at, job.row_id), default=None)


def _waits_for_us(job: Job) -> bool:
    """Return whether the job is ready now or at a known instant, and not in a queue bound to one program."""
    return job.status == "queued" and job.ready_at is not None and BOUND not in job.queue


def _slot_links(schedule: Schedule) -> list[Link]:
    """Return links for the next slot and the release of the held one, or for the end of a pause."""
    state = schedule.state
    if BOUND in schedule.definition.queue:
        return []
    if state.status == "paused":
        return [] if state.resume_at is None else [_for_slot(schedule, state.resume_at)]
    if state.status != "active":
        return []
    wakes = (state.next_run_at, state.release_at)
    return [_for_slot(schedule, at) for at in wakes if at is not None]


def _for_slot(schedule: Schedule, at: int) -> Link:
    state = schedule.state
    name = link_id(job_id(state.uid, state.fire_count + 1, 0), at)
    return Link(name, state.uid, state.schedule_id, schedule.definition.queue, at)


def _for_job(job: Job, at: int) -> Link:
    name = link_id(job.job_id, at)
    return Link(name, job.uid, job.schedule_id, job.queue, at, is_slot=False, is_expected=job.is_own)
