"""Reservations that were not released, because a process of release 0.1 ended the job.

Release 0.1 knows no cost. A worker of it that ends a job, or an API of it that cancels one, leaves what the job had
reserved on the budget's row, where it would count for ever. So the janitor compares each row with the jobs that are
outstanding. Only where they differ is anything locked: the rows of the budgets, in order of their keys, as for every
charge. Under that lock the sum is counted anew, and a run that had begun counts as its estimate, like every run
without a report, in the windows in which it ended.

The comparison is two reads beside the writers. On PostgreSQL a firing may commit between them; the count under the
lock then finds nothing to change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from everwhen.decide.budgets import settle_late
from everwhen.model.cost import reserved_in
from everwhen.model.job import Job
from everwhen.model.spending import Spending
from everwhen.store.commit import put_costs, write_shared
from everwhen.store.dialect import Statement
from everwhen.store.job_rows import JOB
from everwhen.store.load import hold
from everwhen.store.transaction import Snapshot, Transaction

# budgets, whole: one row for each budget that was ever charged.
_RESERVED = Statement("SELECT key, unit, reserved, caught_up_reserved FROM budgets")
# idx_jobs_outstanding, whole: few of all jobs are outstanding.
_RESERVING = Statement("""
SELECT cost_reserved, origin FROM jobs WHERE status IN ('queued', 'running') AND cost_reserved IS NOT NULL""")
# A pass over jobs, beside the writers, and only where something is left over. Every process of this release notes what
# an attempt cost.
_NOT_SETTLED = Statement("""
SELECT job_id FROM jobs WHERE status NOT IN ('queued', 'running') AND cost_reserved IS NOT NULL AND cost_source IS NULL
    AND node IS NOT NULL""")
# The unique key on job_id.
_STILL_NOT_SETTLED = Statement(f"""
SELECT {JOB} FROM jobs WHERE job_id = ANY(:job_ids::texts) AND cost_source IS NULL
    AND status NOT IN ('queued', 'running') ORDER BY job_id""")

_Sums = dict[tuple[str, str], tuple[int, int]]  # by key and unit: all, and that of catch-up


def budgets_with_leftovers(tx: Snapshot) -> list[str]:
    """Return the keys of the budgets whose rows hold another sum than the outstanding jobs have reserved."""
    rows = [row for row in tx.rows(_RESERVED) if row[1] is not None]
    if not any(row[2] or row[3] for row in rows):
        return []
    sums = _sums(tx)
    return sorted(key for key, unit, *held in rows if tuple(held) != sums.get((key, unit), (0, 0)))


def jobs_not_settled(tx: Snapshot) -> list[str]:
    """Return the ids of jobs that began, reserved something and ended, and whose cost was not recorded."""
    return tx.column(_NOT_SETTLED)


def give_back_leftovers(tx: Transaction, now: int, keys: Collection[str], job_ids: Collection[str]) -> int:
    """Count what is reserved of these budgets anew, and these jobs as their estimates; return how many rows changed."""
    jobs = tx.many(Job._make, _STILL_NOT_SETTLED, job_ids=job_ids) if job_ids else []
    shared = hold(tx, (), limits={*keys, *_keys_of(jobs)})
    if jobs:  # another node may have done it before the rows were locked
        jobs = tx.many(Job._make, _STILL_NOT_SETTLED, job_ids=job_ids)
        for job in jobs:
            settle_late(shared, job, now)
        put_costs(tx, [(job, None) for job in jobs])
    sums, changed = _sums(tx), 0
    for spending in list(shared.spendings.values()):
        counted = _counted(spending, sums)
        changed += counted != spending
        shared.put_spending(counted)
    write_shared(tx, shared, now)
    return changed


def _counted(spending: Spending, sums: _Sums) -> Spending:
    reserved, caught_up = sums.get((spending.key, spending.unit or ""), (0, 0))
    return spending._replace(reserved=reserved, caught_up_reserved=caught_up)


def _sums(tx: Snapshot) -> _Sums:
    everything: Counter[tuple[str, str]] = Counter()
    caught_up: Counter[tuple[str, str]] = Counter()
    for text, origin in tx.rows(_RESERVING):
        for key, cost in reserved_in(text).items():
            everything[key, cost.unit] += cost.amount
            if origin == "catch_up":
                caught_up[key, cost.unit] += cost.amount
    return {which: (amount, caught_up[which]) for which, amount in everything.items()}


def _keys_of(jobs: Iterable[Job]) -> set[str]:
    return {key for job in jobs for key in reserved_in(job.cost_reserved)}
