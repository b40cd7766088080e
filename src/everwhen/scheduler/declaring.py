"""From the tasks and agents of a program to the declarations that its start brings the database to."""

from __future__ import annotations

import hashlib
import json
import logging
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, NamedTuple

from everwhen import clock
from everwhen.clock import SystemClock
from everwhen.compat.body_shapes import BODY_SHAPES
from everwhen.config.submission import SubmissionRules, read_agent_submission, read_submission
from everwhen.errors import ConfigError, DuplicateScheduleError, SchedulerError, TimetableError, shown
from everwhen.model.declare import Declarations, Declared
from everwhen.model.schedule import Target, local_id
from everwhen.operations.apply import apply, upgrade_notes
from everwhen.operations.quiet_hours import policy_ids
from everwhen.runtime import Runtime
from everwhen.scheduler.callables import ON_TRIGGER, Callee, checked_name, function_target
from everwhen.scheduler.options import AgentScheduleInfo
from everwhen.targets.python_function import JobContext, PythonRun, TriggerCallback, TriggerInfo, is_async
from everwhen.wiring import python_fault

log = logging.getLogger("everwhen")


def judge_task(task: Task, name: str, timezone: str) -> Declared:
    """Raise what is wrong with a task before there is a database; the quiet hours that it names may be in it."""
    named = frozenset(filter(None, [task.fields.get("quiet_hours")]))
    return _read_task(task, name, rules(timezone, SystemClock().now(), named, name))


def declare_on(runtime: Runtime, tasks: Tasks, agents: Agents) -> None:
    """Bring the database to what is declared under a name; schedules that are no longer declared are removed."""
    around = rules_of(runtime, tasks.name)
    declared = [_read_task(task, tasks.name, around) for task in tasks]
    declared += read_agents(agents, around, has_host=tasks.has_host)
    _apply(runtime, tasks.name, declared, may_remove=True)


def declare_late(runtime: Runtime, tasks: Tasks, task: Task) -> None:
    """Add or change one schedule, after the start: those of other processes of this name stay."""
    declared = [_read_task(task, tasks.name, rules_of(runtime, tasks.name))]
    _apply(runtime, tasks.name, declared, may_remove=False)


def _apply(runtime: Runtime, name: str, declared: list[Declared], *, may_remove: bool) -> None:
    said = [[one.schedule_id, dict(one.fields), one.target.spec] for one in declared]
    text = json.dumps(said, sort_keys=True, default=str).encode(errors="surrogatepass")
    found = Declarations(tuple(declared), digest=hashlib.sha256(text).hexdigest()[:16])
    source = f"python:{name}"
    applied = apply(
        runtime, found, source=source, may_remove=may_remove, may_remove_most=True, may_be_past=False
    )
    for note in upgrade_notes(applied):
        log.warning(note)


def check_declarations(runtime: Runtime, tasks: Tasks, agents: Agents) -> int:
    """Raise what a start would refuse, and write nothing; return how many schedules are declared."""
    around = rules_of(runtime, tasks.name)
    declared = [_read_task(task, tasks.name, around) for task in tasks]
    return len(declared) + len(read_agents(agents, around, has_host=tasks.has_host))


def _read_task(task: Task, name: str, around: SubmissionRules) -> Declared:
    """Read a task. A one-shot that has fired stays declared; whether a new one may be past is decided on creation."""
    place = task.callee.label
    try:
        return read_schedule(
            task.schedule_id, task.fields, around, target=task.target(name), may_be_past=True, place=place
        )
    except SchedulerError as error:
        error.add_note(f'schedule "{task.schedule_id}" of {place}')
        raise


Agents = Iterable[AgentScheduleInfo] | Mapping[str, Mapping[str, Any]]
_HOST = ["on_trigger"]  # stands for the command of an agent that the host runs, until it was judged


def read_agents(agents: Agents, around: SubmissionRules, *, has_host: bool) -> list[Declared]:
    """Return the schedules of all agents; raise an error with everything that is wrong with them."""
    groups = named(agents)
    hosted = {name for name, group in groups.items() if has_host and group.get("command") is None}
    for name in hosted:
        groups[name]["command"] = _HOST
    found = read_agent_submission(groups, around)
    return [_without_command(one) if one.group in hosted else one for one in found]


def named(agents: Agents) -> dict[str, dict[str, Any]]:
    """Return the agents by name, as plain data."""
    if isinstance(agents, Mapping):
        return {name: plain(group) for name, group in agents.items()}
    found: dict[str, dict[str, Any]] = {}
    for agent in agents:
        group = plain(agent)
        name = group.pop("name", None)
        if name in found:
            raise ConfigError(f'agent "{shown(name)}" is given twice')
        found[name] = group
    return found


def _without_command(declared: Declared) -> Declared:
    spec = {key: value for key, value in json.loads(declared.target.spec).items() if key != "command"}
    target = Target(declared.target.kind, json.dumps(spec))
    return replace(declared, target=target, definition=replace(declared.definition, target=target))


class Task(NamedTuple):
    """A function with the keys of its schedule."""

    schedule_id: str
    fields: Mapping[str, Any]
    callee: Callee
    isolate: bool = False

    def target(self, name: str) -> Target:
        label = self.callee.label
        # Asked while a decorator is at work, when the module does not have the function yet.
        if self.isolate and ("<" in label or label.startswith("__main__:")):
            raise ConfigError(
                f"{label} cannot be imported, and isolate runs it in a process of its own; "
                "move it to the top level of a module"
            )
        return function_target(label, name, given=self.callee.given, isolate=self.isolate)


class Tasks:
    """What is declared under one name in this process."""

    def __init__(
        self, name: str, on_trigger: TriggerCallback | None, context: JobContext = nullcontext
    ) -> None:
        self.name = name
        self.context = context
        self.process = secrets.token_hex(4)  # of this process: what is local belongs to it
        self._on_trigger = on_trigger
        self._tasks: dict[str, Task] = {}
        self._local: dict[str, Callable[..., Any]] = {}  # of schedules that were added

    @property
    def has_host(self) -> bool:
        return self._on_trigger is not None

    def __iter__(self) -> Iterator[Task]:
        return iter(list(self._tasks.values()))

    def add(self, task: Task) -> None:
        if task.schedule_id in self._tasks:
            raise DuplicateScheduleError(task.schedule_id)
        self._tasks[task.schedule_id] = task

    def drop(self, schedule_id: str) -> None:
        self._tasks.pop(schedule_id, None)

    @contextmanager
    def adding(self, schedule_id: str, function: Callable[..., Any]) -> Iterator[None]:
        """Keep the function of a schedule while it is added: no other process has it."""
        before = self._local.get(schedule_id)
        self._local[schedule_id] = function
        try:
            yield
        except BaseException:
            if before is None:
                self.drop_local(schedule_id)
            else:
                self._local[schedule_id] = before
            raise

    def drop_local(self, schedule_id: str) -> None:
        self._local.pop(schedule_id, None)

    def find(self, schedule_id: str, label: str) -> Callable[..., Any] | None:
        """Return the function of a schedule; the host's callback for one that was added with nothing to run."""
        if label == ON_TRIGGER:
            return None if self._on_trigger is None else _as_function(self._on_trigger)
        task = self._tasks.get(schedule_id)
        return self._local.get(schedule_id) if task is None else task.callee.function


def _as_function(on_trigger: TriggerCallback) -> Callable[[PythonRun], Any]:
    def run_on_host(run: PythonRun) -> Any:
        return on_trigger(TriggerInfo(None, local_id(run.schedule_id), "", run))

    async def await_host(run: PythonRun) -> Any:
        return await run_on_host(run)

    return await_host if is_async(on_trigger) else run_on_host


def plain(value: Any, *, keep_none: bool = False) -> Any:
    """Return a value as a file has it: durations and instants as text; `keep_none`: None clears a key.

    >>> from datetime import datetime, timedelta
    >>> plain({"every": timedelta(minutes=5), "at": datetime(2026, 12, 24, 18)})
    {'every': '300s', 'at': '2026-12-24T18:00:00'}
    """
    if isinstance(value, str):
        return value
    if isinstance(value, timedelta):
        return _duration(value)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, tzinfo):
        return zone_name(value)
    if isinstance(value, dict | Mapping):
        return {key: plain(item) for key, item in value.items() if keep_none or item is not None}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    return value


def zone_name(where: str | tzinfo) -> str:
    """Return the IANA name of a zone: of `zoneinfo`, of `datetime.UTC`, or of pytz.

    >>> from zoneinfo import ZoneInfo
    >>> zone_name(ZoneInfo("Europe/Paris"))
    'Europe/Paris'
    """
    if isinstance(where, str):
        return where
    name = "UTC" if where is UTC else getattr(where, "key", None) or getattr(where, "zone", None)
    if name is None:
        text = f"{shown(where)} is a zone without an IANA name; give a name, for example Europe/Paris"
        raise TimetableError(text, key="timezone", value=where)
    return str(name)


def _duration(length: timedelta) -> str:
    seconds, rest = divmod(length, timedelta(seconds=1))
    if rest or seconds <= 0:
        raise TimetableError(f"{length!r} must be one or more whole seconds", key="duration", value=length)
    return f"{seconds}s"


def rules_of(runtime: Runtime, name: str) -> SubmissionRules:
    """Return the rules for the schedules of a program of that name: its zone, and the quiet hours in the database."""
    return rules(runtime.timezone, runtime.clock.now(), policy_ids(runtime), name)


def rules(timezone: str, now: int, quiet_hours: frozenset[str], name: str) -> SubmissionRules:
    return SubmissionRules(
        now=now,
        local_zone=clock.local_zone_name,
        timezone=timezone,
        quiet_hours=quiet_hours,
        python_fault=python_fault,
        bound_to=name,
        bodies=BODY_SHAPES,
    )


def read_schedule(
    schedule_id: str,
    fields: Mapping[str, Any],
    around: SubmissionRules,
    *,
    target: Target | None = None,
    may_be_past: bool = False,
    place: str = "",
) -> Declared:
    """Read a declaration from its keys, or raise everything that is wrong with them; `target` replaces their `run`."""
    checked_name("id", schedule_id)
    declared = read_submission(fields, schedule_id, around, may_be_past=may_be_past, target=target)
    return replace(declared, place=place) if place else declared
