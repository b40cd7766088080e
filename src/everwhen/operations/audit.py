"""What is on record, for whoever may see it: lists of events and of messages, newest first.

A token with an owner sees what is that owner's; what belongs to nobody in particular (a start, a reload, somebody who
was turned away) is for tokens without one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from everwhen.model.history import Recorded
from everwhen.operations.submissions import COUNTED, Caller
from everwhen.ports.house import House
from everwhen.ports.ledger import EventFilter
from everwhen.ports.messages import Message, MessageFilter

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Some of many; `total` is counted up to a bound."""

    items: Sequence[T]
    total: int = 0
    is_approximate: bool = False


def list_events(
    house: House,
    wanted: EventFilter,
    caller: Caller,
    *,
    schedule_id: str | None = None,
    limit: int,
    before: int | None = None,
) -> Page[Recorded]:
    """Events that the caller may see, newest first; of one schedule also when it is deleted."""
    if schedule_id is not None:
        wanted = replace(wanted, uid=house.ledger.uid_of(schedule_id))
        if wanted.uid is None:
            return Page(())
    owner = caller.token.owner
    if owner is not None and wanted.owner not in (None, owner):
        return Page(())
    wanted = replace(wanted, owner=owner or wanted.owner)
    items = house.ledger.events(wanted, limit=limit, before=before)
    return _page(items, house.ledger.count_events(wanted, most=COUNTED + 1))


def list_messages(
    house: House, wanted: MessageFilter, caller: Caller, *, limit: int, before: int | None = None
) -> Page[Message]:
    """Messages that the caller may see, newest first."""
    owner = caller.token.owner
    if owner is not None and wanted.owner not in (None, owner):
        return Page(())
    wanted = wanted._replace(owner=owner or wanted.owner)
    items = house.messages.list(wanted, limit=limit, before=before)
    return _page(items, house.messages.count(wanted, most=COUNTED + 1))


def _page(items: Sequence[T], total: int) -> Page[T]:
    return Page(items, min(total, COUNTED), total > COUNTED)
