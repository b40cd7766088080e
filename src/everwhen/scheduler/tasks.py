"""The functions that a program declares, by the schedules that run them; kept in memory, found by the targets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from everwhen.errors import ConfigError, DuplicateScheduleError
from everwhen.model.schedule import Target, local_id
from everwhen.scheduler.submission import ON_TRIGGER, function_target, label_of
from everwhen.targets.python_function import is_async
from everwhen.targets.python_run import PythonRun
from everwhen.targets.trigger_info import TriggerCallback, TriggerInfo


class Task(NamedTuple):
    """A function with the words of its schedule."""

    schedule_id: str
    fields: Mapping[str, Any]
    function: Callable[..., Any]
    isolate: bool

    def target(self, name: str) -> Target:
        label = label_of(self.function)
        # Asked while a decorator is at work, when the module does not have the function yet.
        if self.isolate and ("<" in label or label.startswith("__main__:")):
            raise ConfigError(
                f"{label} cannot be imported, and isolate runs it in a process of its own; "
                "move it to the top level of a module"
            )
        return function_target(label, name, isolate=self.isolate)


class Tasks:
    """What is declared under one name in this process."""

    def __init__(self, name: str, on_trigger: TriggerCallback | None) -> None:
        self.name = name
        self._on_trigger = on_trigger
        self._tasks: dict[str, Task] = {}

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

    def find(self, schedule_id: str, label: str) -> Callable[..., Any] | None:
        """The function of a schedule; the host's callback for one that was added with nothing to run."""
        if label == ON_TRIGGER:
            return None if self._on_trigger is None else _as_function(self._on_trigger)
        task = self._tasks.get(schedule_id)
        return None if task is None else task.function


def _as_function(on_trigger: TriggerCallback) -> Callable[[PythonRun], Any]:
    def run_on_host(run: PythonRun) -> Any:
        return on_trigger(TriggerInfo(None, local_id(run.schedule_id), "", run))

    async def await_host(run: PythonRun) -> Any:
        return await on_trigger(TriggerInfo(None, local_id(run.schedule_id), "", run))

    return await_host if is_async(on_trigger) else run_on_host
