"""The jobs of a scheduler object of APScheduler 3, in memory or in its job store, as general schedules.

The object is read and not started, and nothing of APScheduler is imported here: all that is known of it is what the
object brings. A job store is only read. Its own `get_all_jobs` is not called, because it deletes jobs that it cannot
restore.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from everwhen.clock import SystemClock, local_zone_name
from everwhen.compat.importers import Imported, Names
from everwhen.compat.importers.apscheduler_triggers import (
    LeftOutError,
    Reading,
    duration_text,
    trigger_keys,
    zone_name,
)
from everwhen.config.submission import SubmissionRules, read_submission
from everwhen.errors import ConfigError, SchedulerError, TimetableError
from everwhen.model.instants import to_datetime
from everwhen.targets.arguments import json_fault
from everwhen.targets.python_function import UnknownFunctionError, load

_DEFAULTS = {"coalesce": True, "misfire_grace_time": 1, "max_instances": 1}
_MEMORY = "MemoryJobStore"
_GENERATED = re.compile(r"[0-9a-f]{32}")
_PARTS = ("_pending_jobs", "_jobstores", "_executors", "_listeners", "_job_defaults")


class _Found(NamedTuple):
    """A job, whether the program declares it anew at each start, and whether it waits for the scheduler's start."""

    job: Any
    is_declared: bool
    is_pending: bool = False


@dataclass(slots=True)
class _Source:
    """The scheduler that is read, and what has been read of it."""

    scheduler: Any
    imported: Imported
    rules: SubmissionRules
    names: Names = field(default_factory=Names)

    def setting(self, job: Any, name: str) -> Any:
        """Return a setting of a job; one that waits for its scheduler's start has only those that were given."""
        return getattr(job, name, self.scheduler._job_defaults.get(name, _DEFAULTS[name]))


def import_apscheduler(scheduler: Any) -> Imported:
    """Import the jobs of a scheduler; what cannot be taken over is named in the notes."""
    kind = type(scheduler)
    if not all(hasattr(scheduler, part) for part in _PARTS):
        raise ConfigError(
            f"this is a {kind.__module__}.{kind.__qualname__}, not a scheduler of APScheduler 3"
        )
    now = SystemClock().now()
    source = _Source(
        scheduler, Imported({"schedules": []}), SubmissionRules(now=now, local_zone=local_zone_name)
    )
    source.imported.document = {**_service(source), "schedules": []}
    for found in _jobs_of(source):
        schedule = _schedule(found, to_datetime(now), source)
        if schedule is not None:
            source.imported.add_schedule(schedule)
    _note_the_rest(source)
    if scheduler.running:
        scheduler.shutdown(wait=False)
        source.imported.note(
            "the module starts its scheduler when it is imported, so jobs that were due may have run just now; start it"
            ' in a function, or under `if __name__ == "__main__"`'
        )
    return source.imported


def _service(source: _Source) -> dict[str, Any]:
    """Return the section with the zone of the scheduler: the host's, unless the program names one."""
    try:
        return {"service": {"timezone": zone_name(source.scheduler.timezone)}}
    except TimetableError as error:
        source.imported.note(f"timezone: left out, so schedules that are added later are in UTC: {error}")
        return {}


def _jobs_of(source: _Source) -> list[_Found]:
    """Return the jobs that wait for the start, and those in the stores that these do not replace."""
    scheduler, note = source.scheduler, source.imported.note
    found: dict[str, _Found] = {}
    for alias, store in scheduler._jobstores.items():
        is_in_memory = type(store).__name__ == _MEMORY
        for job in _stored_jobs(alias, store, note):
            found[job.id] = _Found(job, is_declared=is_in_memory)
    for job, alias, replaces in scheduler._pending_jobs:
        if job.id in found and not replaces:
            note(f"{job.id}: is declared, and in the job store {alias} as well; the declared one is taken")
        found[job.id] = _Found(job, is_declared=True, is_pending=True)
    return list(found.values())


def _stored_jobs(alias: str, store: Any, note: Callable[[str], None]) -> Iterator[Any]:
    kind = type(store).__name__
    if kind == _MEMORY:
        yield from store.get_all_jobs()
    elif hasattr(store, "engine") and hasattr(store, "jobs_t"):
        yield from _rows_of(alias, store, note)
    else:
        note(
            f"job store {alias} ({kind}): is not read, because it deletes jobs that it cannot restore;"
            " move its jobs to an SQLAlchemyJobStore, or declare them"
        )


def _rows_of(alias: str, store: Any, note: Callable[[str], None]) -> Iterator[Any]:
    table = store.jobs_t
    try:
        with store.engine.connect() as connection:
            if not store.engine.dialect.has_table(connection, table.name, schema=table.schema):
                return
            rows = connection.execute(table.select().order_by(table.c.id)).all()
    except Exception as error:  # of any driver
        note(f"job store {alias}: cannot be read: {error}")
        return
    finally:
        store.engine.dispose()
    for row in rows:
        try:
            yield store._reconstitute_job(row.job_state)
        except Exception as error:  # third-party code runs while a job is restored
            note(f"{row.id}: left out, it cannot be restored: {type(error).__name__}: {error}")


def _schedule(found: _Found, now: datetime, source: _Source) -> dict[str, Any] | None:
    job, label = found.job, str(found.job.id)
    if _GENERATED.fullmatch(label):
        label = job.name

    def note(text: str) -> None:
        source.imported.note(f"{label}: {text}")

    try:
        run = _target(job, source)
        keys: dict[str, Any] = {"name": job.name} if _has_own_name(job) else {}
        keys |= trigger_keys(job.trigger, Reading(now, found.is_declared, note))
        keys |= _first_run(found, keys, now, note)
        keys |= _policies(job, source, note)
        keys["run"] = run
        _check(keys, source)
    except (LeftOutError, SchedulerError) as error:
        note(f"left out: {error}")
        return None
    return {"id": source.names.keep(label), **keys}


def _has_own_name(job: Any) -> bool:
    function = job.func.func if isinstance(job.func, functools.partial) else job.func
    return job.name not in (job.id, getattr(function, "__name__", ""), getattr(function, "__qualname__", ""))


def _check(keys: Mapping[str, Any], source: _Source) -> None:
    """Refuse what a file could not have."""
    read_submission(keys, "imported", source.rules, may_be_past=True)


def _first_run(
    found: _Found, keys: Mapping[str, Any], now: datetime, note: Callable[[str], None]
) -> dict[str, Any]:
    """Convert `next_run_time`: None pauses a job, and the present instant lets an interval begin at once."""
    next_at = getattr(found.job, "next_run_time", now)
    if next_at is None:
        return {"enabled": False}
    if not found.is_pending or not hasattr(found.job, "next_run_time"):
        return {}
    if keys.get("first_run") == "after_interval" and next_at <= now:
        return {"first_run": "immediately"}
    note(f"next_run_time={next_at.isoformat()} is left out; start_at and first_run say when it begins")
    return {}


def _policies(job: Any, source: _Source, note: Callable[[str], None]) -> dict[str, Any]:
    grace, coalesce = source.setting(job, "misfire_grace_time"), source.setting(job, "coalesce")
    keys: dict[str, Any] = {}
    if grace is None:
        keys["catch_up"] = "run_once" if coalesce else "run_all"
        note(
            f"misfire_grace_time=None is catch_up: {keys['catch_up']}, which also holds for runs that were missed"
            " while the program was down" + ("" if coalesce else "; at most catch_up_limit (100) of them")
        )
    else:
        keys["catch_up"] = "skip"
        keys |= _grace(grace, coalesce, source, note)
    instances = source.setting(job, "max_instances")
    if instances == 1:
        return keys | {"if_running": "skip", "timeout": 0}
    note(
        f"max_instances={instances}: a run beyond it is skipped there; here it waits until another has ended"
    )
    return keys | {"if_running": "allow", "max_concurrent": instances, "timeout": 0}


def _grace(grace: int, coalesce: bool, source: _Source, note: Callable[[str], None]) -> dict[str, Any]:
    if grace == _DEFAULTS["misfire_grace_time"]:
        source.imported.note(
            "misfire_grace_time=1, the default there, is left out: the grace is half the time to the next slot here,"
            " at least 2s and at most 5m; what is later is on record as missed"
        )
        return {}
    if not coalesce:
        note(
            f"coalesce=False with misfire_grace_time={grace}: of several runs that are late by less, only the newest"
            " runs here, and the others are on record as missed; catch_up: run_all runs each"
        )
    return {"misfire_grace": duration_text(grace)}


def _target(job: Any, source: _Source) -> dict[str, Any]:
    function, args, kwargs = job.func, list(job.args), dict(job.kwargs)
    while isinstance(function, functools.partial):
        args, kwargs = [*function.args, *args], {**function.keywords, **kwargs}
        function = function.func
    run: dict[str, Any] = {"python": _importable(function)}
    fault = json_fault(args, "args") or json_fault(kwargs, "kwargs")
    if fault is not None:
        raise LeftOutError(f"{fault}; give the function an id or a path, and let it load the rest")
    run |= {
        key: json.loads(json.dumps(value)) for key, value in (("args", args), ("kwargs", kwargs)) if value
    }
    if "${" in json.dumps(run):
        raise LeftOutError("its arguments have ${, which a file reads as a variable of the environment")
    executor = source.scheduler._executors.get(job.executor)
    if type(executor).__name__ == "ProcessPoolExecutor":
        run["isolate"] = True
    return run


def _importable(function: Any) -> str:
    """Return the name under which another process finds the function."""
    owner = getattr(function, "__self__", None)
    module, path = getattr(function, "__module__", None), getattr(function, "__qualname__", "")
    label = f"{module}:{path}"
    if owner is not None and not isinstance(owner, type) and module is not None:
        raise LeftOutError(
            f"{label} is a method of an object; `Scheduler.add` takes it where a module holds the object"
        )
    try:
        is_found = load(label) == function
    except UnknownFunctionError:
        is_found = False
    if not is_found or module == "__main__":
        raise LeftOutError(f"its function {label} cannot be imported; move it to the top level of a module")
    return label


def _note_the_rest(source: _Source) -> None:
    """Name what belongs to the scheduler and not to a job."""
    scheduler, note = source.scheduler, source.imported.note
    for alias, executor in scheduler._executors.items():
        kind = type(executor).__name__
        how = "isolate runs each job in a process of its own" if kind == "ProcessPoolExecutor" else ""
        note(
            f"executor {alias} ({kind}): left out; {how or 'jobs run on the threads of a node'}, service.max_workers"
            " bounds their number, and queue separates them"
        )
    for alias in scheduler._jobstores:
        if alias != "default":
            note(f"job store {alias}: its name is left out; all schedules are in one database")
    for callback, _ in scheduler._listeners:
        name = getattr(callback, "__qualname__", repr(callback))
        note(f"listener {name}: left out; events are in the audit, the streams and `notify`")
    if source.imported.document["schedules"]:
        note(
            "functions run in `everwhen up` and its workers, which must be able to import them; --python prints calls"
            " for a program that runs them itself"
        )
