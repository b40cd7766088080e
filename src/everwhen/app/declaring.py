"""From the tasks and agents of a program to the declarations that its start brings the database to."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Sequence

from everwhen.app.agents import Agents, read_agents
from everwhen.app.tasks import Task, Tasks
from everwhen.app.words import bound, label_of, read_schedule, surroundings, surroundings_of
from everwhen.config.submission import Surroundings
from everwhen.errors import SchedulerError
from everwhen.model.declared import Declarations, Declared
from everwhen.operations.apply import apply
from everwhen.operations.upgrade import upgrade_notes
from everwhen.ports.house import House
from everwhen.system_clock import SystemClock

log = logging.getLogger("everwhen")


def judge_task(task: Task, name: str, timezone: str) -> None:
    """Say what is wrong with a task before there is a database; the quiet hours that it names may be in it."""
    named = frozenset(filter(None, [task.words.get("quiet_hours")]))
    _read_task(task, name, surroundings(timezone, SystemClock().now(), named))


def declare_on(house: House, tasks: Tasks, agents: Agents) -> None:
    """What is declared under a name is what there is of it; what is no longer declared goes."""
    around = surroundings_of(house)
    declared = [_read_task(task, tasks.name, around) for task in tasks]
    declared += read_agents(agents, around, has_host=tasks.has_host)
    found = tuple(bound(one, tasks.name) for one in declared)
    applied = apply(
        house,
        Declarations(found, digest=_digest(found)),
        source=f"python:{tasks.name}",
        may_remove_most=True,
        may_be_past=False,
    )
    for note in upgrade_notes(applied):
        log.warning(note)


def _read_task(task: Task, name: str, around: Surroundings) -> Declared:
    """A one-shot that has fired is past, and stays declared; whether a new one may be is decided on creation."""
    place = label_of(task.function)
    try:
        return read_schedule(
            task.schedule_id, task.words, around, target=task.target(name), may_be_past=True, place=place
        )
    except SchedulerError as error:
        error.add_note(f'schedule "{task.schedule_id}" of {place}')
        raise


def _digest(declared: Sequence[Declared]) -> str:
    said = [[one.schedule_id, dict(one.words), one.target.spec] for one in declared]
    text = json.dumps(said, sort_keys=True, default=str)
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]
