"""Applying what a configuration, or a program, declares to the store, in one transaction between two evaluations.

New schedules are created, changed ones edited, those that left the file removed. Unchanged schedules are not touched,
and counters, pauses and running jobs stay. The protocol: compute the changes on a snapshot, then write them together
with the revision number of the configuration on which they are based. If another process was faster, the stored
number differs, nothing is written, and the changes are computed again. A process that dies before the commit has
changed nothing.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

from everwhen.decide import edit, reconcile, status
from everwhen.decide.draft import Draft
from everwhen.decide.reconcile import ConfigChanges
from everwhen.errors import (
    ConfigError,
    DuplicateScheduleError,
    MissingQuietHoursError,
    QuietHoursChangedError,
    RemovalError,
    UnknownScheduleError,
)
from everwhen.model.changes import Change, Decision, Insertion, Reconciliation
from everwhen.model.declare import Declarations, Declared
from everwhen.model.events import Event
from everwhen.model.instants import SECOND
from everwhen.model.limits import Shared
from everwhen.model.queries import AlertFilter
from everwhen.model.schedule import Definition, Plan, QuietHoursPolicy, Schedule
from everwhen.operations.schedules import policy_of
from everwhen.runtime import Runtime
from everwhen.store.opened import store_of
from everwhen.timetable.trigger import Once, parse_after

MOST_TRIES = 5
MOST_NAMED = 50
MOST_SHOWN = 20
PORTION = 500
MOST_LINES = 50


@dataclass(frozen=True, slots=True)
class Applied:
    """What applying a configuration changed, by schedule id."""

    created: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    switched: tuple[str, ...] = ()
    upgraded: tuple[str, ...] = ()  # changed, although the declaration is the same as before
    no_longer_stop: tuple[str, ...] = ()  # changed to on_exhausted: continue
    sections: tuple[str, ...] = ()  # changes besides schedules: notify[0], workflows.1

    def __bool__(self) -> bool:
        return bool(self.created or self.changed or self.removed or self.switched or self.sections)


def preview(runtime: Runtime, declared: Declarations, source: str = "config") -> ConfigChanges:
    """Return what applying would change, without writing."""
    catalogue = store_of(runtime).catalogue
    return reconcile.reconcile(declared, catalogue.of_source(source), catalogue.policies(source))


def apply(
    runtime: Runtime,
    declared: Declarations,
    *,
    source: str = "config",
    actor: str | None = None,
    may_remove: bool = True,
    may_remove_most: bool = False,
    may_be_past: bool = True,
) -> Applied:
    """Make the schedules of a source those that are declared; change nothing when any part of it is refused.

    With `may_remove=False` they are only added and changed.

    The source is the file (`config`), or a program by its name (`python:app`). Each source removes only its own
    schedules.
    """
    store = store_of(runtime)
    by = actor or source
    for _ in range(MOST_TRIES):
        based_on, digest = store.catalogue.config_revision(source)
        changes = preview(runtime, declared, source)
        if not may_remove:
            changes = replace(changes, removed=(), removed_policies=())
        if changes.removes_most and not may_remove_most:
            raise RemovalError(len(changes.removed), changes.present)
        taken = [one for one in changes.created if store.catalogue.get(one.schedule_id) is not None]
        if taken and store.catalogue.config_revision(source)[0] != based_on:
            continue  # created since the preview, by another process that applies the same
        _refuse(taken, source)
        has_sections = source != "config" or store.catalogue.config_sections() is not None
        if changes.is_empty and digest == declared.digest and has_sections:
            if source == "config":
                _end_rejection(runtime, digest, actor)
            return Applied()
        policies = _policies(runtime, declared, source)
        upgraded = _upgraded(runtime, changes, source) if digest == declared.digest else frozenset()
        changed = changed_sections(runtime, declared, source) if based_on else ()  # else none was in force
        applied = _applied(changes, upgraded, tuple(change.key for change in changed))
        now = runtime.clock.now()
        writing = _Writing(
            declared, changes, applied, source, now, by=by, policies=policies, may_be_past=may_be_past
        )
        if _write(runtime, writing.reconciliation(based_on, actor)):
            runtime.wake_scheduler()
            runtime.wake_workers()
            return applied
    raise ConfigError(
        "another process keeps reloading the configuration; nothing was changed; try again later"
    )


@dataclass(frozen=True, slots=True)
class KeyChange:
    """One key of a definition or a configuration, before and after."""

    key: str
    before: object
    after: object


def changed_sections(runtime: Runtime, declared: Declarations, source: str = "config") -> list[KeyChange]:
    """Return the entries of workflows, messages, notify and api that differ from those in force.

    A release that did not store these entries left it unknown which were in force: then the result is empty.
    """
    store = store_of(runtime)
    if source != "config":
        return []
    stored = store.catalogue.config_sections()
    if stored is None and store.catalogue.config_revision(source)[0]:
        return []
    return compare_keys(stored or {}, declared.sections)


def compare_keys(before: Mapping[str, object], after: Mapping[str, object]) -> list[KeyChange]:
    """Return the keys whose values differ, in alphabetical order."""
    return [
        KeyChange(key, before.get(key), after.get(key))
        for key in sorted(before.keys() | after.keys())
        if before.get(key) != after.get(key)
    ]


def _write(runtime: Runtime, changes: Reconciliation) -> bool:
    """Write the changes; return False when another process was faster and they have to be computed again."""
    faster = (UnknownScheduleError, DuplicateScheduleError, MissingQuietHoursError, QuietHoursChangedError)
    try:
        return store_of(runtime).catalogue.reconcile(runtime.clock.now(), changes)
    except faster:
        return False


def _policies(runtime: Runtime, declared: Declarations, source: str) -> dict[str, QuietHoursPolicy]:
    """Return the quiet hours that schedules may name: for the file its own, for programs all stored ones as well."""
    stored = [] if source == "config" else store_of(runtime).catalogue.policies()
    return {policy.policy_id: policy for policy in (*stored, *declared.policies)}


def _refuse(taken: Sequence[Declared], source: str) -> None:
    """Refuse ids that belong to another source (REST, the file, another program): they are not taken over."""
    if not taken:
        return
    others = "by a file, over REST or by a program of another name"
    if source == "config":
        others = "over REST or in Python"
    lines = [
        f'{one.place}: a schedule "{one.schedule_id}" was created {others}; delete it, or choose another id'
        for one in taken
    ]
    raise ConfigError("\n".join(lines))


@dataclass(frozen=True, slots=True)
class _Writing:
    """Changes that are about to be written to the store, with their source, actor and time."""

    declared: Declarations
    changes: ConfigChanges
    applied: Applied
    source: str
    now: int
    by: str
    policies: Mapping[str, QuietHoursPolicy]
    may_be_past: bool

    def reconciliation(self, based_on: int, actor: str | None) -> Reconciliation:
        changes = self.changes
        delete = partial(status.delete, cancel_running=False, by=self.by)
        return Reconciliation(
            based_on=based_on,
            digest=self.declared.digest,
            source=self.source,
            actor=actor,
            created=[self._new(one) for one in changes.created],
            changed=self._changes(),
            removed=[(gone.state.schedule_id, delete) for gone in changes.removed],
            policies=changes.policies,
            removed_policies=changes.removed_policies,
            places={one.schedule_id: one.place for one in self.declared.schedules},
            sections=self.declared.sections,
            events=[Event("config.reloaded", self.now, actor=actor, detail=self._detail())],
        )

    def _detail(self) -> dict[str, object]:
        detail: dict[str, object] = {"digest": self.declared.digest}
        if self.source != "config":
            detail["source"] = self.source
        for word in ("created", "changed", "removed", "switched"):
            ids = getattr(self.applied, word)
            detail[word] = {"count": len(ids), "ids": list(ids[:MOST_NAMED])}
        if self.applied.sections:
            detail["sections"] = list(self.applied.sections[:MOST_NAMED])
        return detail

    def _new(self, declared: Declared) -> Insertion:
        definition = counted_from(self.now, declared.definition)
        plan = Plan(declared.schedule_id, definition, policy_of(definition, self.policies))
        creation = edit.create(
            plan,
            secrets.token_hex(6),
            self.now,
            is_enabled=declared.is_enabled,
            may_be_past=self.may_be_past,
            actor=self.by,
        )
        return Insertion(creation, plan, self.source)

    def _changes(self) -> list[tuple[str, Change]]:
        found: list[tuple[str, Change]] = []
        for change in self.changes.changed:
            after, before = change.after, change.before
            # An `after` whose text did not change keeps its instant.
            if after.trigger != before.trigger:
                after = counted_from(self.now, after)
            schedule_id, quiet = change.declared.schedule_id, policy_of(after, self.policies)
            rewrite = partial(reconcile.rewrite, after, quiet, may_be_past=self.may_be_past, actor=self.by)
            found.append((schedule_id, partial(rewrite, is_upgrade=schedule_id in self.applied.upgraded)))
        for declared in self.changes.switched:
            found += [(declared.schedule_id, decide) for decide in reconcile.switches(declared)]
        return found


def counted_from(now: int, definition: Definition) -> Definition:
    """Count an `after` from `now`, not from when the file was read, perhaps by another clock."""
    trigger = definition.trigger
    if not isinstance(trigger, Once) or trigger.kind != "after":
        return definition
    return replace(definition, trigger=parse_after(trigger.text, now / SECOND))


def _upgraded(runtime: Runtime, changes: ConfigChanges, source: str) -> frozenset[str]:
    """Return the schedules that change because of the release.

    Their declaration is the same as before, and the release before this one was the last to read it.
    """
    if not changes.changed:
        return frozenset()
    before = {schedule.state.schedule_id for schedule in store_of(runtime).catalogue.from_before(source)}
    return frozenset(before.intersection(change.declared.schedule_id for change in changes.changed))


def _applied(changes: ConfigChanges, upgraded: frozenset[str], sections: tuple[str, ...]) -> Applied:
    edits = {change.declared.schedule_id: change for change in changes.changed}
    return Applied(
        created=tuple(one.schedule_id for one in changes.created),
        changed=tuple(edits),
        removed=tuple(schedule.state.schedule_id for schedule in changes.removed),
        switched=tuple(one.schedule_id for one in changes.switched),
        upgraded=tuple(name for name in edits if name in upgraded),
        no_longer_stop=tuple(
            name
            for name, change in edits.items()
            if change.before.stops_when_exhausted and not change.after.stops_when_exhausted
        ),
        sections=sections,
    )


def reload(
    runtime: Runtime,
    read: Callable[[], Declarations],
    *,
    actor: str | None = None,
    may_remove_most: bool = False,
) -> Applied:
    """Read and apply; raise ConfigError with the reason when the file is refused, and change nothing then."""
    try:
        return apply(runtime, read(), actor=actor, may_remove_most=may_remove_most)
    except ConfigError as error:
        lines = str(error).splitlines()
        detail = {"mistakes": len(lines), "lines": lines[:MOST_LINES]}
        rejected = Event("config.rejected", runtime.clock.now(), actor=actor, detail=detail)
        store_of(runtime).slots.record([rejected])
        raise


def _end_rejection(runtime: Runtime, digest: str, actor: str | None) -> None:
    """Record that the file is good again without a change, where an alert says that it was refused: that ends it."""
    store = store_of(runtime)
    if store.alerts.list(AlertFilter(state="open", class_="config.rejected"), limit=1):
        event = Event("config.reloaded", runtime.clock.now(), actor=actor, detail={"digest": digest})
        store.slots.record([event])


def config_revision(runtime: Runtime) -> tuple[int, str]:
    """Return the number and the digest of the configuration in force; 0 and an empty string when there is none."""
    return store_of(runtime).catalogue.config_revision()


# The upgrade of schedules that the release before stored: each once, as a revision `upgraded`.


Protect = Callable[[str, Definition], Definition | None]
"""Returns the definition with the protections of what it runs; None when that is not known here."""


def protect_schedules(runtime: Runtime, protect: Protect) -> list[str]:
    """Give schedules from REST or Python the protections of what they run; return the ids of the changed ones.

    A schedule whose target is not configured here stays as it is, and is checked again at the next start.
    """
    store = store_of(runtime)
    upgraded: list[str] = []
    kept: list[Schedule] = []
    for schedule in chain(
        *(store.catalogue.from_before(source, only_groups=True) for source in ("api", "python"))
    ):
        schedule_id = schedule.state.schedule_id
        protected = protect(schedule_id, schedule.definition)
        if protected == schedule.definition:
            kept.append(schedule)
        elif protected is not None:
            with suppress(UnknownScheduleError):  # deleted since it was read
                store.catalogue.change(runtime.clock.now(), schedule_id, _upgrade(protect))
                upgraded.append(schedule_id)
    for start in range(0, len(kept), PORTION):
        store.catalogue.keep_as_they_are(kept[start : start + PORTION])
    return upgraded


def upgrade_notes(applied: Applied, protected: Sequence[str] = ()) -> list[str]:
    """Return a line for operators on each way in which the upgrade changed schedules without an edit."""
    changes = (
        (protected, "limits, breaker and timeout of what it runs hold for"),
        (applied.upgraded, "the same words mean more to this release, a new revision was written of"),
        (
            applied.no_longer_stop,
            "when retries are used up (without on_exhausted: stop) the next slot fires of",
        ),
    )
    return [f"upgrade: {what} {_first_of(ids)}" for ids, what in changes if ids]


def _first_of(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - MOST_SHOWN:,} more" if len(ids) > MOST_SHOWN else ""
    return ", ".join(ids[:MOST_SHOWN]) + more


def _upgrade(protect: Protect) -> Callable[[Schedule, int, Shared], Decision]:
    def change(schedule: Schedule, now: int, shared: Shared) -> Decision:
        """Decide on the current row: another node may have been faster."""
        schedule_id = schedule.state.schedule_id
        protected = protect(schedule_id, schedule.definition)
        if protected is None or protected == schedule.definition:
            return Draft(schedule, now, shared).decision()
        plan = Plan(schedule_id, protected, schedule.plan.quiet)
        return edit.edit(schedule, plan, now, shared, may_be_past=True, actor="upgrade", is_upgrade=True)

    return change
