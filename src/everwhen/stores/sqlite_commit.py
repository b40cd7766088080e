"""Writing decisions: jobs, rows, ledger, limits and breakers of a whole batch, inside one transaction."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence

from everwhen.errors import StoreError
from everwhen.model.decision import Decision
from everwhen.model.events import NOTHING, Event
from everwhen.model.job import OWN_ORIGINS, NewJob
from everwhen.model.schedule import Plan, State
from everwhen.model.shared import Shared
from everwhen.stores import statements as sql


def commit_decisions(
    connection: sqlite3.Connection, decisions: Sequence[Decision], shared: Shared, now: int
) -> None:
    """Write a batch. Nothing of it is seen by anybody before the transaction ends."""
    jobs: list[tuple[object, ...]] = []
    fired: list[tuple[object, ...]] = []
    moved: dict[int, tuple[State, State]] = {}
    events: list[Event] = []
    for decision in decisions:
        after = decision.after
        for job in decision.jobs:
            jobs.append(job_row(job, after, decision.plan, now))
        events.extend(decision.events)
        if _only_fired(decision):
            fired.append(
                (
                    after.next_slot_at,
                    after.next_run_at,
                    after.fire_count,
                    after.outstanding,
                    after.last_fired_at,
                    after.last_slot_at,
                    after.row_id,
                )
            )
        elif after is not decision.before:
            first = moved.get(after.row_id)
            moved[after.row_id] = (decision.before if first is None else first[0], after)
        for cancelled, reason in decision.cancelled:
            connection.execute(sql.CANCEL_JOB, {"now": now, "reason": reason, "row_id": cancelled.row_id})
        for beside in {cancelled.origin == "backfill" for cancelled, _ in decision.cancelled}:
            # One of them may have been the next in line.
            connection.execute(sql.READY_SUCCESSOR, {"now": now, "uid": after.uid, "beside": beside})
    if jobs:
        _insert_jobs(connection, jobs)
    if fired:
        connection.executemany(sql.UPDATE_FIRED, fired)
    move_states(connection, moved.values())
    write_events(connection, events)
    write_shared(connection, shared, now)
    for decision in decisions:
        if _declined(decision, now):
            before = decision.before
            values = {
                "now": now,
                "key": before.held_key,
                "due_at": before.held_due_at,
                "row_id": before.row_id,
            }
            connection.execute(sql.RELEASE_NEXT_HELD, values)


def move_states(connection: sqlite3.Connection, moved: Iterable[tuple[State, State]]) -> None:
    """Write what changed on each row and nothing else: an index whose columns stay is not touched.

    Each row once, with the first state before and the last one after.
    """
    alike: dict[tuple[int, ...], list[tuple[object, ...]]] = {}
    for before, after in moved:
        changed = tuple([i for i, pair in enumerate(zip(before, after, strict=True)) if pair[0] != pair[1]])
        if changed:
            alike.setdefault(changed, []).append((*[after[i] for i in changed], after.row_id))
    for changed, rows in alike.items():
        connection.executemany(sql.update_of(changed), rows)


def _insert_jobs(connection: sqlite3.Connection, jobs: Sequence[tuple[object, ...]]) -> None:
    try:
        connection.executemany(sql.INSERT_JOB, jobs)
    except sqlite3.IntegrityError as error:
        # Two schedulers cannot come here: a row was moved back by hand, or a decision was not made by `decide`.
        raise StoreError(
            "a slot, or an id, of this batch has its job already, so nothing of the batch was written; "
            "look for a schedule whose next_slot_at lies before its last_slot_at"
        ) from error


def _declined(decision: Decision, now: int) -> bool:
    """Whether a held slot was offered a place, decided again, and did not take it: the next in line may."""
    before, after = decision.before, decision.after
    if before.held_key is None or before.release_at is None or before.release_at > now:
        return False
    return after.release_at is None and not decision.jobs


def _only_fired(decision: Decision) -> bool:
    """An ordinary firing moves six columns; the narrow update is worth the look."""
    if len(decision.jobs) != 1 or decision.events or decision.cancelled:
        return False
    before, after = decision.before, decision.after
    if before.held_slot_at is not None or after.held_slot_at is not None or before.skip_reason is not None:
        return False
    return decision.jobs[0].not_before is None


def job_row(job: NewJob, state: State, plan: Plan, now: int) -> tuple[object, ...]:
    definition = plan.definition
    guard = definition.guard if job.origin in OWN_ORIGINS else None
    capacity = definition.capacity
    return (
        job.job_id,
        state.row_id,
        state.uid,
        state.schedule_id,
        state.revision,
        job.number,
        job.retry,
        job.origin,
        job.slot_at,
        job.due_at,
        job.not_before,
        job.is_ready,
        job.is_counted,
        job.is_probe,
        job.attempt,
        job.payload,
        definition.queue,
        guard.key if guard is not None else None,
        capacity.key if capacity is not None else None,
        capacity.limit if capacity is not None else None,
        definition.breaker.key if definition.breaker is not None else None,
        definition.if_running != "allow",
        now,
        (job.not_before or now) if job.is_ready else None,
    )


def write_events(connection: sqlite3.Connection, events: Iterable[Event]) -> None:
    rows = [
        (*event[:10], "{}" if event.detail is NOTHING else json.dumps(dict(event.detail)), event.trace_id)
        for event in events
    ]
    if rows:
        connection.executemany(sql.INSERT_EVENT, rows)


def write_shared(connection: sqlite3.Connection, shared: Shared, now: int) -> None:
    """Write what changed; where places came free, the oldest held slots of the key are decided again (E5)."""
    if shared.touched_limits:
        freed = _freed_places(connection, shared)
        connection.executemany(sql.PUT_LIMIT, [shared.limits[key] for key in sorted(shared.touched_limits)])
        for key, places in freed:
            connection.execute(sql.RELEASE_HELD, {"now": now, "key": key, "places": places})
    if shared.touched_breakers:
        connection.executemany(
            sql.PUT_BREAKER, [shared.breakers[key] for key in sorted(shared.touched_breakers)]
        )
    if shared.transitions:
        connection.executemany(sql.INSERT_TRANSITION, shared.transitions)
        for transition in shared.transitions:
            if transition.to_state == "closed":
                connection.execute(sql.LET_RETRIES_GO, {"now": now, "key": transition.key})


def _freed_places(connection: sqlite3.Connection, shared: Shared) -> list[tuple[str, int]]:
    freed = []
    for key in sorted(shared.touched_limits):
        row = connection.execute(sql.PLACES_TAKEN, (key,)).fetchone()
        if row is not None and row[0] > shared.limits[key].outstanding:
            freed.append((key, row[0] - shared.limits[key].outstanding))
    return freed
