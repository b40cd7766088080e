"""Changes to many schedules at once: the system switch, quiet-hours policies, a breaker closed on request."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable

from everwhen.decide.breaker import reset
from everwhen.decide.budgets import refill
from everwhen.decide.status import leave_system_span
from everwhen.errors import DuplicatePolicyError, PolicyInUseError, SourceError, UnknownPolicyError
from everwhen.model.events import Event
from everwhen.model.limits import Shared
from everwhen.model.schedule import Plan, QuietHoursPolicy, State
from everwhen.model.serialize import policy_of, policy_to_json
from everwhen.store.commit import commit_decisions, write_shared
from everwhen.store.dialect import Statement
from everwhen.store.expect import start_expectations
from everwhen.store.load import hold, schedules_of, system_paused_at
from everwhen.store.schedule_rows import STATE
from everwhen.store.transaction import Transaction

_PORTION = 1_000
MOST_NAMED = 10

# A pass over schedules: rare, and by slot_at, which no index has (it differs from next_run_at by jitter).
_REACHED = Statement(
    f"SELECT {STATE} FROM schedules WHERE enabled AND next_slot_at <= :now::instant ORDER BY uid"
)
# idx_schedules_release: a deferred slot has its opening there, and no key.
_DEFERRED = Statement(f"""
SELECT {STATE} FROM schedules INDEXED BY idx_schedules_release
WHERE release_at IS NOT NULL AND held_key IS NULL AND quiet_hours_policy_id = :policy_id::text ORDER BY uid""")
# A pass over schedules: used only when a policy is deleted.
_USERS_OF_POLICY = Statement("""
SELECT schedule_id FROM schedules WHERE quiet_hours_policy_id = :policy_id::text ORDER BY schedule_id""")
# The primary key of quiet_hours_policies.
_PUT_POLICY = Statement("""
INSERT INTO quiet_hours_policies (policy_id, name, source, words, created_at, updated_at)
VALUES (:id::text, :name::text, :source::text, :words::text, :now::instant, :now::instant)
ON CONFLICT (policy_id) DO UPDATE SET name = :name::text, words = :words::text, updated_at = :now::instant""")
_DELETE_POLICY = Statement("DELETE FROM quiet_hours_policies WHERE policy_id = :policy_id::text")


def switch_system(tx: Transaction, now: int, is_paused: bool, actor: str | None) -> None:
    """Turn the switch, at a time when no evaluation runs; a value that is set already changes nothing.

    The end of a system pause waits for changes under way, before it makes evaluations wait: a schedule that is created
    or resumed inside the span and committed after it would otherwise keep a slot inside the span, and fire it.
    """
    if not is_paused:
        tx.exclude_changes()
    tx.exclude_evaluations()
    now = tx.latest(now)
    paused_at = system_paused_at(tx)
    if is_paused == (paused_at is not None):
        return
    if paused_at is not None:
        _leave_span(tx, paused_at, now)
        start_expectations(tx, now)
    tx.put_setting("system_paused", str(now) if is_paused else "")
    tx.insert_events([Event("system.paused" if is_paused else "system.resumed", now, actor=actor)])


def _leave_span(tx: Transaction, paused_at: int, now: int) -> None:
    """Move every schedule with a slot in the span on to its next; in one transaction, or a tick might fire the slot."""
    states = [State._make(row) for row in tx.rows_to_change(_REACHED, now=now)]
    for start in range(0, len(states), _PORTION):
        schedules = schedules_of(tx, states[start : start + _PORTION])
        shared = Shared()
        decisions = [leave_system_span(schedule, paused_at, now, shared) for schedule in schedules]
        commit_decisions(tx, decisions, shared, now)
        write_shared(tx, shared, now)


def write_policy(tx: Transaction, now: int, policy: QuietHoursPolicy, source: str = "api") -> None:
    """Create or replace a policy; slots that wait for an opening wait for the new one."""
    rows = []
    states = [State._make(row) for row in tx.rows_to_change(_DEFERRED, policy_id=policy.policy_id)]
    if len(states) > _PORTION:
        tx.expect_long_pauses()
    # Read before the policy is written, and planned here: the cache must not contain the policy before its commit.
    for schedule in schedules_of(tx, states):
        state = schedule.state
        plan = Plan(state.schedule_id, schedule.definition, policy)
        is_deferred = state.held_reason in plan.defers
        earliest = max(now, state.held_due_at or now)
        opening = plan.calendar(state.anchor_at).opening_from(earliest) if is_deferred else None
        rows.append((earliest if opening is None else opening, state.row_id))
    values = {"id": policy.policy_id, "name": policy.name, "source": source}
    tx.run(_PUT_POLICY, **values, words=json.dumps(policy_to_json(policy)), now=now)
    if rows:
        tx.update_states(("release_at",), rows)
    _touch_policies(tx)


def add_policy(tx: Transaction, now: int, policy: QuietHoursPolicy) -> None:
    """Write a new policy; refuse an id that is taken."""
    _touch_policies(tx)  # first: other writers of policies wait here until this one is committed
    if policy.policy_id in dict(tx.policies()):
        raise DuplicatePolicyError(policy.policy_id)
    write_policy(tx, now, policy)


def change_policy(
    tx: Transaction, now: int, policy_id: str, change: Callable[[QuietHoursPolicy], QuietHoursPolicy]
) -> QuietHoursPolicy:
    """Replace a policy that the API made by the result of `change`."""
    _touch_policies(tx)
    after = change(_own_policy(tx, policy_id))
    write_policy(tx, now, after)
    return after


def remove_own_policy(tx: Transaction, policy_id: str) -> None:
    """Remove a policy that the API made and that no schedule uses."""
    _touch_policies(tx)
    _own_policy(tx, policy_id)
    remove_policy(tx, policy_id)


def _own_policy(tx: Transaction, policy_id: str) -> QuietHoursPolicy:
    fields = dict(tx.policies()).get(policy_id)
    if fields is None:
        raise UnknownPolicyError(policy_id)
    if policy_id in dict(tx.policies("config")):
        raise SourceError(f'the policy "{policy_id}"', "config")
    return policy_of(policy_id, json.loads(fields))


def remove_policy(tx: Transaction, policy_id: str) -> None:
    """Remove a policy that no schedule uses."""
    tx.run(
        _DELETE_POLICY, policy_id=policy_id
    )  # first: waits for transactions that name it, which the query then sees
    if users := tx.column(_USERS_OF_POLICY, policy_id=policy_id):
        raise PolicyInUseError(policy_id, len(users), users[:MOST_NAMED])
    _touch_policies(tx)


def _touch_policies(tx: Transaction) -> None:
    """Make every process reload its plans. The value is random: two concurrent increments would be equal."""
    tx.put_setting("policies_version", secrets.token_hex(8))


def refill_budget(tx: Transaction, now: int, key: str) -> None:
    """Record the windows of a budget that are over and that were announced."""
    shared = hold(tx, (), limits=[key])
    refill(shared, key, now)
    write_shared(tx, shared, now)


def close_breaker(tx: Transaction, now: int, key: str, actor: str | None = None) -> bool:
    """Close a breaker on request; False when it was closed already."""
    shared = Shared(breakers=tx.breakers([key]))
    was_open = reset(shared, key, now)
    write_shared(tx, shared, now)
    if was_open:
        tx.insert_events([Event("breaker.reset", now, actor=actor, detail={"key": key})])
    return was_open
