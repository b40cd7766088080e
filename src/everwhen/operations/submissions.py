"""Schedules that come over REST: created, edited and read within the rights of the caller's token.

For a token with an owner, another owner's schedule and an unknown one are the same. Rights are checked inside the
transaction that makes the change, so that nothing can change between the check and the write.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from typing import NoReturn
from uuid import UUID

from everwhen.decide import approval, edit, spacing, status
from everwhen.decide.budgets import lacks_max_cost
from everwhen.decide.draft import Draft
from everwhen.errors import (
    AccessError,
    DuplicateScheduleError,
    ExistingKeyError,
    LimitError,
    PreconditionError,
    SchedulerError,
    SourceError,
    SubmissionError,
    UnseenRevisionError,
    oversize,
)
from everwhen.model.changes import Change, Creation, Decision, Insertion
from everwhen.model.declare import Declared
from everwhen.model.fast_values import replaced
from everwhen.model.fields import answer_to_json
from everwhen.model.group import needs_max_cost
from everwhen.model.instants import SECOND
from everwhen.model.limits import Shared
from everwhen.model.message import MESSAGE, spoken_by
from everwhen.model.pause import Pause, pause_of
from everwhen.model.policy import Made
from everwhen.model.queries import Entry
from everwhen.model.schedule import Definition, Plan, Schedule, State
from everwhen.model.target_kinds import Target, run_to_json
from everwhen.model.token import ANSWERS_KEPT, StoredResponse, refuse_beyond
from everwhen.operations.access import Caller, get_entry
from everwhen.operations.schedules import Permit, QuietHoursByName, change_schedule, marked, with_quiet_hours
from everwhen.runtime import Runtime
from everwhen.store.opened import store_of
from everwhen.timetable.trigger import Once

SOURCE = "api"
ADDED = "python"  # by a program at run time; what its code declares is the code's
MOST_SHOWN = 200  # characters of a value in a message
PORTION = 200  # schedules that one turn of the writer makes


def remembered_answer(runtime: Runtime, caller: Caller, key: str) -> StoredResponse | None:
    """Return the answer to an earlier request of this caller with the same key, while it is kept."""
    since = runtime.clock.now() - ANSWERS_KEPT
    return store_of(runtime).tokens.answer(caller.token.token_id, key, since=since)


def create_entries(
    runtime: Runtime,
    declared: Sequence[Declared],
    caller: Caller,
    *,
    key: str | None = None,
    answer: Callable[[Sequence[Entry]], StoredResponse] | None = None,
) -> list[Entry]:
    """Write new schedules in one transaction, all or none; if `answer` is given, its answer is stored with them."""
    now, quiet = runtime.clock.now(), QuietHoursByName(runtime)
    new = [_new(one, caller, quiet, now, key) for one in declared]
    entries = [
        Entry(
            Schedule(one.creation.state, one.plan),
            SOURCE,
            one.key,
            one.token_id,
            now,
            updated_at=now,
            pause=_pause_of(one.creation, caller),
        )
        for one in new
    ]
    terms = caller.terms._replace(answer=answer(entries) if answer else None)
    store_of(runtime).catalogue.create(now, new, terms)
    runtime.wake_scheduler()
    return entries


def _pause_of(creation: Creation, caller: Caller) -> Pause | None:
    """Return the pause in which a schedule begins; None: it begins active."""
    if creation.state.status != "paused":
        return None
    event = next(event for event in creation.events if event.type == "schedule.paused")
    return pause_of(creation.state, event, {str(caller.actor): caller.token.name})


def create_each(
    runtime: Runtime, declared: Sequence[Declared | SchedulerError], caller: Caller
) -> list[str | SchedulerError]:
    """Write many schedules, each independently, in short turns of the writer; return its id or its error.

    A schedule that already exists under the id that the request derives is the requested one.
    """
    now, quiet = runtime.clock.now(), QuietHoursByName(runtime)
    results: list[str | SchedulerError] = []
    for start in range(0, len(declared), PORTION):
        portion = [_tried(one, caller, quiet, now) for one in declared[start : start + PORTION]]
        results += _created(runtime, portion, caller, now)
        runtime.wake_scheduler()
    return results


def _tried(
    declared: Declared | SchedulerError, caller: Caller, quiet: QuietHoursByName, now: int
) -> Insertion | SchedulerError:
    if isinstance(declared, SchedulerError):
        return declared
    try:
        return _new(declared, caller, quiet, now, None)
    except SchedulerError as error:
        return error


def _created(
    runtime: Runtime, portion: Sequence[Insertion | SchedulerError], caller: Caller, now: int
) -> list[str | SchedulerError]:
    store = store_of(runtime)
    new = [one for one in portion if isinstance(one, Insertion)]
    try:
        store.catalogue.create(now, new, caller.terms)
    except (LimitError, DuplicateScheduleError) as error:
        if len(portion) > 1:  # some of them may be valid: try each alone
            return [result for one in portion for result in _created(runtime, [one], caller, now)]
        schedule_id = new[0].plan.schedule_id  # the quota may already count it
        is_there = isinstance(error, DuplicateScheduleError) or store.catalogue.get(schedule_id) is not None
        return [schedule_id if is_there else error]
    return [one.plan.schedule_id if isinstance(one, Insertion) else one for one in portion]


def derived_id(*parts: str) -> str:
    """Derive an id that the same request derives again."""
    digest = blake2b("\0".join(parts).encode(), digest_size=16).digest()
    return str(UUID(bytes=digest, version=5))


def put_entry(
    runtime: Runtime, key: str, declared: Callable[[str], Declared], caller: Caller, *, only_new: bool = False
) -> tuple[str, bool]:
    """Create the schedule of a caller's own key, or replace its definition; return its id and whether it is new.

    `only_new`: refuse to replace one, and say how it differs. One that is done or dead gives up its key.
    """
    full_key = caller.key_of(key)
    for _ in range(2):
        known = store_of(runtime).catalogue.id_of_key(full_key)
        if known is not None and only_new:
            if not store_of(runtime).catalogue.release_key(full_key):
                _refuse_existing(runtime, key, known, declared, caller)
            known = None
        if known is not None:
            state = edit_entry(runtime, known, lambda old: declared(old.state.schedule_id), caller)
            return state.schedule_id, False
        new = declared(new_id(runtime.clock.now()))
        try:
            create_entries(runtime, [new], caller, key=full_key)
        except DuplicateScheduleError:  # another caller created it meanwhile
            continue
        return new.schedule_id, True
    raise DuplicateScheduleError(key)


def _refuse_existing(
    runtime: Runtime, key: str, known: str, declared: Callable[[str], Declared], caller: Caller
) -> NoReturn:
    entry = get_entry(runtime, known, caller)
    old = entry.schedule.definition
    new = speaking(on_terms(declared(known).definition, caller, entry.created_at), caller, old)
    raise ExistingKeyError(key, known, _differences(old, replaced(new, made=old.made, budgets=old.budgets)))


def _differences(old: Definition, new: Definition) -> list[tuple[str, str]]:
    """Return the keys that differ, with both values; a repeated request may word its name and description anew."""
    if isinstance(old.trigger, Once) and isinstance(new.trigger, Once):
        is_same_delay = (
            old.trigger.kind == new.trigger.kind == "after" and old.trigger.text == new.trigger.text
        )
        if is_same_delay:  # each counts from its own creation
            new = replace(new, trigger=old.trigger)
    new = replace(new, name=old.name, description=old.description)
    if new == old:
        return []
    before, after = answer_to_json(old), answer_to_json(new)
    keys = [key for key in before if before[key] != after[key]]
    return [
        (key, f"is {_shortened(before[key])} there, and {_shortened(after[key])} in this request")
        for key in keys
    ] or [("run", "differs")]


def _shortened(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}…"


def new_id(now: int) -> str:
    """Draw a UUID that begins with the time: ids that are drawn in sequence are neighbours in every index."""
    milliseconds = now // 1_000 & (1 << 48) - 1
    drawn = secrets.randbits(74)
    return str(UUID(int=milliseconds << 80 | 7 << 76 | (drawn >> 62) << 64 | 2 << 62 | drawn & (1 << 62) - 1))


def _new(declared: Declared, caller: Caller, quiet: QuietHoursByName, now: int, key: str | None) -> Insertion:
    definition = replaced(speaking(on_terms(declared.definition, caller, now), caller), made=made_by(caller))
    _refuse_without_max_cost(definition)
    plan = Plan(declared.schedule_id, definition, quiet.of(definition))
    refuse_beyond(caller.token.limits, plan, now, now)
    waits = caller.needs_approval_of(definition)
    creation = edit.create(
        plan,
        declared.schedule_id,
        now,
        is_enabled=declared.is_enabled and not waits,
        paused_by=approval.APPROVAL if waits else "token",
        actor=caller.actor,
    )
    if waits:
        creation = approval.request_for_new(creation, plan, now, actor=caller.actor)
    elif caller.token.limits.approval == "ask":
        creation = approval.accepted_when_new(creation, now, actor=caller.actor)
    return Insertion(creation, plan, SOURCE, key, caller.token.token_id)


def on_terms(
    definition: Definition, caller: Caller, created_at: int, before: Definition | None = None
) -> Definition:
    """Return the definition within the rights of the caller: its owner, and the budget and lifetime of its token.

    A request that an edit leaves as it was keeps its source: what a program may reach, it may reach after the edit.
    """
    token, limits = caller.token, caller.token.limits
    caller.refuse_code(definition.target.kind)
    if (confined := token.confined) is not None and (definition.target.kind, definition.group) != (
        "agent",
        confined.group,
    ):
        raise AccessError(f"a run of agent {confined.group} schedules that agent, and nothing else")
    if token.owner is not None and definition.owner not in (None, token.owner):
        raise AccessError(
            f"this token creates only schedules of its owner; leave out owner, or write {token.owner}"
        )
    if limits.needs_approval and definition.secret not in (None, before and before.secret):
        raise AccessError(
            "this token triggers what was approved as it is, and whoever knows the secret of a webhook sends it any "
            "payload; leave secret out, and let a person set it"
        )
    if len(definition.payload) > caller.max_payload:
        raise SubmissionError([("payload", oversize(len(definition.payload), caller.max_payload))])
    if before is not None and _is_same_request(definition.target, before.target):
        changes: dict[str, object] = {"target": before.target}
    else:
        changes = {"target": marked(definition.target, SOURCE)}
        if definition.target.kind == "http":
            caller.refuse_private("run.http.url", json.loads(definition.target.spec)["url"])
    if definition.ping_url is not None and (before is None or definition.ping_url != before.ping_url):
        caller.refuse_private("ping.url", definition.ping_url)
    if token.owner is not None:
        changes["owner"] = token.owner
    if limits.ttl is not None and not isinstance(definition.trigger, Once):
        last = created_at // SECOND + limits.ttl
        changes["end_at"] = last if definition.end_at is None else min(definition.end_at, last)
    if (budget := caller.budget) is not None:
        others = tuple(other for other in definition.budgets if other.key != budget.key)
        changes["budgets"] = (*others, budget)
    return replaced(definition, **changes)


def _refuse_without_max_cost(definition: Definition) -> None:
    """Refuse an agent whose command contains the most that a run may cost, where neither group, owner nor token has a
    budget that says it: every run would fail."""
    if lacks_max_cost(definition):
        raise SubmissionError([("run.agent", needs_max_cost(definition.group or ""))])


def _is_same_request(new: Target, old: Target) -> bool:
    return new.kind == old.kind == "http" and run_to_json(new) == run_to_json(old)


def made_by(caller: Caller) -> Made | None:
    """Return how what this caller makes was made; raise LimitError in a run that may not make more."""
    confined = caller.token.confined
    if confined is None:
        return None if caller.via is None else Made(caller.via)
    caller.refuse_at_its_end()
    return Made(caller.via, confined.job_id, confined.depth)


def _changed_by(caller: Caller, made: Made | None) -> Made | None:
    """Return how a schedule was made after a change by this caller: in a run it lies at least as deep as what that
    makes, else the runs of a schedule could arm it again for ever."""
    confined = caller.token.confined
    if confined is None or made is None:
        return made
    return made._replace(depth=max(made.depth, confined.depth))


def speaking(definition: Definition, caller: Caller, before: Definition | None = None) -> Definition:
    """Set the actor of a message from REST: the caller who wrote its text, whatever its body names."""
    if definition.target.kind != MESSAGE:
        return definition
    text = (definition.payload, spoken_by(definition.target, None))
    if before is not None and text == (before.payload, spoken_by(before.target, None)):
        return replace(definition, target=before.target)
    return replace(definition, target=spoken_by(definition.target, caller.actor))


def edit_entry(
    runtime: Runtime,
    schedule_id: str,
    rewrite: Callable[[Schedule], Declared],
    caller: Caller,
    *,
    expected: int | None = None,
    is_enabled: bool | None = None,
) -> State:
    """Write a new revision of a schedule, and its switch, in one transaction; `expected` is the revision that was read.

    A revision by a token with an approval limit waits for approval, unless it changes nothing that was approved, or the
    limit lets it pass. A schedule that waits already goes on waiting.
    """
    entry = get_entry(runtime, schedule_id, caller)
    refuse_declared_external(entry)
    revision = _Revision(entry, rewrite, caller, expected)
    further: list[Change] = []
    if entry.schedule.state.status == "invalid":  # as it is now, it was found valid
        further.append(status.restore)
    if caller.token.limits.needs_approval:
        further.append(revision.wait)
    if is_enabled is not None:
        further.append(_switch(is_enabled, caller, is_seen=expected is not None))

    def attempt(quiet: QuietHoursByName) -> State:
        quiet.read()
        changed = store_of(runtime).catalogue.change(
            runtime.clock.now(),
            schedule_id,
            partial(revision.write, quiet),
            *further,
            budget=caller.budget,
            terms=caller.terms,
        )
        return changed.after

    state = with_quiet_hours(runtime, attempt)
    runtime.wake_scheduler()
    runtime.wake_workers()
    return state


@dataclass(slots=True)
class _Revision:
    """The new revision of a schedule, within the rights of the caller who writes it."""

    entry: Entry
    rewrite: Callable[[Schedule], Declared]
    caller: Caller
    expected: int | None
    must_wait: bool = False  # for approval; known when it is written

    def write(self, quiet: QuietHoursByName, schedule: Schedule, now: int, shared: Shared) -> Decision:
        """Write it, unless it is the revision in force."""
        self.must_wait = False  # a transaction may be run again, on another state
        self.caller.refuse_stranger(schedule)
        self.caller.refuse_at_its_end()
        if self.expected is not None and schedule.state.revision != self.expected:
            raise PreconditionError(self.expected, schedule.state.revision)
        old, new = schedule.definition, self._definition(schedule)
        if new == old:
            return Draft(schedule, now, shared).decision()
        if new.target != old.target:
            _refuse_without_max_cost(new)
        plan = Plan(schedule.state.schedule_id, new, quiet.of(new))
        refuse_beyond(self.caller.token.limits, plan, now, self.entry.created_at)
        if new.trigger != old.trigger and (budget := self.caller.budget) is not None:
            free_at = spacing.free_at(shared, schedule.state.uid, [budget], now)
            spacing.refuse_too_soon(new, free_at, now)
        is_looked_at = self.caller.needs_approval_of(new) or approval.is_waiting(schedule.state)
        self.must_wait = is_looked_at and approval.needs_new_look(old, new)
        may_be_past = old.trigger == new.trigger
        return edit.edit(schedule, plan, now, shared, may_be_past=may_be_past, actor=self.caller.actor)

    def wait(self, schedule: Schedule, now: int, shared: Shared) -> Decision:
        """Let it wait for approval, if it has to."""
        if not self.must_wait:
            return Draft(schedule, now, shared).decision()
        return approval.request(schedule, now, shared, actor=self.caller.actor)

    def _definition(self, schedule: Schedule) -> Definition:
        old = schedule.definition
        new = on_terms(self.rewrite(schedule).definition, self.caller, self.entry.created_at, old)
        new = speaking(_keeping_budgets(new, old), self.caller, old)
        return replaced(new, made=_changed_by(self.caller, old.made))


def is_ended_by(caller: Caller, entry: Entry) -> bool:
    """Return whether the ttl of the caller's token set the end of a schedule."""
    ttl = caller.token.limits.ttl
    return ttl is not None and entry.schedule.definition.end_at == entry.created_at // SECOND + ttl


def _keeping_budgets(new: Definition, old: Definition) -> Definition:
    """Keep the budgets of the tokens that created the schedule: its firings count for them, also after an edit."""
    known = {budget.key for budget in new.budgets}
    kept = [one for one in old.budgets if one.is_of_token and one.key not in known]
    return replace(new, budgets=(*new.budgets, *kept)) if kept else new


def _switch(is_enabled: bool, caller: Caller, *, is_seen: bool) -> Change:
    def switch(schedule: Schedule, now: int, shared: Shared) -> Decision:
        if not is_enabled and schedule.state.status == "active":
            return status.pause(schedule, now, shared, by="token", actor=caller.actor)
        if is_enabled and schedule.state.status == "paused":
            caller.refuse_unapproved(schedule)
            return resumed(schedule, now, shared, caller, schedule.state.revision if is_seen else None)
        return Draft(schedule, now, shared).decision()

    return switch


def resumed(schedule: Schedule, now: int, shared: Shared, caller: Caller, seen: int | None) -> Decision:
    """Resume a schedule; one that waits for approval only as the revision that the caller has seen."""
    if not approval.is_waiting(schedule.state):
        return status.resume(schedule, now, shared, by=caller.actor)
    if seen is None:
        raise UnseenRevisionError(schedule.state.revision)
    return approval.approve(schedule, now, shared, revision=seen, by=caller.actor)


def refuse_declared_external(entry: Entry) -> None:
    if entry.source not in (SOURCE, ADDED):
        raise SourceError(f'schedule "{entry.schedule.state.schedule_id}"', entry.source)


def approve_schedule(runtime: Runtime, schedule_id: str, caller: Caller, *, revision: int) -> None:
    """Approve a schedule at the revision that was reviewed; it fires from then on."""

    def permit(schedule: Schedule) -> None:
        _refuse_to_answer(schedule, caller)
        caller.refuse_unusable(schedule)

    approve = partial(approval.approve, revision=revision, by=caller.actor)
    change_schedule(runtime, schedule_id, approve, permit)


def decline_schedule(runtime: Runtime, schedule_id: str, caller: Caller, *, note: str | None) -> None:
    """Delete a schedule that waits for approval, and record who declined it."""

    def change(schedule: Schedule, now: int, shared: Shared) -> Decision:
        _refuse_to_answer(schedule, caller)
        return approval.decline(schedule, now, shared, note=note, by=caller.actor)

    store_of(runtime).catalogue.delete(runtime.clock.now(), schedule_id, change)
    runtime.wake_workers()


def resume_schedule(
    runtime: Runtime, schedule_id: str, caller: Caller, *, expected: int | None = None
) -> None:
    """End a pause; `expected` is the revision that was read, without which nothing is approved."""

    def change(schedule: Schedule, now: int, shared: Shared) -> Decision:
        caller.refuse_unapproved(schedule)
        if expected is not None and schedule.state.revision != expected:
            raise PreconditionError(expected, schedule.state.revision)
        return resumed(schedule, now, shared, caller, expected)

    change_schedule(runtime, schedule_id, change)


def permit_revival(caller: Caller) -> Permit:
    """Refuse to revive a schedule that waits for approval: it has to be reviewed first."""

    def permit(schedule: Schedule) -> None:
        caller.refuse_unapproved(schedule)
        if approval.is_waiting(schedule.state):
            raise UnseenRevisionError(schedule.state.revision)

    return permit


def _refuse_to_answer(schedule: Schedule, caller: Caller) -> None:
    caller.refuse_stranger(schedule)
    if not caller.may_approve:
        raise AccessError(
            "a token whose own schedules need approval can neither approve nor decline schedules"
        )
