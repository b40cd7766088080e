"""From the tasks and agents of a program to the declarations that its start brings the database to."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Sequence

from everwhen.clock import SystemClock
from everwhen.config.submission import SubmissionRules
from everwhen.errors import SchedulerError
from everwhen.model.declared import Declarations, Declared
from everwhen.operations.apply import apply
from everwhen.operations.upgrade import upgrade_notes
from everwhen.runtime import Runtime
from everwhen.scheduler.agents import Agents, read_agents
from everwhen.scheduler.submission import label_of, read_schedule, rules, rules_of
from everwhen.scheduler.tasks import Task, Tasks

log = logging.getLogger("everwhen")


def judge_task(task: Task, name: str, timezone: str) -> None:
    """Say what is wrong with a task before there is a database; the quiet hours that it names may be in it."""
    named = frozenset(filter(None, [task.fields.get("quiet_hours")]))
    _read_task(task, name, rules(timezone, SystemClock().now(), named, name))


def declare_on(runtime: Runtime, tasks: Tasks, agents: Agents) -> None:
    """What is declared under a name is what there is of it; what is no longer declared goes."""
    around = rules_of(runtime, tasks.name)
    declared = [_read_task(task, tasks.name, around) for task in tasks]
    declared += read_agents(agents, around, has_host=tasks.has_host)
    found = tuple(declared)
    applied = apply(
        runtime,
        Declarations(found, digest=_digest(found)),
        source=f"python:{tasks.name}",
        may_remove_most=True,
        may_be_past=False,
    )
    for note in upgrade_notes(applied):
        log.warning(note)


def _read_task(task: Task, name: str, around: SubmissionRules) -> Declared:
    """A one-shot that has fired is past, and stays declared; whether a new one may be is decided on creation."""
    place = label_of(task.function)
    try:
        return read_schedule(
            task.schedule_id, task.fields, around, target=task.target(name), may_be_past=True, place=place
        )
    except SchedulerError as error:
        error.add_note(f'schedule "{task.schedule_id}" of {place}')
        raise


def _digest(declared: Sequence[Declared]) -> str:
    said = [[one.schedule_id, dict(one.fields), one.target.spec] for one in declared]
    text = json.dumps(said, sort_keys=True, default=str)
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]
