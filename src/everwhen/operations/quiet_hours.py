"""Quiet-hours policies: put, list, delete."""

from __future__ import annotations

from everwhen.model.schedule import QuietHoursPolicy
from everwhen.ports.house import House


def put_quiet_hours(house: House, policy: QuietHoursPolicy) -> None:
    """Create or replace a policy; slots that it holds are looked at again."""
    house.catalogue.put_policy(house.clock.now(), policy)
    house.wake_scheduler()


def list_quiet_hours(house: House) -> list[QuietHoursPolicy]:
    return house.catalogue.policies()


def delete_quiet_hours(house: House, policy_id: str) -> None:
    """Remove a policy; refused while a schedule uses it."""
    house.catalogue.delete_policy(policy_id)
