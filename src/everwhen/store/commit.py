"""Writing decisions: jobs, rows, ledger, limits and breakers of a whole batch, inside one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import compress
from operator import itemgetter, ne

from everwhen.decide.budgets import cost_of_run
from everwhen.decide.claim import Claims
from everwhen.model import row_changes
from everwhen.model.changes import Decision
from everwhen.model.claim import NO_CHANGE, Start
from everwhen.model.cost import Cost
from everwhen.model.events import Event
from everwhen.model.job import Job
from everwhen.model.limits import Declined, LastFiring, Limit, Shared, Transition
from everwhen.model.reasons import CancelReason
from everwhen.model.row_changes import job_row
from everwhen.model.schedule import State
from everwhen.model.spending import Spending
from everwhen.store.dialect import Insert, Statement
from everwhen.store.transaction import JobLine, Offer, Row, Transaction

_POSITIONS = range(len(State._fields))
_ROW_ID = State._fields.index("row_id")

# Columns that an ordinary firing changes; the others stay as they are.
FIRED = (row_changes.MOVED_ON | row_changes.FIRED).columns
_FIRED = itemgetter(*(State._fields.index(name) for name in (*FIRED, "row_id")))

_INSERT_TRANSITIONS = Insert("circuit_breaker_transitions", Transition._fields)
# idx_jobs_ready: a breaker that closes releases its retries.
_LET_RETRIES_GO = Statement("""
UPDATE jobs SET ready_at = :now::instant WHERE ready_at > :now::instant AND breaker_key = ANY(:keys::texts)
    AND origin = 'retry' AND not_before <= :now::instant""")

# The primary key of jobs.
_RESERVE = Statement("""
UPDATE jobs AS j SET cost_reserved = v.cost_reserved FROM batch AS v(cost_reserved, row_id)
WHERE j.row_id = v.row_id""")
_ADD_COSTS = Statement("""
UPDATE jobs AS j SET cost_amount = v.cost_amount + CASE WHEN j.cost_unit = v.cost_unit THEN j.cost_amount ELSE 0 END,
    cost_estimated = v.cost_estimated + CASE WHEN j.cost_unit = v.cost_unit
        THEN coalesce(j.cost_estimated, CASE j.cost_source WHEN 'estimated' THEN j.cost_amount ELSE 0 END) ELSE 0 END,
    cost_unit = v.cost_unit, cost_source = v.cost_source
FROM batch AS v(cost_amount, cost_estimated, cost_unit, cost_source, row_id) WHERE j.row_id = v.row_id""")
_PUT_COSTS = Insert("schedule_costs", ("uid", "reports", "unreported"), replaces="uid")
PUT_LAST_FIRINGS = Insert("last_firings", LastFiring._fields, replaces="key, uid")
_PUT_SPENDINGS = Insert("budgets", Spending._fields, replaces="key")


def commit_decisions(tx: Transaction, decisions: Sequence[Decision], shared: Shared, now: int) -> None:
    """Write a batch. It is invisible to other transactions until the commit.

    The caller writes `shared` afterwards, with the places that held slots of these schedules decline.
    """
    jobs: list[Row] = []
    other_lines: set[JobLine] = set()
    fired: list[Row] = []
    moved: dict[int, tuple[State, State]] = {}
    events: list[Event] = []
    cancelled: list[tuple[Job, CancelReason]] = []
    for decision in decisions:
        after = decision.after
        for job in decision.jobs:
            jobs.append(job_row(job, after, decision.plan, now))
            if job.line != "own" and job.line is not None:
                other_lines.add(JobLine(after.uid, job.line))
        events.extend(decision.events)
        cancelled.extend(decision.cancelled)
        if _only_fired(decision):
            fired.append(_FIRED(after))
        elif after is not decision.before:
            first = moved.get(after.row_id)
            moved[after.row_id] = (decision.before if first is None else first[0], after)
            shared.declined += _declined_by(decision)
    if cancelled:
        tx.cancel_jobs(cancelled, now)
        put_costs(tx, [(job, None) for job, _ in cancelled if job.status == "running"])
        # One of them may have been the next in line.
        tx.ready_successors({queue for job, _ in cancelled for queue in queues_behind(job)}, now)
    if jobs:
        tx.insert_jobs(jobs)
    if other_lines:  # their rows do not show whether another job precedes them
        tx.ready_successors(other_lines, now)
    if fired:
        tx.update_states(FIRED, fired)
    move_states(tx, moved.values())
    if events:
        tx.insert_events(events)


def put_costs(tx: Transaction, ended: Iterable[tuple[Job, Cost | None]]) -> None:
    """Write what attempts cost, as they reported or as it was estimated; those of one job add up."""
    costs = [(cost_of_run(job, reported), job.row_id) for job, reported in ended]
    batch = [
        (
            cost.amount,
            0 if cost.is_reported else cost.amount,
            cost.unit,
            "reported" if cost.is_reported else "estimated",
            row_id,
        )
        for cost, row_id in costs
        if cost is not None
    ]
    if batch:
        tx.run(_ADD_COSTS, batch=batch)


def write_starts(tx: Transaction, claims: Claims, now: int) -> None:
    """Start jobs, and count them on the rows of their schedules, with one statement for all equal starts.

    The statement does the counting, and an UPDATE counts a row once however often it is named. So a schedule that
    starts twice in one claim is counted by two statements.
    """
    if claims.taken:
        tx.start_jobs(claims.taken)
    if claims.reserved:
        tx.run(_RESERVE, batch=claims.reserved)
    times: dict[int, int] = {}
    alike: dict[tuple[Start, int], list[int]] = {}
    for row_id, start in claims.starts:
        times[row_id] = nth = times.get(row_id, 0) + 1
        alike.setdefault((start, nth), []).append(row_id)
    for (start, _), row_ids in alike.items():
        if start != NO_CHANGE:
            tx.count_starts(start, row_ids, now)


def queues_behind(job: Job) -> list[JobLine]:
    """Return the lines that may have waited for this job: its own line, and `own` unless it is a backfill."""
    own = [] if job.origin == "backfill" else [JobLine(job.uid, "own")]
    return own if job.line in (None, "own") else [*own, JobLine(job.uid, job.line)]


def move_states(tx: Transaction, moved: Iterable[tuple[State, State]]) -> None:
    """Write the columns that changed on each row and no others: an index whose columns stay the same is not touched.

    Each row is written once, with the first state before and the last one after.
    """
    alike: dict[tuple[int, ...], list[State]] = {}
    sooner: list[int] = []
    for before, after in moved:
        changed = tuple(compress(_POSITIONS, map(ne, before, after)))
        if changed:
            alike.setdefault(changed, []).append(after)
            sooner += _moved_forward(before.next_run_at, after.next_run_at)
            sooner += _moved_forward(before.release_at, after.release_at)
    for changed, states in alike.items():
        values = itemgetter(*changed, _ROW_ID)
        tx.update_states(tuple([State._fields[i] for i in changed]), [values(state) for state in states])
    if sooner:
        tx.announce_due(min(sooner))


def _moved_forward(before: int | None, after: int | None) -> tuple[int, ...]:
    return (after,) if after is not None and (before is None or after < before) else ()


def _declined_by(decision: Decision) -> tuple[Declined, ...]:
    """Return the slot that was offered a place, unless the offer stands or the decision takes the place.

    The offer ends in many ways: the slot is skipped, superseded or held again; its schedule is paused, deleted or
    over; it fires under an edited definition with another key, or as a job that waits and takes no place yet. After
    a step of the clock `release_at` may be still to come.
    """
    before, after = decision.before, decision.after
    key = before.held_key
    if key is None or before.release_at is None:
        return ()
    if after.held_key == key and after.release_at is not None:
        return ()
    definition = decision.plan.definition
    needs_place = any(
        rule is not None and rule.key == key for rule in (definition.guard, definition.capacity)
    )
    if needs_place and any(job.is_counted for job in decision.jobs):
        return ()
    return (Declined(key, before.held_due_at or 0, before.row_id),)


def _only_fired(decision: Decision) -> bool:
    """Return whether this is an ordinary firing: it changes six columns, and the narrow update pays for the check."""
    if len(decision.jobs) != 1 or decision.events or decision.cancelled:
        return False
    before, after = decision.before, decision.after
    if before.held_slot_at is not None or after.held_slot_at is not None or before.skip_reason is not None:
        return False
    return decision.jobs[0].not_before is None


def write_shared(tx: Transaction, shared: Shared, now: int) -> None:
    """Write changed limits and breakers; where places are free, release the oldest held slots of the key."""
    if shared.touched_limits:
        tx.put_limits([shared.limits[key] for key in sorted(shared.touched_limits)])
    if (shared.touched_limits or shared.declined) and (offers := _offers(shared)):
        tx.release_held(offers, now)
    if shared.touched_spendings:
        tx.insert(_PUT_SPENDINGS, [shared.spendings[key] for key in sorted(shared.touched_spendings)])
    if shared.touched_costs:
        tx.insert(_PUT_COSTS, [shared.costs[uid].row for uid in sorted(shared.touched_costs)])
    if shared.touched_firings:
        tx.insert(PUT_LAST_FIRINGS, [shared.last_firings[which] for which in sorted(shared.touched_firings)])
    if shared.events:
        tx.insert_events(shared.events)
        shared.events.clear()
    if shared.touched_breakers:
        tx.put_breakers([shared.breakers[key] for key in sorted(shared.touched_breakers)])
    if shared.transitions:
        tx.insert(_INSERT_TRANSITIONS, shared.transitions)
        closed = {transition.key for transition in shared.transitions if transition.to_state == "closed"}
        if closed:
            tx.run(_LET_RETRIES_GO, now=now, keys=closed)
            tx.note_ready((now,))


def _offers(shared: Shared) -> list[Offer]:
    """Return the free places that no held slot has been offered: those freed by this transaction, and those declined.

    Freed places go to the front of the line. Without them, declined places go to the slots behind the first one that
    declined: those before it were asked, and have declined or hold an offer. Where no place is left, no slot is asked;
    otherwise, in a long line of held slots behind queued jobs, every end of a job would decide all of them again.
    """
    freed = _freed_places(shared)
    declined: dict[str, list[Declined]] = {}
    for one in shared.declined:
        declined.setdefault(one.key, []).append(one)
    offers: list[Offer] = []
    for key in sorted(freed.keys() | declined.keys()):
        behind = declined.get(key, [])
        free = min(freed.get(key, 0) + len(behind), shared.limit(key).free)
        if free > 0:
            _, due_at, row_id = (key, 0, 0) if key in freed else min(behind)
            offers.append(Offer(key, free, due_at, row_id))
    return offers


def _freed_places(shared: Shared) -> dict[str, int]:
    """Return, for each key, how many places fewer are taken than when the transaction began."""
    taken: dict[str, int] = {}
    for old in shared.undo:
        if isinstance(old, Limit):
            taken.setdefault(old.key, old.outstanding)
    freed = {key: before - shared.limits[key].outstanding for key, before in taken.items()}
    return {key: places for key, places in freed.items() if places > 0}
