"""Requests inside a program's own transaction: checked and written there, carried out by a node after the commit.

A request is checked as if it were carried out at once, so a mistake is refused by the call, and nothing is written. The
check cannot foresee the state at the commit: a refusal that shows only then is an event, and the state of the request.
A request says everything that a node needs: definitions are read and completed by the program that has their rules.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from everwhen.decide import by_hand, edit
from everwhen.errors import (
    DuplicateScheduleError,
    SchedulerError,
    SourceError,
    StoreError,
    UnknownScheduleError,
)
from everwhen.model.declare import Declared
from everwhen.model.instants import SECOND
from everwhen.model.payload import payload_text
from everwhen.model.policy import IfRunning
from everwhen.model.request import Request, RequestAction
from everwhen.model.schedule import Definition, Plan, Schedule
from everwhen.model.serialize import definition_of, fields_of, text_of
from everwhen.operations.jobs import trigger_schedule
from everwhen.operations.schedules import (
    QuietHoursByName,
    create_declared,
    delete_schedule,
    find_schedule,
    replace_schedule,
    rewrite_schedule,
)
from everwhen.operations.submissions import ADDED, new_id
from everwhen.runtime import Runtime
from everwhen.store.opened import store_of
from everwhen.store.requests import RequestTaken
from everwhen.timetable.trigger import Once, parse_after

if TYPE_CHECKING:
    from everwhen.store.requests import AsyncConnection as AsyncConnection
    from everwhen.store.requests import CallerConnection as CallerConnection
    from everwhen.store.requests import SyncConnection as SyncConnection

PORTION = 100  # requests that are read at once
_ATTEMPTS = 3  # of an `add` that another caller overtakes


class Submission(NamedTuple):
    """A request that was checked. `doubt`: why it will be refused, unless an earlier request changes that."""

    request: Request
    doubt: SchedulerError | None = None


# -- checked, and written on the program's connection --


def request_add(runtime: Runtime, declared: Declared, *, may_replace: bool, actor: str) -> Submission:
    """Request a new schedule, or with `may_replace` a new definition of the one that has its id."""
    definition, now = declared.definition, runtime.clock.now()
    plan = Plan(declared.schedule_id, definition, QuietHoursByName(runtime).of(definition))
    edit.create(plan, "", now, is_enabled=declared.is_enabled, actor=actor)  # for its refusals
    entry = store_of(runtime).catalogue.entry(declared.schedule_id)
    doubt: SchedulerError | None = None
    if entry is not None and not may_replace:
        doubt = DuplicateScheduleError(declared.schedule_id)
    elif entry is not None and entry.source != ADDED:
        doubt = SourceError(f'schedule "{declared.schedule_id}"', entry.source)
    body = {"definition": fields_of(definition), "enabled": declared.is_enabled, "replace": may_replace}
    return Submission(_new(runtime, "add", declared.schedule_id, body, actor), doubt)


def request_update(
    runtime: Runtime, schedule_id: str, rewrite: Callable[[Schedule], Declared], *, actor: str
) -> Submission:
    """Request a change of some keys; what it changes is the difference to the definition of now.

    The schedule has to exist: the keys cannot be checked without the others.
    """
    store = store_of(runtime)
    entry, schedule = store.catalogue.entry(schedule_id), store.catalogue.get(schedule_id)
    if entry is None or schedule is None:
        raise UnknownScheduleError(schedule_id)
    if entry.source != ADDED:
        raise SourceError(f'schedule "{schedule_id}"', entry.source)
    new, old = rewrite(schedule).definition, schedule.definition
    plan = Plan(schedule.state.schedule_id, new, QuietHoursByName(runtime).of(new))
    shared, now = store.catalogue.shared_of(schedule), runtime.clock.now()
    edit.edit(schedule, plan, now, shared, may_be_past=new.trigger == old.trigger)  # for its refusals
    before, after = json.loads(text_of(old)), json.loads(text_of(new))
    changed = {key: value for key, value in after.items() if key not in before or before[key] != value}
    body = {"set": changed, "unset": sorted(before.keys() - after.keys())}
    return Submission(_new(runtime, "update", schedule.state.schedule_id, body, actor))


def request_trigger(
    runtime: Runtime, schedule_id: str, *, payload: Mapping[str, Any] | None, if_running: IfRunning
) -> Submission:
    """Request a run beside the slots."""
    store, schedule = store_of(runtime), find_schedule(runtime, schedule_id)
    if payload is not None:
        payload_text(payload)
    body = {"payload": None if payload is None else dict(payload), "if_running": if_running}
    request = _new(runtime, "trigger", schedule_id, body, None)
    if schedule is None:
        return Submission(request, UnknownScheduleError(schedule_id))
    shared, now = store.catalogue.shared_of(schedule), runtime.clock.now()
    by_hand.trigger(schedule, now, shared, payload=payload, if_running=if_running)  # for its refusals
    return Submission(request)


def request_removal(runtime: Runtime, schedule_id: str, *, cancel_running: bool, actor: str) -> Submission:
    """Request the end of a schedule."""
    request = _new(runtime, "remove", schedule_id, {"cancel_running": cancel_running}, actor)
    is_known = find_schedule(runtime, schedule_id) is not None
    return Submission(request, None if is_known else UnknownScheduleError(schedule_id))


def _new(
    runtime: Runtime, action: RequestAction, schedule_id: str, body: Mapping[str, object], actor: str | None
) -> Request:
    now = runtime.clock.now()
    return Request(
        id=0,  # the database numbers it
        request_id=new_id(now),
        action=action,
        schedule_id=schedule_id,
        body=json.dumps(body),
        actor=actor,
        created_at=now,
    )


def submit_request(runtime: Runtime, submission: Submission, connection: CallerConnection) -> None:
    """Write a request on the program's connection; it waits from the commit on."""
    store_of(runtime).requests.submit(submission.request, connection, submission.doubt)


async def submit_request_async(
    runtime: Runtime, submission: Submission, connection: CallerConnection
) -> None:
    """Write a request on the program's connection, which may be an asynchronous one."""
    await store_of(runtime).requests.submit_async(submission.request, connection, submission.doubt)


def get_request(runtime: Runtime, request_id: str) -> Request | None:
    """Return a request as it stands; None before its commit, and when it ended more than a day ago."""
    return store_of(runtime).requests.get(request_id)


# -- carried out, on a node --


def execute_requests(runtime: Runtime, is_over: Callable[[], bool] = lambda: False) -> int:
    """Pass once over what waits, and end each request in one transaction of its own; return how many were ended.

    Of the requests about one schedule a pass may leave the later ones to the next pass.
    A request that fails for a reason that lies in this node harms no other one: it is tried again later.
    """
    requests, ended, after = store_of(runtime).requests, 0, 0
    failure: Exception | None = None
    while not is_over() and (page := requests.waiting(after=after, limit=PORTION)):
        for request in page:
            if is_over():
                break
            if request.action not in _ACTIONS:  # of a newer release, whose nodes carry it out
                continue
            try:
                ended += execute_request(runtime, request)
            except StoreError as error:
                if error.fault is not None:  # the database is away
                    raise
                failure = error
            except Exception as error:  # a body that this release does not understand
                failure = error
        after = page[-1].id
    if failure is not None and not ended:
        raise failure
    return ended


def execute_request(runtime: Runtime, request: Request) -> bool:
    """Carry out one request, or record why it is refused; return whether it was this node that ended it."""
    store = store_of(runtime)
    now = runtime.clock.now()
    own = replace(store, catalogue=store.requests.catalogue_of(request, now))
    try:
        _ACTIONS[request.action](own, request, json.loads(request.body))
    except RequestTaken:
        return False
    except StoreError:
        raise
    except SchedulerError as error:
        return store.requests.refuse(runtime.clock.now(), request, str(error))
    return True


def _add(runtime: Runtime, request: Request, body: Mapping[str, Any]) -> None:
    definition = _begun(definition_of(body["definition"]), runtime.clock.now())
    fields = {"enabled": body["enabled"]}
    declared = Declared(request.schedule_id, fields, definition.target, definition)
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            if body["replace"] and find_schedule(runtime, request.schedule_id) is not None:
                replace_schedule(runtime, declared, source=ADDED, actor=request.actor)
            else:
                create_declared(runtime, [declared], source=ADDED, actor=request.actor)
        except (DuplicateScheduleError, UnknownScheduleError):  # created or removed a moment ago
            if not body["replace"] or attempt == _ATTEMPTS:
                raise
        else:
            return


def _update(runtime: Runtime, request: Request, body: Mapping[str, Any]) -> None:
    def rewrite(schedule: Schedule) -> Declared:
        values = {**json.loads(text_of(schedule.definition)), **body["set"]}
        definition = definition_of({key: value for key, value in values.items() if key not in body["unset"]})
        if "trigger" in body["set"]:
            definition = _begun(definition, runtime.clock.now())
        return Declared(schedule.state.schedule_id, {}, definition.target, definition)

    rewrite_schedule(runtime, request.schedule_id, rewrite, source=ADDED, actor=request.actor)


def _trigger(runtime: Runtime, request: Request, body: Mapping[str, Any]) -> None:
    trigger_schedule(runtime, request.schedule_id, payload=body["payload"], if_running=body["if_running"])


def _remove(runtime: Runtime, request: Request, body: Mapping[str, Any]) -> None:
    delete_schedule(runtime, request.schedule_id, cancel_running=body["cancel_running"], by=request.actor)


_ACTIONS: Mapping[RequestAction, Callable[[Runtime, Request, Mapping[str, Any]], None]] = {
    "add": _add,
    "update": _update,
    "trigger": _trigger,
    "remove": _remove,
}


def _begun(definition: Definition, now: int) -> Definition:
    """Count an `after` from now: the time before the commit does not count."""
    trigger = definition.trigger
    if not isinstance(trigger, Once) or trigger.kind != "after":
        return definition
    return replace(definition, trigger=parse_after(trigger.text, now / SECOND))
