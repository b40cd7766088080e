"""The catalogue port: schedules, revisions and policies, as users and files declare them."""

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
    """A schedule about to be written: its first state and events, and the plan that they were made from."""

    creation: Creation
    plan: Plan
    source: str
    key: str | None = None
    token_id: str | None = None


class Terms(NamedTuple):
    """The conditions of a creation: the quota of its token, and the answer to be remembered with it."""

    token_id: str
    max_schedules: int | None = None
    answer: Answer | None = None


class Entry(NamedTuple):
    """A schedule with the columns that only listings show."""

    schedule: Schedule
    source: str
    key: str | None
    token_id: str | None
    created_at: int
    updated_at: int


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """Everything that a configuration changes, to be written in one transaction.

    It was computed against configuration revision `based_on` and is not written when a newer revision exists. Changes
    of one schedule are decided one after another, each on the state that the previous one left.
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
    """A filter for schedules: all conditions that are set must hold."""

    status: Status | None = None
    group: str | None = None
    owner: str | None = None
    type: str | None = None
    target: str | None = None
    text: str | None = None  # contained in its id or name


class Catalogue(Protocol):
    """The declared schedules and policies; each method is one transaction."""

    def create(self, now: int, schedules: Sequence[NewSchedule], terms: Terms | None = None) -> list[State]:
        """Write new schedules, all or none; refuse an id that exists."""
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
        """Decide about one schedule and write the decision, with a new revision if its plan changed.

        Further decisions are made on the state that the previous one left, all in one transaction; the last one is
        returned. `remember` stores the answer to the request in the same transaction: a repeated request changes
        nothing and is refused. `limits` are the keys of further limits that a single decision needs.
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
        """Decide about the slots that have no job yet, and write it; another caller may fill some of them first."""
        ...

    def cancel_orphan(self, now: int, job_id: str) -> None:
        """Cancel an outstanding job whose schedule is deleted."""
        ...

    def delete(self, now: int, schedule_id: str, decide: Change) -> None:
        """Decide the end of a schedule and remove its row; the ledger stays."""
        ...

    def get(self, schedule_id: str) -> Schedule | None:
        """Return one schedule as it is now."""
        ...

    def entry(self, schedule_id: str) -> Entry | None:
        """Return one schedule as listings show it."""
        ...

    def id_of_key(self, key: str) -> str | None:
        """Return the id of the schedule that was created under a caller's own key."""
        ...

    def entries(
        self, wanted: ScheduleFilter, *, limit: int, before: int | None = None, offset: int = 0
    ) -> list[Entry]:
        """Return schedules, newest first; `before` is the row_id of the last entry of the previous page."""
        ...

    def count(self, wanted: ScheduleFilter, *, most: int) -> int:
        """Return how many schedules match; counting stops at `most`."""
        ...

    def soonest(self, count: int, *, owner: str | None = None) -> list[Schedule]:
        """Return the schedules that are due soonest."""
        ...

    def of_source(self, source: str) -> list[Schedule]:
        """Return the schedules of a source: `config`, `api`, `python` (added), `python:{name}` (declared)."""
        ...

    def from_before(self, source: str, *, only_groups: bool = False) -> list[Schedule]:
        """Return schedules of a source, or its group schedules only, whose newest revision an earlier release wrote."""
        ...

    def keep_as_they_are(self, schedules: Sequence[Schedule]) -> None:
        """Mark the newest revisions of these schedules as up to date: `from_before` no longer returns them."""
        ...

    def due_to_resume(self, now: int) -> list[str]:
        """Return the ids of paused schedules whose pause ends by now."""
        ...

    def shared_of(self, *schedules: Schedule) -> Shared:
        """Return the current limits and breakers of these schedules."""
        ...

    def states(self, wanted: ScheduleFilter, *, limit: int, after: str | None = None) -> list[State]:
        """Return the states of schedules in order of id, starting behind `after`."""
        ...

    def reset_breaker(self, now: int, key: str, actor: str | None = None) -> bool:
        """Close a breaker on request; False when it was closed already."""
        ...

    def policies(self, source: str | None = None) -> list[QuietHoursPolicy]:
        """Return every quiet-hours policy, or those of a source."""
        ...

    def config_revision(self, source: str = "config") -> tuple[int, str]:
        """Return the number and the digest of the last revision of a source; 0 and an empty string when it has none."""
        ...

    def config_places(self) -> dict[str, str]:
        """Return where each schedule of the current configuration is declared: file and line by id."""
        ...

    def config_sections(self) -> dict[str, str] | None:
        """Return the entries of the current configuration that declare no schedules; None where none is recorded."""
        ...

    def reconcile(self, now: int, changes: Reconciliation) -> bool:
        """Write a configuration, all of it or nothing; False when another one was written since `based_on`."""
        ...

    def add_policy(self, now: int, policy: QuietHoursPolicy) -> None:
        """Write a new policy; refuse an id that is taken."""
        ...

    def change_policy(
        self, now: int, policy_id: str, change: Callable[[QuietHoursPolicy], QuietHoursPolicy]
    ) -> QuietHoursPolicy:
        """Replace a policy that the API made by the result of `change`; refuse one of the configuration file."""
        ...

    def delete_own_policy(self, policy_id: str) -> None:
        """Remove a policy that the API made and that no schedule uses."""
        ...

    def system_paused_at(self) -> int | None:
        """Return since when the system is paused; None when it is not."""
        ...

    def set_system_paused(self, now: int, is_paused: bool, actor: str | None = None) -> None:
        """Set the stored system switch: nothing fires or is claimed while the system is paused."""
        ...
