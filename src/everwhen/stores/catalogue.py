"""The catalogue port on any database: schedules, their revisions, quiet-hours policies, the system switch.

The flows that write are imported when they are used: a command that only reads needs none of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence

from everwhen.model.decision import Decision
from everwhen.model.schedule import QuietHoursPolicy, Schedule, State
from everwhen.model.serialize import policy_of
from everwhen.model.shared import Shared
from everwhen.ports.catalogue import (
    Change,
    Entry,
    Filling,
    NewSchedule,
    Reconciliation,
    Remember,
    ScheduleFilter,
    Terms,
)
from everwhen.stores.flows.load import add_shared, load_schedule, schedules_of, system_paused_at
from everwhen.stores.lanes import Lane
from everwhen.stores.plans import PlanCache
from everwhen.stores.transaction import Row, Snapshot, Store, Transaction


class StoredCatalogue:
    """The declared schedules and policies, kept in a store."""

    def __init__(self, store: Store, plans: PlanCache) -> None:
        self._store = store
        self._plans = plans

    def create(self, now: int, schedules: Sequence[NewSchedule], terms: Terms | None = None) -> list[State]:
        from everwhen.stores.flows.change import create_schedules

        return self._store.write(Lane.API, lambda tx: create_schedules(tx, now, schedules, terms))

    def change(
        self,
        now: int,
        schedule_id: str,
        decide: Change,
        *further: Change,
        remember: Remember | None = None,
        limits: Collection[str] = (),
    ) -> Decision:
        if not further:
            return self._store.write(
                Lane.API, lambda tx: self._change(tx, now, schedule_id, decide, remember, limits)
            )

        def work(tx: Transaction) -> Decision:
            return [self._change(tx, now, schedule_id, each) for each in (decide, *further)][-1]

        return self._store.write(Lane.API, work)

    def _change(
        self,
        tx: Transaction,
        now: int,
        schedule_id: str,
        decide: Change,
        remember: Remember | None = None,
        limits: Collection[str] = (),
    ) -> Decision:
        from everwhen.stores.flows.change import change_schedule

        return change_schedule(tx, self._plans, now, schedule_id, decide, remember, limits=limits)

    def backfill(
        self,
        now: int,
        schedule_id: str,
        slots: Sequence[int],
        decide: Filling,
        *,
        limits: Collection[str] = (),
    ) -> Decision:
        from everwhen.stores.flows.change import fill_slots

        def fill(tx: Transaction) -> Decision:
            return fill_slots(tx, self._plans, now, schedule_id, slots, decide, limits=limits)

        return self._store.write(Lane.API, fill)

    def cancel_orphan(self, now: int, job_id: str) -> None:
        from everwhen.stores.flows.change import cancel_job_of_nobody

        self._store.write(Lane.API, lambda tx: cancel_job_of_nobody(tx, self._plans, now, job_id))

    def delete(self, now: int, schedule_id: str, decide: Change) -> None:
        def remove(tx: Transaction) -> None:
            tx.delete_schedule(self._change(tx, now, schedule_id, decide).after.row_id)

        self._store.write(Lane.API, remove)

    def get(self, schedule_id: str) -> Schedule | None:
        with self._store.read() as tx:
            return load_schedule(tx, self._plans, schedule_id)

    def entry(self, schedule_id: str) -> Entry | None:
        with self._store.read() as tx:
            found = tx.entry(schedule_id)
            return None if found is None else self._entries(tx, [found])[0]

    def id_of_key(self, key: str) -> str | None:
        with self._store.read() as tx:
            return tx.id_of_key(key)

    def entries(
        self, wanted: ScheduleFilter, *, limit: int, before: int | None = None, offset: int = 0
    ) -> list[Entry]:
        given = _given(wanted)
        with self._store.read() as tx:
            found = tx.entries(given, text=wanted.text, limit=limit, before=before, offset=offset)
            return self._entries(tx, found)

    def _entries(self, tx: Snapshot, found: Sequence[tuple[State, Row]]) -> list[Entry]:
        schedules = schedules_of(tx, self._plans, [state for state, _ in found])
        return [Entry(schedule, *more) for schedule, (_, more) in zip(schedules, found, strict=True)]  # type: ignore[arg-type]

    def count(self, wanted: ScheduleFilter, *, most: int) -> int:
        with self._store.read() as tx:
            return tx.count_schedules(_given(wanted), text=wanted.text, most=most)

    def soonest(self, count: int, *, owner: str | None = None) -> list[Schedule]:
        with self._store.read() as tx:
            return schedules_of(tx, self._plans, tx.states_soonest(count, owner))

    def of_source(self, source: str) -> list[Schedule]:
        with self._store.read() as tx:
            return schedules_of(tx, self._plans, tx.states_of_source(source))

    def from_before(self, source: str, *, only_groups: bool = False) -> list[Schedule]:
        with self._store.read() as tx:
            states = tx.states_from_before(source, only_groups=only_groups)
            return schedules_of(tx, self._plans, states)

    def keep_as_they_are(self, schedules: Sequence[Schedule]) -> None:
        states = [schedule.state for schedule in schedules]
        causes = [("created" if s.revision == 1 else "edited", s.uid, s.revision) for s in states]
        self._store.write(Lane.API, lambda tx: tx.put_causes(causes))

    def due_to_resume(self, now: int) -> list[str]:
        with self._store.read() as tx:
            return tx.due_to_resume(now)

    def shared_of(self, *schedules: Schedule) -> Shared:
        shared = Shared()
        with self._store.read() as tx:
            add_shared(tx, shared, schedules)
        return shared

    def states(self, wanted: ScheduleFilter, *, limit: int, after: str | None = None) -> list[State]:
        with self._store.read() as tx:
            return tx.list_states(_given(wanted), limit=limit, after=after or "")

    def reset_breaker(self, now: int, key: str, actor: str | None = None) -> bool:
        from everwhen.stores.flows.system import close_breaker

        return self._store.write(Lane.API, lambda tx: close_breaker(tx, now, key, actor))

    def policies(self, source: str | None = None) -> list[QuietHoursPolicy]:
        with self._store.read() as tx:
            return [policy_of(policy_id, json.loads(fields)) for policy_id, fields in tx.policies(source)]

    def config_revision(self, source: str = "config") -> tuple[int, str]:
        with self._store.read() as tx:
            return tx.config_revision(source)

    def config_places(self) -> dict[str, str]:
        with self._store.read() as tx:
            return dict(json.loads(tx.config_places() or "{}"))

    def config_sections(self) -> dict[str, str] | None:
        with self._store.read() as tx:
            found = tx.config_sections()
        return None if found is None else dict(json.loads(found))

    def reconcile(self, now: int, changes: Reconciliation) -> bool:
        from everwhen.stores.flows.configure import reconcile

        is_written = self._store.write(Lane.API, lambda tx: reconcile(tx, self._plans, now, changes))
        if is_written:
            new = [each for each in changes.created if each.plan.quiet is None]
            self._plans.remember(
                {(each.creation.state.uid, each.creation.state.revision): each.plan for each in new}
            )
        return is_written

    def add_policy(self, now: int, policy: QuietHoursPolicy) -> None:
        from everwhen.stores.flows.system import add_policy

        self._store.write(Lane.API, lambda tx: add_policy(tx, self._plans, now, policy))

    def change_policy(
        self, now: int, policy_id: str, change: Callable[[QuietHoursPolicy], QuietHoursPolicy]
    ) -> QuietHoursPolicy:
        from everwhen.stores.flows.system import change_policy

        return self._store.write(Lane.API, lambda tx: change_policy(tx, self._plans, now, policy_id, change))

    def delete_own_policy(self, policy_id: str) -> None:
        from everwhen.stores.flows.system import remove_own_policy

        self._store.write(Lane.API, lambda tx: remove_own_policy(tx, policy_id))

    def system_paused_at(self) -> int | None:
        with self._store.read() as tx:
            return system_paused_at(tx)

    def set_system_paused(self, now: int, is_paused: bool, actor: str | None = None) -> None:
        from everwhen.stores.flows.system import switch_system

        self._store.write(Lane.API, lambda tx: switch_system(tx, self._plans, now, is_paused, actor))


def _given(wanted: ScheduleFilter) -> dict[str, str]:
    """Return the conditions on columns, by column name."""
    values = {name: getattr(wanted, name) for name in ("status", "group", "owner", "type", "target")}
    return {name: value for name, value in values.items() if value is not None}
