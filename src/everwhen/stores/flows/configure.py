"""Writing a whole configuration: schedules and policies are created, changed and deleted in one transaction."""

from __future__ import annotations

import json

from everwhen.model.changes import Reconciliation
from everwhen.stores.flows.change import change_schedule, create_schedules
from everwhen.stores.flows.system import remove_policy, write_policy
from everwhen.stores.plans import PlanCache
from everwhen.stores.transaction import Transaction


def reconcile(tx: Transaction, plans: PlanCache, now: int, changes: Reconciliation) -> bool:
    """Write all of it; return False, and write nothing, when another configuration was written since `based_on`.

    Schedules are deleted before policies, and before others take their ids. Policies are written last, because plans
    that are read after them contain them.
    """
    if tx.config_revision(changes.source)[0] != changes.based_on:
        return False
    new_policies = {policy.policy_id for policy in changes.policies}
    for schedule_id, decide in changes.removed:
        tx.delete_schedule(change_schedule(tx, plans, now, schedule_id, decide).after.row_id)
    if changes.created:
        create_schedules(tx, now, changes.created, new_policies=new_policies)
    for schedule_id, decide in changes.changed:
        change_schedule(tx, plans, now, schedule_id, decide, new_policies=new_policies)
    for policy in changes.policies:
        write_policy(tx, plans, now, policy, source="config")
    for policy_id in changes.removed_policies:
        remove_policy(tx, policy_id)
    tx.insert_config(
        now,
        source=changes.source,
        digest=changes.digest,
        actor=changes.actor,
        places=json.dumps(dict(changes.places), separators=(",", ":")),
        sections=json.dumps(dict(changes.sections), separators=(",", ":")),
    )
    tx.insert_events(changes.events)
    return True
