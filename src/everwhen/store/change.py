"""Creating, changing and deleting schedules: one decision per schedule, with a new revision if its plan changed."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from operator import attrgetter, itemgetter

from everwhen.decide.by_hand import cancel_orphan
from everwhen.decide.spacing import refuse_too_soon
from everwhen.errors import (
    DuplicateScheduleError,
    MissingQuietHoursError,
    QuietHoursChangedError,
    RepeatedRequestError,
    UnknownScheduleError,
)
from everwhen.model.changes import Change, Decision, Filling, Insertion, Reconciliation, Remember, Terms
from everwhen.model.fast_values import by_identity
from everwhen.model.history import Cause
from everwhen.model.limits import Shared
from everwhen.model.policy import Budget
from everwhen.model.schedule import Definition, Plan, QuietHoursPolicy, Schedule, State
from everwhen.model.serialize import policy_of, text_of
from everwhen.model.token import StoredResponse
from everwhen.store.commit import commit_decisions, put_costs, write_shared
from everwhen.store.dialect import Statement
from everwhen.store.labels import keeping_names
from everwhen.store.load import add_last_firings, add_shared, hold, load_schedule, system_paused_at
from everwhen.store.places import OVER, refuse_beyond_quota, take_place_again, take_places
from everwhen.store.records import BEGUN, SHOWN
from everwhen.store.system import remove_policy, write_policy
from everwhen.store.tokens import insert_answer
from everwhen.store.transaction import Row, Transaction
from everwhen.timetable.trigger import Cron, Every, EveryMonth, Once, OnRequest

_begins = itemgetter(*[State._fields.index(name) for name in BEGUN])
# idx_jobs_slot and idx_jobs_backfill: the slots that have a job, of the clock or of a backfill.
_FILLED_SLOTS = Statement("""
SELECT slot_at FROM jobs WHERE uid = :uid::text AND slot_at = ANY(:slots::instants)
    AND origin IN ('schedule', 'catch_up')
UNION ALL
SELECT slot_at FROM jobs WHERE uid = :uid::text AND slot_at = ANY(:slots::instants) AND origin = 'backfill'""")
# Only the newest configuration of a source keeps its places and sections.
_FORGET_PLACES = Statement("""
UPDATE config_revisions SET places = NULL, sections = NULL WHERE places IS NOT NULL AND source = :source::text""")
_INSERT_CONFIG = Statement("""
INSERT INTO config_revisions (at, source, digest, actor, places, sections)
VALUES (:now::instant, :source::text, :digest::text, :actor::text, :places::text, :sections::text)""")
MANY = 1_000  # more rows than this take a while to process


def create_schedules(
    tx: Transaction,
    now: int,
    schedules: Sequence[Insertion],
    terms: Terms | None = None,
    new_policies: Collection[str] = (),
) -> list[State]:
    """Write new schedules, all or none, on the terms of their creator; `new_policies` are written with them."""
    if len(schedules) > MANY:
        tx.expect_long_pauses()
    if terms is not None:
        _hold_to(terms, tx, now, schedules)
    _hold_policies(tx, [new.plan for new in schedules], new_policies)
    rows = [
        (
            *_begins(new.creation.state),
            *_shown(new.plan.definition, now),
            new.source,
            now,
            new.key,
            new.token_id,
        )
        for new in schedules
    ]
    revisions = [_revision(new.creation.state, new.plan, now, "created") for new in schedules]
    events = [event for new in schedules for event in new.creation.events]
    taken = tx.insert_schedules(rows, revisions, events)
    if taken is not None:
        raise DuplicateScheduleError(taken)
    due = [at for new in schedules if (at := new.creation.state.next_run_at) is not None]
    if due:
        tx.announce_due(min(due))
    return [new.creation.state for new in schedules]


def _hold_to(terms: Terms, tx: Transaction, now: int, schedules: Sequence[Insertion]) -> None:
    """Check what the token may have, under a lock: two concurrent requests cannot both take the last place."""
    if terms.is_limiting:
        hold(tx, (), limits=[terms.key])
        free_at = take_places(tx, terms, [new.creation.state.uid for new in schedules], now)
        for new in schedules:
            refuse_too_soon(new.plan.definition, free_at.get(new.creation.state.uid), now)
    if terms.answer is not None:
        _remember(tx, terms.answer, now)


def refuse_revival_beyond(terms: Terms, tx: Transaction, decisions: Sequence[Decision]) -> None:
    """Refuse decisions that start a schedule anew which did not count for the quota; they are written already."""
    if decisions[0].before.status in OVER and decisions[-1].after.status not in OVER:
        refuse_beyond_quota(tx, terms)


def _remember(tx: Transaction, answer: StoredResponse, now: int) -> None:
    if not insert_answer(tx, answer, now):
        raise RepeatedRequestError(answer.key)


def change_schedule(
    tx: Transaction,
    now: int,
    schedule_id: str,
    decide: Change,
    remember: Remember | None = None,
    *,
    budget: Budget | None = None,
    terms: Terms | None = None,
    new_policies: Collection[str] = (),
) -> Decision:
    """Decide about one schedule, and write it; refuse a request whose answer is remembered.

    The decision uses the time at which this transaction holds the row. `budget` is that of the caller's token, which
    the decision needs besides the schedule's own; `terms`: what that token may have.
    """
    keys = {one.key for one in (budget, terms) if one is not None}
    shared = hold(tx, tx.peek_schedule(schedule_id), limits=keys)
    schedule = load_schedule(tx, schedule_id)
    if schedule is None:
        raise UnknownScheduleError(schedule_id)
    now = tx.latest(now)
    if terms is not None:
        take_place_again(tx, terms, schedule, now)
    add_shared(tx, shared, [schedule], schedule.outstanding)
    if budget is not None and budget.min_interval is not None:
        add_last_firings(tx, shared, [budget.key], [schedule.state.uid])
    shared.is_system_paused = system_paused_at(tx) is not None
    decision = decide(schedule, now, shared)
    if remember is not None:
        _remember(tx, remember(decision), now)
    commit_decisions(tx, [decision], shared, now)
    write_shared(tx, shared, now)
    after = decision.after
    if after.revision != decision.before.revision:
        for policy_id, policy in _hold_policies(tx, [decision.plan], new_policies).items():
            if policy != decision.plan.quiet:  # the decision about a held slot was made with the old hours
                raise QuietHoursChangedError(policy_id)
        is_upgrade = any(event.detail.get("cause") == "upgraded" for event in decision.events)
        cause: Cause = "upgraded" if is_upgrade else "edited"
        tx.insert_revision(_revision(after, decision.plan, now, cause))
        tx.update_states(SHOWN, [(*_shown(decision.plan.definition, now), after.row_id)])
    return decision


def delete_schedule(tx: Transaction, now: int, schedule_id: str, decide: Change) -> None:
    """Decide the end of a schedule, and remove its row; the record keeps its names."""

    def end(schedule: Schedule, now: int, shared: Shared) -> Decision:
        return keeping_names(tx, decide(schedule, now, shared))

    tx.delete_schedule(change_schedule(tx, now, schedule_id, end).after.row_id)


def _hold_policies(
    tx: Transaction, plans: Iterable[Plan], new_policies: Collection[str]
) -> dict[str, QuietHoursPolicy]:
    """Return the quiet hours that new revisions name, locked until the commit.

    One of them may have been deleted since the caller read it. Policies that this transaction writes itself do not
    exist yet.
    """
    named = {one for plan in plans if (one := plan.definition.quiet_hours_id) is not None}
    named.difference_update(new_policies)
    found = tx.hold_policies(named) if named else {}
    for policy_id in sorted(named - found.keys()):
        raise MissingQuietHoursError(policy_id)
    return {policy_id: policy_of(policy_id, json.loads(fields)) for policy_id, fields in found.items()}


def without_filled(tx: Transaction, slots: Sequence[int], decide: Filling) -> Change:
    """Return the decision about the slots that have no job; the query for them runs when the row is locked."""

    def fill(schedule: Schedule, now: int, shared: Shared) -> Decision:
        filled = set(tx.column(_FILLED_SLOTS, uid=schedule.state.uid, slots=slots))
        return decide(schedule, [slot_at for slot_at in slots if slot_at not in filled], now, shared)

    return fill


def cancel_job_of_nobody(tx: Transaction, now: int, job_id: str) -> None:
    """End a job whose schedule is deleted; one that has ended since stays as it is."""
    shared = hold(tx, tx.peek_jobs([job_id]))
    job = tx.jobs([job_id]).get(job_id)
    if job is None or not job.is_outstanding or tx.states([job.uid]):
        return
    add_shared(tx, shared, (), [job])
    tx.insert_events([cancel_orphan(job, now, shared)])
    tx.cancel_jobs([(job, "person")], now)
    if job.status == "running":
        put_costs(tx, [(job, None)])
    write_shared(tx, shared, now)


def _shown(definition: Definition, now: int) -> Row:
    return (*_declared(definition), now)


@by_identity(most=4_096, size=attrgetter("size"))
def _declared(definition: Definition) -> Row:
    return (
        definition.name,
        definition.group,
        definition.command,
        definition.type,
        _spec(definition),
        definition.zone.name,
        definition.catch_up_policy,
        definition.quiet_hours_id,
        definition.payload,
        definition.target.kind,
        definition.ping_url is not None,
        definition.queue if definition.target.is_local else None,
    )


def _spec(definition: Definition) -> str:
    match definition.trigger:
        case Every() | EveryMonth() | Once():
            return definition.trigger.text
        case Cron():
            return definition.trigger.expression.text
        case OnRequest():
            return definition.trigger.kind


def _revision(state: State, plan: Plan, now: int, cause: Cause) -> Row:
    text = text_of(plan.definition)
    return (state.uid, state.revision, state.schedule_id, now, state.anchor_at, text, cause)


# Writing a whole configuration: schedules and policies are created, changed and deleted in one transaction.


def reconcile(tx: Transaction, now: int, changes: Reconciliation) -> bool:
    """Write all of it; return False, and write nothing, when another configuration was written since `based_on`.

    Schedules are deleted before policies, and before others take their ids. Policies are written last, because plans
    that are read after them contain them.
    """
    if tx.config_revision(changes.source)[0] != changes.based_on:
        return False
    new_policies = {policy.policy_id for policy in changes.policies}
    for schedule_id, decide in changes.removed:
        delete_schedule(tx, now, schedule_id, decide)
    if changes.created:
        create_schedules(tx, now, changes.created, new_policies=new_policies)
    for schedule_id, decide in changes.changed:
        change_schedule(tx, now, schedule_id, decide, new_policies=new_policies)
    for policy in changes.policies:
        write_policy(tx, now, policy, source="config")
    for policy_id in changes.removed_policies:
        remove_policy(tx, policy_id)
    tx.run(_FORGET_PLACES, source=changes.source)
    tx.run(
        _INSERT_CONFIG,
        now=now,
        source=changes.source,
        digest=changes.digest,
        actor=changes.actor,
        places=json.dumps(dict(changes.places), separators=(",", ":")),
        sections=json.dumps(dict(changes.sections), separators=(",", ":")),
    )
    tx.insert_events(changes.events)
    return True
