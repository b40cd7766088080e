"""Quiet-hours policies: made, listed, changed, deleted. Those of the configuration file are changed there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from everwhen.errors import UnknownPolicyError
from everwhen.model.schedule import QuietHoursPolicy
from everwhen.ports.runtime import Runtime


@dataclass(frozen=True, slots=True)
class PolicyEntry:
    """A policy, and whether it stands in the file (`config`) or came over REST (`api`)."""

    policy: QuietHoursPolicy
    source: str


def create_quiet_hours(runtime: Runtime, policy: QuietHoursPolicy) -> None:
    """A new policy; an id that is taken is refused."""
    runtime.catalogue.add_policy(runtime.clock.now(), policy)


def change_quiet_hours(
    runtime: Runtime, policy_id: str, change: Callable[[QuietHoursPolicy], QuietHoursPolicy]
) -> QuietHoursPolicy:
    """Make another of a policy, at once for everything that uses it; slots that it holds are looked at again."""
    after = runtime.catalogue.change_policy(runtime.clock.now(), policy_id, change)
    runtime.wake_scheduler()
    return after


def list_entries(runtime: Runtime) -> list[PolicyEntry]:
    """Every policy by id, each with where it came from."""
    declared = {policy.policy_id for policy in runtime.catalogue.policies("config")}
    return [
        PolicyEntry(policy, "config" if policy.policy_id in declared else "api")
        for policy in runtime.catalogue.policies()
    ]


def get_entry(runtime: Runtime, policy_id: str) -> PolicyEntry:
    for entry in list_entries(runtime):
        if entry.policy.policy_id == policy_id:
            return entry
    raise UnknownPolicyError(policy_id)


def delete_own_quiet_hours(runtime: Runtime, policy_id: str) -> None:
    """Remove a policy that came over REST; one that a schedule uses is refused, and so are those of the file."""
    runtime.catalogue.delete_own_policy(policy_id)
