"""Audit events and messages that a caller may see, as lists, newest first.

The audit contains the events on record. It also contains firings and retries, starts and ends, which are read from
the jobs, and the slots that are held at this moment. These are several sequences; a page merges them by their
instants and continues each where the page before ended.

A token with an owner sees what belongs to that owner. What has no owner (a start, a reload, a refused caller) is only
for tokens without one.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Generic, NamedTuple, TypeVar

from everwhen.model.events import (
    ENDS,
    FIRING_ORIGINS,
    Derived,
    Hold,
    Progress,
    event_of_end,
    event_of_firing,
    event_of_hold,
    event_of_start,
    firing_of,
    progress_of,
)
from everwhen.model.job import FINAL, Job, JobStatus, Origin
from everwhen.model.message import Message
from everwhen.model.queries import EventFilter, JobFilter, MessageFilter
from everwhen.operations.access import COUNTED, Caller
from everwhen.operations.event_feed import RECORDED, FeedEntry, Wanted, facts_of, narrowed
from everwhen.runtime import Runtime
from everwhen.store.opened import store_of

T = TypeVar("T")
Key = tuple[int, ...]  # larger is newer
MOST_HOLDS = 1_000  # that one query reads


class Back(NamedTuple):
    """Where a list continues.

    Before this event, this job and this hold; before the job whose start, and before the one whose end, was listed
    last. 0: there are no more.
    """

    event: int
    job: int
    held_since: int
    held_row: int
    started: int
    ended: int


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """One page of many entries.

    `total` is counted up to a limit. `back`: where the next page of the audit continues, if there is one.
    """

    items: Sequence[T]
    total: int = 0
    is_approximate: bool = False
    back: Back | None = None


class _Lane(NamedTuple):
    """The entries of one sequence for a page, and the position at which it continues; None: it ends there."""

    found: Sequence[tuple[Key, FeedEntry]] = ()
    rest: Key | None = None
    total: int = 0
    is_approximate: bool = False


def list_feed(
    runtime: Runtime,
    wanted: Wanted,
    caller: Caller,
    *,
    schedule_id: str | None = None,
    limit: int,
    before: Back | None = None,
) -> Page[FeedEntry]:
    """Return what the caller may see; of one schedule also when it is deleted."""
    visible = narrowed(runtime, wanted, caller, schedule_id)
    if visible is None:
        return Page(())
    held = _held(runtime, visible, None if before is None else (before.held_since, before.held_row))
    fired = _fired(runtime, visible, limit, None if before is None else before.job)
    recorded = _recorded(runtime, visible, limit, None if before is None else before.event)
    started = _progress(runtime, visible, limit, None if before is None else before.started, _STARTS)
    ended = _progress(runtime, visible, limit, None if before is None else before.ended, _ENDS)
    return _newest((held, ended, started, fired, recorded), limit)


def list_messages(
    runtime: Runtime, wanted: MessageFilter, caller: Caller, *, limit: int, before: int | None = None
) -> Page[Message]:
    """Return messages that the caller may see."""
    store = store_of(runtime)
    owner = caller.token.owner
    if owner is not None and wanted.owner not in (None, owner):
        return Page(())
    wanted = wanted._replace(owner=owner or wanted.owner)
    items = store.messages.list(wanted, limit=limit, before=before)
    total = store.messages.count(wanted, most=COUNTED + 1)
    return Page(items, min(total, COUNTED), total > COUNTED)


def _newest(lanes: Sequence[_Lane], limit: int) -> Page[FeedEntry]:
    """Merge the sequences, newest first; at one instant a job is newer than an event, so it comes first."""
    numbered = [[(number, entry) for _, entry in lane.found] for number, lane in enumerate(lanes)]
    shown = list(islice(heapq.merge(*numbered, key=lambda one: -facts_of(one[1]).at), limit))
    numbers = [number for number, _ in shown]
    rests = [_rest(lane, numbers.count(number)) for number, lane in enumerate(lanes)]
    held, ended, started, job, event = rests
    back = Back(*(event or (0,)), *(job or (0,)), *(held or (0, 0)), *(started or (0,)), *(ended or (0,)))
    # Jobs end in another order than they were enqueued in, but their sequences are read in the order of enqueueing.
    newest = sorted((entry for _, entry in shown), key=lambda one: -facts_of(one).at)
    return Page(
        newest,
        sum(lane.total for lane in lanes),
        any(lane.is_approximate for lane in lanes),
        back if any(rest is not None for rest in rests) else None,
    )


def _rest(lane: _Lane, shown: int) -> Key | None:
    """Return where a sequence continues when `shown` of its entries are on the page."""
    if shown == len(lane.found):
        return lane.rest
    if shown:
        return lane.found[shown - 1][0]
    *same, last = lane.found[0][0]
    return (*same, last + 1)


def _recorded(runtime: Runtime, wanted: Wanted, limit: int, before: int | None) -> _Lane:
    store = store_of(runtime)
    if not wanted.wants(*RECORDED):
        return _Lane()
    events = EventFilter(
        uid=wanted.uid,
        uids=wanted.uids,
        types=tuple(wanted.types & RECORDED),  # type: ignore[arg-type]
        job_id=wanted.job_id,
        owner=wanted.owner,
        since=wanted.since,
        until=wanted.until,
    )
    total = store.ledger.count_events(events, most=COUNTED + 1)
    found = [] if before == 0 else store.ledger.events(events, limit=limit, before=before)
    rest = (found[-1].id,) if len(found) == limit else None
    return _Lane([((one.id,), one) for one in found], rest, min(total, COUNTED), total > COUNTED)


def _fired(runtime: Runtime, wanted: Wanted, limit: int, before: int | None) -> _Lane:
    """Return firings and retries; when few jobs match, the scan stops early and continues with the next page."""
    if not wanted.wants("schedule.fired", "schedule.retried"):
        return _Lane()
    if wanted.job_id is not None:
        return _fired_job(runtime, wanted, before)
    jobs = JobFilter(
        uid=wanted.uid,
        uids=wanted.uids,
        origins=_origins(wanted),
        owner=wanted.owner,
        enqueued_since=wanted.since,
        enqueued_until=wanted.until,
    )
    page = store_of(runtime).ledger.job_page(jobs, limit=limit, before=before)
    found = [] if before == 0 else page.jobs
    rest = None if before == 0 or page.next_before is None else (page.next_before,)
    return _Lane(_firings_of(runtime, found), rest, page.total, page.is_approximate)


def _fired_job(runtime: Runtime, wanted: Wanted, before: int | None) -> _Lane:
    job = store_of(runtime).ledger.job(wanted.job_id or "")
    found = [one for one in _firings_of(runtime, [] if job is None else [job]) if wanted.is_met(one[1])]
    is_over = job is not None and before is not None and job.row_id >= before
    return _Lane([] if is_over else found, None, len(found))


class _Stage(NamedTuple):
    """Starts or ends: their types, the statuses of jobs that reached them, and the function that makes the event."""

    types: Mapping[str, Collection[JobStatus]]
    item: Callable[[Progress], Derived | None]


_STARTS = _Stage({"job.started": ("running", *sorted(FINAL))}, event_of_start)
_ENDS = _Stage({kind: (status,) for status, kind in ENDS.items()}, event_of_end)


def _progress(runtime: Runtime, wanted: Wanted, limit: int, before: int | None, stage: _Stage) -> _Lane:
    """Return starts, or ends, in the order of their jobs; a job enqueued before `since` may have ended after it."""
    store = store_of(runtime)
    kinds = [kind for kind in stage.types if wanted.wants(kind)]
    if not kinds or before == 0:
        return _Lane()
    if wanted.job_id is not None:
        job = store.ledger.job(wanted.job_id)
        jobs, rest = [] if job is None or (before and job.row_id >= before) else [job], None
        total, is_approximate = len(jobs), False
    else:
        statuses = [status for kind in kinds for status in stage.types[kind]]
        filtered = JobFilter(
            uid=wanted.uid,
            uids=wanted.uids,
            statuses=statuses,
            owner=wanted.owner,
            enqueued_until=wanted.until,
        )
        page = store.ledger.job_page(filtered, limit=limit, before=before)
        jobs, rest, total, is_approximate = page.jobs, page.next_before, page.total, page.is_approximate
    owners = store.firings.owners({job.uid for job in jobs}) if jobs else {}
    item = [(job.row_id, stage.item(progress_of(job, owners.get(job.uid)))) for job in jobs]
    found = [((row,), one) for row, one in item if one is not None and wanted.is_met(one)]
    return _Lane(found, None if rest is None else (rest,), total, is_approximate)


def _firings_of(runtime: Runtime, jobs: Sequence[Job]) -> list[tuple[Key, Derived]]:
    owners = store_of(runtime).firings.owners({job.uid for job in jobs}) if jobs else {}
    return [((job.row_id,), event_of_firing(firing_of(job, owners.get(job.uid)))) for job in jobs]


def _origins(wanted: Wanted) -> Sequence[Origin]:
    if wanted.wants("schedule.fired") and wanted.wants("schedule.retried"):
        return ()
    return FIRING_ORIGINS if wanted.wants("schedule.fired") else ("retry",)


def _held(runtime: Runtime, wanted: Wanted, before: Key | None) -> _Lane:
    """Return the slots held at this moment: a row does not keep earlier holds."""
    if not wanted.wants("schedule.held"):
        return _Lane()
    holds = store_of(runtime).firings.holds(uid=wanted.uid, owner=wanted.owner, limit=MOST_HOLDS)
    newest = sorted(holds, key=lambda hold: (hold.since, hold.row_id), reverse=True)
    item = [((hold.since, hold.row_id), event_of_hold(hold)) for hold in newest]
    met = [one for one in item if wanted.is_met(one[1])]
    found = [one for one in met if before is None or one[0] < before]
    return _Lane(found, None, len(met), len(holds) == MOST_HOLDS)


def held_slots(runtime: Runtime) -> list[Hold]:
    """Return the slots that are held now, in no order; at most MOST_HOLDS of them."""
    return store_of(runtime).firings.holds(limit=MOST_HOLDS)
