"""The reading calls of the API, answered from operations and views: reading a database needs no web application.

The answers equal those of the service, byte for byte. A call that is not listed here, or that has a parameter that may
be invalid, gets None: the application answers it, or reports what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, get_args
from urllib.parse import parse_qs, unquote

from everwhen.cli.client import PREFIX, ApiResponse
from everwhen.errors import SchedulerError
from everwhen.model.instants import instant_of
from everwhen.views.shape import Object, encoded, list_to_json, read_cursor

if TYPE_CHECKING:
    from everwhen.model.queries import Entry
    from everwhen.operations.access import Caller
    from everwhen.runtime import Runtime

MOST_LIMIT, LONGEST_WORD = 500, 300
STATUSES = ("active", "paused", "invalid", "done", "dead")


class UnsureError(Exception):
    """Raised for a call that the application must answer."""


class Asked(NamedTuple):
    """One call: its object and its parameters."""

    runtime: Runtime
    caller: Caller
    dispatch: str
    name: str  # the id of one object
    query: Mapping[str, list[str]]
    fault_of_broker: Callable[[], str | None]

    def word(self, key: str, known: Collection[str] | None = None) -> Any:
        """Return a parameter; if `known` is given, it must be one of them."""
        found = self.query.get(key)
        if found is None:
            return None
        if len(found) > 1 or not _is_plain(found[0]) or not (known is None or found[0] in known):
            raise UnsureError
        return found[0]

    def limit(self, default: int) -> int:
        text = self.word("limit")
        if text is None:
            return default
        if not (text.isascii() and text.isdecimal() and len(text) < 4 and 1 <= int(text) <= MOST_LIMIT):
            raise UnsureError
        return int(text)

    def instant(self, key: str) -> int | None:
        text = self.word(key)
        if text is None:
            return None
        try:
            moment = datetime.fromisoformat(text)
            if "T" in text and moment.tzinfo is not None:
                return instant_of(moment)
        except (ValueError, OverflowError):
            pass
        raise UnsureError

    def before(self) -> int | None:
        """Return the row that the cursor names."""
        text = self.word("cursor")
        numbers = None if text is None else read_cursor(text, 1)
        if text is not None and numbers is None:
            raise UnsureError
        return None if numbers is None else numbers[0]


def _is_plain(word: str) -> bool:
    return 0 < len(word) <= LONGEST_WORD and "\0" not in word


class LocalReader:
    """Answers the reading calls on one database, with the rights of a local user."""

    def __init__(
        self,
        runtime: Runtime,
        caller: Caller,
        *,
        dispatch: str,
        fault_of_broker: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._fault_of_broker = fault_of_broker
        self._runtime = runtime
        self._caller = caller
        self._dispatch = dispatch

    def answer(self, method: str, target: str, headers: Mapping[str, str]) -> ApiResponse | None:
        """Return the answer to a call, or None when the application must give it."""
        path, _, query = target.partition("?")
        call = _call_of(path) if method == "GET" else None
        if call is None:
            return None
        (read, known), name = call
        given = parse_qs(query, keep_blank_values=True)
        if set(given) - set(known):
            return None
        asked = Asked(
            self._runtime,
            self._caller,
            self._dispatch,
            name=name,
            query=given,
            fault_of_broker=self._fault_of_broker,
        )
        try:
            found = read(asked)
        except UnsureError:
            return None
        except SchedulerError as error:
            return _refusal(error)
        if headers.get("accept") == "text/plain":  # of a log
            return ApiResponse(200, import_module("everwhen.views.jobs").log_text(found["items"]).encode())
        return ApiResponse(200, encoded(found))


def _refusal(error: SchedulerError) -> ApiResponse:
    problems = import_module("everwhen.views.problems")
    fields = problems.fields_of(error, is_local=True)
    return ApiResponse(fields["status"], problems.problem_bytes(fields))


# -- the calls --


def _schedules(asked: Asked) -> Object:
    from everwhen.model.queries import ScheduleFilter
    from everwhen.operations.access import list_entries
    from everwhen.views.schedules import schedules_page

    wanted = ScheduleFilter(
        status=asked.word("status", STATUSES),
        group=asked.word("group"),
        owner=asked.word("owner"),
        target=asked.word("target"),
        text=asked.word("q"),
        is_waiting=asked.word("waiting", ("true",)) is not None,
    )
    limit = asked.limit(50)
    page = list_entries(asked.runtime, wanted, asked.caller, limit=limit, before=asked.before())
    return schedules_page(page, _places(asked.runtime))


def _schedule(asked: Asked) -> Object:
    from everwhen.operations.access import get_entry
    from everwhen.views.schedules import schedule_to_json

    entry = get_entry(asked.runtime, asked.name, asked.caller)
    return schedule_to_json(entry, _places(asked.runtime)(entry))


def _find(asked: Asked) -> Object:
    from everwhen.operations.access import complete_schedules, find_schedules
    from everwhen.views.system import ScheduleName

    if (beginning := asked.query.get("beginning")) is not None:
        if len(beginning) > 1 or len(beginning[0]) > LONGEST_WORD or "\0" in beginning[0]:
            raise UnsureError
        found = complete_schedules(asked.runtime, beginning[0], asked.caller)
    else:
        found = find_schedules(asked.runtime, asked.word("schedule") or "", asked.caller)
    return list_to_json([ScheduleName.of(names) for names in found])


def _places(runtime: Runtime) -> Callable[[Entry], str | None]:
    """Return a function that finds the file and line where a schedule is declared."""
    from everwhen.operations.access import config_places

    found: list[Mapping[str, str]] = []

    def place_of(entry: Entry) -> str | None:
        if entry.source != "config":
            return None
        if not found:
            found.append(config_places(runtime))
        return found[0].get(entry.schedule.state.schedule_id)

    return place_of


def _upcoming(asked: Asked) -> Object:
    from everwhen.model.queries import ScheduleFilter
    from everwhen.operations.upcoming import explain_silence, upcoming_of_all
    from everwhen.views.slots import upcoming_list

    slots = upcoming_of_all(asked.runtime, asked.limit(50), ScheduleFilter(owner=asked.caller.token.owner))
    return upcoming_list(slots, explain_silence(asked.runtime))


def _upcoming_of(asked: Asked) -> Object:
    from everwhen.operations.access import get_entry
    from everwhen.operations.upcoming import conditions_of, explain_silence, upcoming_of
    from everwhen.views.slots import upcoming_list

    schedule = get_entry(asked.runtime, asked.name, asked.caller).schedule
    slots = upcoming_of(schedule, asked.limit(10), conditions_of(asked.runtime, [schedule]))
    return upcoming_list(slots, explain_silence(asked.runtime, schedule))


def _why(asked: Asked) -> Object:
    from everwhen.model.limits import FOR_EVER
    from everwhen.operations.access import uid_for
    from everwhen.operations.why import why
    from everwhen.views.slots import Explanation

    at = asked.instant("at")
    uid = uid_for(asked.runtime, asked.name, asked.caller, FOR_EVER if at is None else at)
    return Explanation.of(why(asked.runtime, uid, at), schedule_id=asked.name)


def _jobs(asked: Asked) -> Object:
    from everwhen.model.job import JobStatus, Origin
    from everwhen.model.queries import JobFilter
    from everwhen.operations.job_access import list_jobs
    from everwhen.operations.labels import labels_of
    from everwhen.views.jobs import jobs_page

    status, origin = asked.word("status", get_args(JobStatus)), asked.word("origin", get_args(Origin))
    wanted = JobFilter(
        statuses=() if status is None else (status,),
        origins=() if origin is None else (origin,),
        since=asked.instant("from"),
        until=asked.instant("to"),
        group=asked.word("group"),
    )
    page = list_jobs(
        asked.runtime,
        wanted,
        asked.caller,
        schedule_id=asked.word("schedule_id"),
        limit=asked.limit(50),
        before=asked.before(),
    )
    return jobs_page(page, labels_of(asked.runtime, (job.uid for job in page.jobs)))


def _job(asked: Asked) -> Object:
    from everwhen.operations.job_access import delivery_of, get_job
    from everwhen.operations.labels import labels_of
    from everwhen.views.jobs import job_in_detail

    job = get_job(asked.runtime, asked.name, asked.caller)
    return job_in_detail(job, delivery_of(asked.runtime, asked.name), labels_of(asked.runtime, [job.uid]))


def _log(asked: Asked) -> Object:
    from everwhen.operations.job_access import get_output
    from everwhen.views.jobs import log_to_json, read_positions

    seen = read_positions(asked.word("after"))
    if seen is None:
        raise UnsureError
    job, pieces = get_output(asked.runtime, asked.name, asked.caller)
    return log_to_json(pieces, seen, is_over=not job.is_outstanding)


def _status(asked: Asked) -> Object:
    from everwhen.operations.system import system_status
    from everwhen.views.system import status_to_json

    found, broker = system_status(asked.runtime), asked.fault_of_broker()
    return status_to_json(found, None, unready=None, dispatch=asked.dispatch, broker=broker)


def _breakers(asked: Asked) -> Object:
    from everwhen.operations.breakers import list_breakers, probe_times
    from everwhen.views.system import breaker_to_json

    found = list_breakers(asked.runtime, asked.caller)
    times = probe_times(asked.runtime, found)
    return list_to_json([breaker_to_json(one, times) for one in found])


def _breaker(asked: Asked) -> Object:
    from everwhen.operations.breakers import find_breaker, probe_times
    from everwhen.views.system import breaker_with_transitions

    breaker, transitions = find_breaker(asked.runtime, asked.name, asked.caller, limit=asked.limit(20))
    return breaker_with_transitions(breaker, transitions, probe_times(asked.runtime, [breaker]))


def _budgets(asked: Asked) -> Object:
    from everwhen.operations.budgets import list_budgets
    from everwhen.views.system import Budget

    return list_to_json([Budget.of(one) for one in list_budgets(asked.runtime, asked.caller)])


def _alerts(asked: Asked) -> Object:
    from everwhen.model.queries import AlertFilter
    from everwhen.operations.alerts import list_alerts
    from everwhen.views.alerts import alerts_page

    wanted = AlertFilter(
        state=asked.word("state", ("open", "resolved")),
        class_=asked.word("class"),
        schedule_id=asked.word("schedule_id"),
        owner=asked.word("owner"),
    )
    limit = asked.limit(50)
    page = list_alerts(asked.runtime, wanted, asked.caller, limit=limit, before=asked.before())
    return alerts_page(page, limit)


Call = tuple[Callable[[Asked], Object], tuple[str, ...]]

# The calls by the parts of their path, where `*` is the id of one object, with their parameters.
CALLS: dict[tuple[str, ...], Call] = {
    ("schedules",): (_schedules, ("status", "group", "owner", "target", "q", "waiting", "limit", "cursor")),
    ("schedules", "*"): (_schedule, ()),
    ("schedules", "*", "upcoming"): (_upcoming_of, ("limit",)),
    ("schedules", "*", "why"): (_why, ("at",)),
    ("find",): (_find, ("schedule", "beginning")),
    ("upcoming",): (_upcoming, ("limit",)),
    ("jobs",): (_jobs, ("schedule_id", "group", "status", "origin", "from", "to", "limit", "cursor")),
    ("jobs", "*"): (_job, ()),
    ("jobs", "*", "log"): (_log, ("after",)),
    ("system", "status"): (_status, ()),
    ("alerts",): (_alerts, ("state", "class", "schedule_id", "owner", "limit", "cursor")),
    ("breakers",): (_breakers, ()),
    ("breakers", "*"): (_breaker, ("limit",)),
    ("budgets",): (_budgets, ()),
}


def _call_of(path: str) -> tuple[Call, str] | None:
    parts = tuple(path.removeprefix(f"{PREFIX}/").rstrip("/").split("/"))
    if parts in CALLS:
        return CALLS[parts], ""
    call = CALLS.get((parts[0], "*", *parts[2:]))
    if call is None or len(parts) < 2:
        return None
    name = unquote(parts[1])
    return (call, name) if _is_plain(name) and "/" not in name else None
