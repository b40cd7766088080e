"""Whose work a job is, as far as workers are shared out: its owner, and within an owner its group."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple


class Share(NamedTuple):
    """An owner and a group. All jobs without an owner count as those of one owner, and so for groups."""

    owner: str | None
    group: str | None


class WorkersInUse(NamedTuple):
    """How many workers of a node the jobs of each share have: running ones, and claimed ones that have not begun.

    `most_per_owner` bounds the workers of one owner; jobs without an owner have no such bound.
    """

    of_share: Mapping[Share, int] = {}  # a tuple is never changed
    most_per_owner: int | None = None

    def of_owner(self, owner: str | None) -> int:
        return sum(count for share, count in self.of_share.items() if share.owner == owner)

    def may_have_more(self, owner: str | None) -> bool:
        """Return whether the owner may have one worker more."""
        return owner is None or self.most_per_owner is None or self.of_owner(owner) < self.most_per_owner

    @property
    def is_any_full(self) -> bool:
        """Return whether some owner has all the workers that it may have."""
        owners = {share.owner for share in self.of_share}
        return self.most_per_owner is not None and not all(map(self.may_have_more, owners))


NONE_IN_USE = WorkersInUse()


class FreeWorkers(NamedTuple):
    """Workers that a node offers to the evaluation of slots: what it fires may begin there at once."""

    node: str
    number: int
    queues: Sequence[str] | None = None
    in_use: WorkersInUse = NONE_IN_USE

    def serve(self, queue: str) -> bool:
        """Return whether they take jobs of this queue; those of one program contain an @ and have to be named."""
        return "@" not in queue if self.queues is None else queue in self.queues


@lru_cache(maxsize=10_000)
def share_key(owner: str | None, group: str | None) -> str:
    """Return the text that stands for a share in the rows of jobs; it is empty for the most usual one.

    >>> share_key("ann", None), share_key(None, None)
    ('["ann", null]', '')
    """
    return "" if owner is None and group is None else json.dumps([owner, group])


@lru_cache(maxsize=10_000)
def parse_share(key: str) -> Share:
    """Return the share that a text stands for.

    >>> parse_share('["ann", null]')
    Share(owner='ann', group=None)
    """
    return Share(*json.loads(key)) if key else Share(None, None)
