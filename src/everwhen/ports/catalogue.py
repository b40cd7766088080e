"""Schedules, revisions and policies: what people and files declare."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from everwhen.model.decision import Creation, Decision
from everwhen.model.events import Event
from everwhen.model.schedule import Plan, QuietHoursPolicy, Schedule, State, Status
from everwhen.model.shared import Shared
from everwhen.model.token import Answer

Change = Callable[[Schedule, int, Shared], Decision]
Filling = Callable[[Schedule, Sequence[int], int, Shared], Decision]
Remember = Callable[[Decision], Answer]


class NewSchedule(NamedTuple):
    """A schedule about to be written: its first state and events, and the plan they were made from."""

    creation: Creation
    plan: Plan
    source: str
    key: str | None = None
    token_id: str | None = None


class Terms(NamedTuple):
    """What creating is bound to: how many schedules its token may have, and the answer to be remembered with it."""

    token_id: str
    max_schedules: int | None = None
    answer: Answer | None = None


class Entry(NamedTuple):
    """A schedule with what only those who look at it ask for."""

    schedule: Schedule
    source: str
    key: str | None
    token_id: str | None
    created_at: int
    updated_at: int


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """Everything that a configuration changes, to be written in one transaction.

    It was worked out against configuration revision `based_on`; when another has come since, it is not written.
    Changes of one schedule are decided one after another, each on what the one before left.
    """

    based_on: int
    digest: str
    source: str = "config"
    actor: str | None = None
    created: Sequence[NewSchedule] = ()
    changed: Sequence[tuple[str, Change]] = ()
    removed: Sequence[tuple[str, Change]] = ()
    policies: Sequence[QuietHoursPolicy] = ()
    removed_policies: Sequence[str] = ()
    places: Mapping[str, str] = field(default_factory=dict)  # file and line by schedule id
    events: Sequence[Event] = ()
    sections: Mapping[str, str] = field(default_factory=dict)  # its other entries, by path


@dataclass(frozen=True, slots=True)
class ScheduleFilter:
    """Which schedules: all that are given must hold."""

    status: Status | None = None
    group: str | None = None
    owner: str | None = None
    type: str | None = None
    target: str | None = None
    text: str | None = None  # somewhere in its id or name


class Catalogue(Protocol):
    """What is declared, one transaction a verb."""

    def create(self, now: int, schedules: Sequence[NewSchedule], terms: Terms | None = None) -> list[State]:
        """Write new schedules, all or none; an id that exists is refused."""
        ...

    def change(
        self,
        now: int,
        schedule_id: str,
        decide: Change,
        *further: Change,
        remember: Remember | None = None,
        limits: Collection[str] = (),
    ) -> Decision:
        """Decide about one schedule and write it, with a new revision where its plan changed.

        Further decisions are made on what the one before left, all in one transaction; the last is returned. What
        was decided is remembered in it, where wanted: a request that comes again changes nothing and is refused.
        `limits` are the keys of further limits that a single decision needs.
        """
        ...

    def backfill(
        self,
        now: int,
        schedule_id: str,
        slots: Sequence[int],
        decide: Filling,
        *,
        limits: Collection[str] = (),
    ) -> Decision:
        """Decide about those of the slots that have no job yet, and write it; another may fill some meanwhile."""
        ...

    def cancel_orphan(self, now: int, job_id: str) -> None:
        """Cancel an outstanding job whose schedule is deleted."""
        ...

    def delete(self, now: int, schedule_id: str, decide: Change) -> None:
        """Decide the end of a schedule and remove its row; the ledger stays."""
        ...

    def get(self, schedule_id: str) -> Schedule | None:
        """One schedule as it stands."""
        ...

    def entry(self, schedule_id: str) -> Entry | None:
        """One schedule as people look at it."""
        ...

    def id_of_key(self, key: str) -> str | None:
        """The id of the schedule that was put under a caller's own key."""
        ...

    def entries(
        self, wanted: ScheduleFilter, *, limit: int, before: int | None = None, offset: int = 0
    ) -> list[Entry]:
        """Schedules, newest first; `before` is the row_id of the last of the page before."""
        ...

    def count(self, wanted: ScheduleFilter, *, most: int) -> int:
        """How many there are; counting ends at `most`."""
        ...

    def soonest(self, count: int, *, owner: str | None = None) -> list[Schedule]:
        """The schedules that are due soonest."""
        ...

    def of_source(self, source: str) -> list[Schedule]:
        """The schedules that came from there: `config`, `api`, `python` (added), `python:{name}` (declared)."""
        ...

    def from_before(self, source: str, *, only_groups: bool = False) -> list[Schedule]:
        """Schedules of a source, or those that run a group's work, with a newest revision of the release before."""
        ...

    def keep_as_they_are(self, schedules: Sequence[Schedule]) -> None:
        """Those are as they should be: they are no longer among those from before."""
        ...

    def due_to_resume(self, now: int) -> list[str]:
        """The ids of paused schedules whose pause has an end that has come."""
        ...

    def shared_of(self, *schedules: Schedule) -> Shared:
        """The limits and breakers of these schedules as they stand."""
        ...

    def states(self, wanted: ScheduleFilter, *, limit: int, after: str | None = None) -> list[State]:
        """Schedules by id, from the one after `after` on."""
        ...

    def reset_breaker(self, now: int, key: str, actor: str | None = None) -> bool:
        """Close a breaker by hand; False when it was closed already."""
        ...

    def policies(self, source: str | None = None) -> list[QuietHoursPolicy]:
        """Every quiet-hours policy, or those that came from there."""
        ...

    def config_revision(self, source: str = "config") -> tuple[int, str]:
        """The number and the digest of what is declared there; 0 and nothing when nothing is."""
        ...

    def config_places(self) -> dict[str, str]:
        """Where each schedule of the configuration in force stands: file and line by id."""
        ...

    def config_sections(self) -> dict[str, str] | None:
        """The entries of the configuration in force that declare no schedules; None where none is on record."""
        ...

    def reconcile(self, now: int, changes: Reconciliation) -> bool:
        """Write a configuration, all of it or nothing; False when another came between."""
        ...

    def add_policy(self, now: int, policy: QuietHoursPolicy) -> None:
        """A new policy; an id that is taken is refused."""
        ...

    def change_policy(
        self, now: int, policy_id: str, change: Callable[[QuietHoursPolicy], QuietHoursPolicy]
    ) -> QuietHoursPolicy:
        """Replace a policy of the API by what the change makes of it; one of the file is refused."""
        ...

    def delete_own_policy(self, policy_id: str) -> None:
        """Remove a policy of the API that no schedule uses."""
        ...

    def system_paused_at(self) -> int | None:
        """Since when the system switch is on; None when it is off."""
        ...

    def set_system_paused(self, now: int, is_paused: bool, actor: str | None = None) -> None:
        """The one stored switch: nothing fires or is claimed while it is on."""
        ...
