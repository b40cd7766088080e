"""Loading what a decision needs, in batches: schedules with their plans, and the limits and breakers of their keys."""

from __future__ import annotations

import json
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence

from everwhen.decide.overlap import may_be_full
from everwhen.errors import SchedulerError
from everwhen.model.cost import reserved_in
from everwhen.model.fast_values import LARGE
from everwhen.model.instants import DAY
from everwhen.model.job import Job
from everwhen.model.limits import Coverage, Shared, keys_of
from everwhen.model.policy import BUDGET
from everwhen.model.schedule import Plan, QuietHoursPolicy, Schedule, State, broken_plan
from everwhen.model.serialize import definition_in, policy_of
from everwhen.store.dialect import Statement
from everwhen.store.transaction import Finished, LockHint, Snapshot

Holder = Job | Finished | LockHint  # rows with keys of limits and breakers

_LOOK_BACK = 400 * DAY
# The primary key of schedule_revisions, once for each.
_REVISIONS = Statement("""
SELECT r.uid, r.revision, r.schedule_id, r.words FROM batch AS v(uid, revision) CROSS JOIN schedule_revisions r
WHERE r.uid = v.uid AND r.revision = v.revision""")
# nodes, whole: one row per start of a process.
_HEARTBEATS = Statement("""
SELECT started_at, heartbeat_at FROM nodes WHERE is_scheduler AND heartbeat_at >= :since::instant""")
# idx_audit_schedule: events of no schedule are at one of its ends. Only steps forwards skip time.
_CLOCK_STEPS = Statement("""
SELECT number_in(detail, 'from'), number_in(detail, 'to') FROM audit_events
WHERE uid IS NULL AND type = 'scheduler.clock_stepped' AND at >= :since::instant
    AND number_in(detail, 'to') > number_in(detail, 'from') ORDER BY id""")


def hold(
    tx: Snapshot,
    peeked: Sequence[LockHint],
    shared: Shared | None = None,
    *,
    wait: bool = True,
    limits: Collection[str] = (),
) -> Shared:
    """Lock the limits and breakers of the peeked rows, and further limits, before any of those rows."""
    shared = Shared() if shared is None else shared
    if peeked or limits:
        known = tx.load_plans({(seen.uid, seen.revision) for seen in peeked}) if peeked else {}
        _add(tx, shared, known.values(), peeked, wait=wait, also=limits)
    return shared


def add_shared(
    tx: Snapshot,
    shared: Shared,
    schedules: Iterable[Schedule],
    jobs: Iterable[Holder] = (),
    *,
    wait: bool = True,
) -> None:
    """Add the limits and breakers that these need and that `shared` does not have yet."""
    known = list(schedules)
    # An edit may have changed the keys of a schedule while its slot waits for an old one.
    held_keys = {key for schedule in known if (key := schedule.state.held_key) is not None}
    _add(tx, shared, [schedule.plan for schedule in known], jobs, wait=wait, also=held_keys)
    limited = [(one.state.uid, one.plan) for one in known if one.plan.definition.budgets]
    if limited:
        _add_costs(tx, shared, limited)
        spaced = {uid for uid, plan in limited if any(one.min_interval for one in plan.definition.budgets)}
        keys = {one.key for _, plan in limited for one in plan.definition.budgets if one.min_interval}
        if spaced:
            add_last_firings(tx, shared, keys, spaced)


def add_last_firings(tx: Snapshot, shared: Shared, keys: Collection[str], uids: Collection[str]) -> None:
    """Add until when tokens may not fire these schedules again; the rows of their keys are locked already."""
    found = tx.last_firings(keys, uids)
    shared.last_firings |= {
        which: firing for which, firing in found.items() if which not in shared.last_firings
    }


def plans_to_claim(
    tx: Snapshot, shared: Shared, jobs: Sequence[Job], *, wait: bool = True
) -> dict[tuple[str, int], Plan]:
    """Return the plans of jobs that are about to begin; add the limits for which their retries count."""
    known = tx.load_plans([(job.uid, job.revision) for job in jobs])
    retries = [job for job in jobs if job.origin == "retry"]
    if retries:
        keys = set().union(*(_keys_of_retry(job, known) for job in retries))
        _add(tx, shared, (), (), wait=wait, also=keys)
        _add_costs(tx, shared, [(job.uid, known[job.uid, job.revision]) for job in retries])
    return known


def seen_before(jobs: list[Job], peeked: Sequence[LockHint]) -> list[Job]:
    """Return the jobs of schedules that were peeked at, whose keys and rows are locked already.

    A job that became ready since then waits for the next claim: locking its schedule now would violate the order of
    locks, and two claims could wait for each other. Without a peek (SQLite) nothing is locked, and all are returned.
    """
    if not peeked:
        return jobs
    uids = {hint.uid for hint in peeked}
    return [job for job in jobs if job.uid in uids]


def claimable(shared: Shared, jobs: Sequence[Job], plans: Mapping[tuple[str, int], Plan]) -> Sequence[Job]:
    """Return the jobs whose keys could all be locked. Jobs of one schedule stay together, because they run in order."""
    if not shared.busy:
        return jobs
    waiting = {
        job.uid
        for job in jobs
        if not shared.busy.isdisjoint(_keys_of_retry(job, plans).union(*_keys((), [job])))
    }
    return [job for job in jobs if job.uid not in waiting]


def _keys_of_retry(job: Job, plans: Mapping[tuple[str, int], Plan]) -> set[str]:
    if job.origin != "retry":
        return set()
    from everwhen.decide.claim import budgets_of_retry  # commands that only read load schedules, too

    return {budget.key for budget in budgets_of_retry(job, plans[job.uid, job.revision])}


def _add(
    tx: Snapshot,
    shared: Shared,
    plans: Iterable[Plan],
    holders: Iterable[Holder],
    *,
    wait: bool,
    also: Collection[str] = (),
) -> None:
    limits, breakers = _keys(plans, holders)
    limits.update(also)
    if missing := limits - shared.limits.keys() - shared.busy:
        found = tx.limits(missing, wait=wait)
        shared.limits |= found
        shared.busy |= missing - found.keys()
        if budgets := [key for key in found if key.startswith(BUDGET)]:  # their rows are locked now
            shared.spendings |= tx.spendings(budgets)
    if missing := breakers - shared.breakers.keys() - shared.busy:
        more = tx.breakers(missing, wait=wait)
        shared.breakers |= more
        shared.busy |= missing - more.keys()


def _keys(plans: Iterable[Plan], holders: Iterable[Holder]) -> tuple[set[str], set[str]]:
    limits: set[str] = set()
    breakers: set[str] = set()
    # Schedules that are declared alike share their definition.
    for definition in {id(plan.definition): plan.definition for plan in plans}.values():
        if definition.guard or definition.capacity or definition.breaker or definition.budgets:
            more_limits, more_breakers = keys_of(definition)
            limits |= more_limits
            breakers |= more_breakers
    for holder in holders:
        if holder.guard_key is not None:
            limits.add(holder.guard_key)
        if holder.capacity_key is not None:
            limits.add(holder.capacity_key)
        if holder.breaker_key is not None:
            breakers.add(holder.breaker_key)
        if holder.cost_reserved is not None:
            limits.update(reserved_in(holder.cost_reserved))
    return limits, breakers


def _add_costs(tx: Snapshot, shared: Shared, plans: Iterable[tuple[str, Plan]]) -> None:
    """Add what the runs of schedules reported, where a budget counts cost."""
    uids = {uid for uid, plan in plans if any(one.unit is not None for one in plan.definition.budgets)}
    if missing := uids - shared.costs.keys():
        shared.costs |= tx.schedule_costs(missing)


def without_busy(shared: Shared, schedules: Sequence[Schedule]) -> Sequence[Schedule]:
    """Return the schedules whose keys could all be locked; the others stay due."""
    if not shared.busy:
        return schedules
    return [s for s in schedules if shared.busy.isdisjoint(_keys_of_schedule(s))]


def _keys_of_schedule(schedule: Schedule) -> set[str]:
    limits, breakers = _keys([schedule.plan], schedule.outstanding)
    held_key = schedule.state.held_key
    return limits | breakers | ({held_key} if held_key is not None else set())


def schedules_of(tx: Snapshot, states: Sequence[State]) -> list[Schedule]:
    """Combine rows with their plans, and with their outstanding jobs where a tick needs them."""
    known = tx.load_plans([(state.uid, state.revision) for state in states])
    found = [Schedule(state, known[state.uid, state.revision]) for state in states]
    crowded = [s.state.uid for s in found if s.state.outstanding and _needs_jobs(s)]
    return with_jobs(tx, found, crowded) if crowded else found


def _needs_jobs(schedule: Schedule) -> bool:
    state, definition = schedule.state, schedule.definition
    if definition.if_running == "queue":
        return state.running_jobs > 0 and may_be_full(state, definition.queue_limit)
    return definition.if_running == "cancel"


def with_jobs(tx: Snapshot, schedules: Iterable[Schedule], uids: Collection[str]) -> list[Schedule]:
    """Return the same schedules, with the outstanding jobs of these uids."""
    jobs = tx.outstanding(uids)
    return [
        Schedule(s.state, s.plan, jobs.get(s.state.uid, ())) if s.state.uid in uids else s for s in schedules
    ]


def coverage(tx: Snapshot, now: int, alive_since: int | None = None) -> Coverage:
    """Return when schedulers were alive, by their heartbeats, without times that a step of the clock skipped.

    `alive_since`: the caller counts as alive until now, although its next heartbeat is not written yet.
    """
    stretches = [(start, end) for start, end in tx.rows(_HEARTBEATS, since=now - _LOOK_BACK)]
    if alive_since is not None and alive_since <= now:
        stretches.append((alive_since, now))
    return Coverage.merge(stretches).without(tx.rows(_CLOCK_STEPS, since=now - _LOOK_BACK))


def system_paused_at(tx: Snapshot) -> int | None:
    """Return since when the system is paused; None when it is not."""
    value = tx.settings().get("system_paused")
    return int(value) if value else None


def load_schedule(tx: Snapshot, schedule_id: str) -> Schedule | None:
    """Load a whole schedule, with its outstanding jobs."""
    state = tx.state(schedule_id)
    if state is None:
        return None
    (schedule,) = with_jobs(tx, schedules_of(tx, [state]), [state.uid])
    return schedule


# Definitions prepared for use, cached by (uid, revision): parsed once, however often they fire.
#
# Only committed revisions are cached. A transaction that reads a revision of its own gets its plan without
# caching it: when the transaction is rolled back or runs again, another node may have committed the same
# number with another definition.


KEPT = 200_000
# Of plans whose definitions are large, and of all others, in characters: an edit makes another plan, and callers choose
# how large theirs are.
MOST_OF_LARGE, MOST_OF_OTHERS = 32 << 20, 256 << 20
NUMBERS_SKIPPED = "numbers_skipped"  # the setting that is higher after every restore

Key = tuple[str, int]  # uid and revision
Policies = Mapping[str, QuietHoursPolicy]


class PlanCache:
    """A cache of plans, bounded in number and in size. Quiet hours are part of a plan, so a changed policy evicts the
    plans that name one.

    A restored backup evicts them all: the same number of a revision may stand for another definition now.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._plans: dict[Key, Plan] = {}
        self._large: set[Key] = set()
        self._size_of_large = self._size_of_others = 0
        self._policies: dict[str, QuietHoursPolicy] = {}
        self._policies_version: str | None = None
        self._numbers_skipped: str | None = None

    @property
    def size(self) -> int:
        return len(self._plans)

    def load(self, tx: Snapshot, wanted: Iterable[Key]) -> dict[Key, Plan]:
        """Return the plans of those revisions; those that are not cached are read in one query."""
        keys = list(wanted)
        with self._lock:  # readers and the writer share the cache, and a changed policy empties it
            self._refresh_policies(tx)
            plans = self._plans
            missing = [key for key in keys if key not in plans]
            if len(plans) + len(missing) > KEPT:
                self._replace({})
                plans, missing = self._plans, keys
            found = read_plans(tx, missing, self._policies)
            answer = {key: plans.get(key) or found.get(key) or missing_plan(key) for key in keys}
            own = tx.own_revisions
            self._add({key: plan for key, plan in found.items() if key not in own} if own else found)
            return answer

    def remember(self, plans: Mapping[Key, Plan]) -> None:
        """Cache plans that were just committed, so that their writer need not read them again."""
        with self._lock:
            if len(self._plans) + len(plans) <= KEPT:
                self._add(plans)

    def remembered(self) -> dict[Key, Plan]:
        """Return the cached plans; all of them are committed."""
        with self._lock:
            return dict(self._plans)

    def _add(self, plans: Mapping[Key, Plan]) -> None:
        """Cache more plans; where the large ones are too many, forget those, and where the others are, forget all."""
        self._plans.update(plans)
        for key, plan in plans.items():
            size = plan.definition.size
            if size <= LARGE:
                self._size_of_others += size
            elif key not in self._large:
                self._large.add(key)
                self._size_of_large += size
        if self._size_of_large > MOST_OF_LARGE:
            for key in self._large:
                self._plans.pop(key, None)
            self._large, self._size_of_large = set(), 0
        if self._size_of_others > MOST_OF_OTHERS:
            self._replace({})

    def _replace(self, plans: dict[Key, Plan]) -> None:
        self._plans, self._large = {}, set()
        self._size_of_large = self._size_of_others = 0
        self._add(plans)

    def _refresh_policies(self, tx: Snapshot) -> None:
        settings = tx.settings()
        skipped = settings.get(NUMBERS_SKIPPED, "0")
        if skipped != self._numbers_skipped:
            self._replace({})
            self._policies_version, self._numbers_skipped = None, skipped
        version = settings.get("policies_version", "0")
        if version == self._policies_version:
            return
        self._replace(
            {key: plan for key, plan in self._plans.items() if plan.definition.quiet_hours_id is None}
        )
        self._policies = read_policies(tx)
        self._policies_version = version


def read_plans(tx: Snapshot, keys: Sequence[Key], policies: Policies) -> dict[Key, Plan]:
    """Return the plans of those revisions as recorded, without those that are not."""
    return {
        (uid, revision): _plan(schedule_id, fields, policies)
        for uid, revision, schedule_id, fields in (tx.rows(_REVISIONS, batch=keys) if keys else ())
    }


def read_policies(tx: Snapshot) -> dict[str, QuietHoursPolicy]:
    return {policy_id: policy_of(policy_id, json.loads(fields)) for policy_id, fields in tx.policies()}


def _plan(schedule_id: str, fields: str, policies: Policies) -> Plan:
    try:
        definition = definition_in(fields)
    except (SchedulerError, LookupError, TypeError, ValueError) as error:  # it affects no other schedule
        return broken_plan(schedule_id, f"its definition cannot be read: {error}")
    quiet = policies.get(definition.quiet_hours_id) if definition.quiet_hours_id else None
    return Plan(schedule_id, definition, quiet)


def missing_plan(key: Key) -> Plan:
    return broken_plan(key[0], "its revision is missing")
