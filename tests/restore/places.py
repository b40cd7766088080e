"""A database of either kind that is used, copied, used on, and restored, by a clock of its own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from everwhen.operations.maintenance import back_up
from everwhen.store.restore import Restored
from everwhen.testing.manual import ManualClock
from everwhen.wiring import open_stack, restore_database
from tests.conformance.stores import Capabilities, Site
from tests.conformance.tenant import START, Tenant

CAPABILITIES = Capabilities(several_processes=True)


@dataclass(slots=True)
class Place:
    """Where the database is; who moves in is one process, and moves out before anything is restored."""

    url: str
    backup: Path
    clock: ManualClock

    def move_in(self, node: str = "node-1") -> Tenant:
        site = Site(self.url, lambda clock: open_stack(self.url, clock=clock), lambda: None)
        return Tenant(site, CAPABILITIES, self.clock, node)

    def back_up(self, runtime: Tenant) -> None:
        back_up(runtime.runtime, self.backup)

    def leave(self, runtime: Tenant) -> None:
        """A clean stop."""
        runtime.runtime.slots.sign_off_node(runtime.now, node=runtime.node)
        runtime.close()

    def restore(self, *, catch_up: bool = False) -> Restored:
        return restore_database(self.url, self.backup, catch_up=catch_up, clock=self.clock)


def place_on_sqlite(folder: Path) -> Place:
    return Place(f"sqlite:///{folder}/everwhen.db", folder / "everwhen.backup", ManualClock(START))
