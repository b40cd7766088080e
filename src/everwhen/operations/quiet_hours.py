"""Quiet-hours policies: created, listed, changed, deleted. Policies of the configuration file are changed there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from everwhen.errors import UnknownPolicyError
from everwhen.model.schedule import QuietHoursPolicy
from everwhen.runtime import Runtime
from everwhen.store.opened import store_of


@dataclass(frozen=True, slots=True)
class PolicyEntry:
    """A policy, and whether it comes from the file (`config`) or over REST (`api`)."""

    policy: QuietHoursPolicy
    source: str


def create_quiet_hours(runtime: Runtime, policy: QuietHoursPolicy) -> None:
    """Create a policy; refuse an id that is taken."""
    store_of(runtime).catalogue.add_policy(runtime.clock.now(), policy)


def change_quiet_hours(
    runtime: Runtime, policy_id: str, change: Callable[[QuietHoursPolicy], QuietHoursPolicy]
) -> QuietHoursPolicy:
    """Change a policy at once for every schedule that uses it; slots that it holds are evaluated again."""
    after = store_of(runtime).catalogue.change_policy(runtime.clock.now(), policy_id, change)
    runtime.wake_scheduler()
    return after


def list_entries(runtime: Runtime) -> list[PolicyEntry]:
    """Return every policy with its source, by id."""
    store = store_of(runtime)
    declared = {policy.policy_id for policy in store.catalogue.policies("config")}
    return [
        PolicyEntry(policy, "config" if policy.policy_id in declared else "api")
        for policy in store.catalogue.policies()
    ]


def policy_ids(runtime: Runtime) -> frozenset[str]:
    """Return the ids of all policies, which schedules may name."""
    return frozenset(policy.policy_id for policy in store_of(runtime).catalogue.policies())


def get_entry(runtime: Runtime, policy_id: str) -> PolicyEntry:
    for entry in list_entries(runtime):
        if entry.policy.policy_id == policy_id:
            return entry
    raise UnknownPolicyError(policy_id)


def delete_own_quiet_hours(runtime: Runtime, policy_id: str) -> None:
    """Delete a policy that came over REST; refuse one that a schedule uses, and those of the file."""
    store_of(runtime).catalogue.delete_own_policy(policy_id)
