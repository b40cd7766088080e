"""What callers were told, compared with the record: what was confirmed is there, and nothing was done twice."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from everwhen.model.history import Recorded
from everwhen.model.instants import DAY, HOUR
from everwhen.model.job import OWN_ORIGINS, Job
from tests.proof.callers import Given
from tests.proof.schedules import COST, MOST_COST, MOST_FIRES, PAYERS, SPENDERS

IN_FLIGHT = 4  # runs that may be under way, each beyond its estimate, when a budget of cost is reached


def broken_answers(
    given: Given, names: Mapping[str, str], jobs: Mapping[str, Job], events: Sequence[Recorded]
) -> Iterator[str]:
    """Yield the answers that the record does not bear out. `names` are those of all schedules, by id."""
    yield from (f"a caller was told: {fault}" for fault in given.faults)
    about: dict[str, set[str]] = defaultdict(set)
    for _, event in events:
        about[event.type].add(str(event.schedule_id))
    borne_out = {
        "created": names.keys(),
        "deleted": about["schedule.deleted"],
        "trigger": jobs.keys(),
        "approve": about["schedule.approved"],
        "decline": about["schedule.declined"],
    }
    for promise in given.promises:
        if promise.id not in borne_out[promise.what]:
            yield f"lost: a caller was told “{promise.what}” of {promise.id}, and it is not on record"
    for name, count in Counter(names.values()).items():
        if name in given.created_names and count > 1:
            yield f"doubled: {name} was created {count} times under one key"
    for mark, count in Counter(_mark(job) for job in jobs.values()).items():
        if mark in given.marks and count > 1:
            yield f"doubled: {mark} was triggered {count} times under one key"


def _mark(job: Job) -> str | None:
    payload = json.loads(job.payload) if job.payload else {}
    return payload.get("mark") if job.retry == 0 else None


def fired_unapproved(given: Given, jobs: Mapping[str, Job], events: Sequence[Recorded]) -> Iterator[str]:
    """Yield the schedules that somebody asked for, and that fired by themselves before a person approved them."""
    approved_at: dict[str, int] = {}
    for _, event in events:
        if event.type == "schedule.approved" and event.schedule_id is not None:
            approved_at.setdefault(event.schedule_id, event.at)
    steps_back = [event for _, event in events if event.type == "scheduler.clock_stepped"]
    for job in jobs.values():
        if job.schedule_id not in given.asked or not job.is_own:
            continue
        first = approved_at.get(job.schedule_id)
        if first is None or (job.created_at < first and not steps_back):
            yield f"approval: {job.job_id} was fired, and nobody had approved {job.schedule_id} by then"


def spent_too_much(jobs: Mapping[str, Job], owned: Mapping[str, set[str]]) -> Iterator[str]:
    """Yield the windows in which more was fired or spent than the budgets of these owners allow."""
    fired: Counter[int] = Counter()
    paid: Counter[int] = Counter()
    for job in jobs.values():
        if job.origin not in OWN_ORIGINS:
            continue
        if job.uid in owned.get(SPENDERS, ()):
            fired[job.created_at // HOUR] += 1
        if job.uid in owned.get(PAYERS, ()):
            paid[(job.started_at or job.created_at) // DAY] += job.cost_amount or 0
    for hour, count in fired.items():
        if count > MOST_FIRES:
            yield f"limit: {count} firings of {SPENDERS} in hour {hour}, {MOST_FIRES} are allowed"
    for day, amount in paid.items():
        if amount > (MOST_COST + IN_FLIGHT * COST) * 1_000_000:
            yield f"limit: {PAYERS} spent {amount / 1e6:.2f} on day {day}, {MOST_COST:.2f} is allowed"
