"""What events change on rows: one text for each change, used by Python and by SQL.

A change gives each column that it names an expression over the columns of the row as it was, and over named arguments.
The functions below apply changes to values; `to_sql` renders the same text for a statement. The full path of a decision
applies changes one after another, the fast path applies their union at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from everwhen.model.job import OWN_ORIGINS, Job, NewJob
from everwhen.model.schedule import Plan, State
from everwhen.model.share import share_key

_NAME = re.compile(r"[a-z_]+")


class RowChange(NamedTuple):
    """The columns that an event changes, each with its new value as an expression."""

    values: Mapping[str, str]

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.values)

    def __or__(self, other: RowChange) -> RowChange:
        """Return both changes as one; two changes of one column cannot be united."""
        twice = self.values.keys() & other.values.keys()
        if twice:
            raise ValueError(f"both changes set {', '.join(sorted(twice))}")
        return RowChange({**self.values, **other.values})

    def to_sql(self, **arguments: str) -> str:
        """Render the assignments of an UPDATE; each argument gives the SQL of one named argument.

        >>> RowChange({"run_count": "run_count + 1", "last_run_at": "now"}).to_sql(now="?")
        'run_count = run_count + 1, last_run_at = ?'
        """
        return ", ".join(
            f"{column} = {_NAME.sub(lambda found: arguments.get(found[0], found[0]), value)}"
            for column, value in self.values.items()
        )


# -- the row of a schedule --

# A slot got its entry: it was fired, skipped or missed.
REACHED = RowChange({"last_slot_at": "max(slot_at, coalesce(last_slot_at, slot_at))"})
FIRED = (
    RowChange({"fire_count": "fire_count + 1", "outstanding": "outstanding + 1", "last_fired_at": "now"})
    | REACHED
)
# The slot after those that were decided.
MOVED_ON = RowChange({"next_slot_at": "following", "next_run_at": "due_at"})
# A firing outside the calendar: `places` is 0 for a backfill, which is never outstanding.
REQUESTED = RowChange({"fire_count": "fire_count + 1", "outstanding": "outstanding + places"})
# A catch-up job or a retry waits for its not_before.
DEFERRED = RowChange({"waiting": "waiting + 1"})
RETRIED = RowChange({"outstanding": "outstanding + 1", "retries_waiting": "retries_waiting + 1"}) | DEFERRED
# The start of a job; `run_at` is None unless it is an own job.
STARTED = RowChange(
    {
        "running_jobs": "running_jobs + running",
        "waiting": "waiting + began_waiting",
        "retries_waiting": "retries_waiting + began_retries",
        "last_run_at": "coalesce(run_at, last_run_at)",
    }
)
# A job is over; its worker may continue to work on it, after a time-out for example.
OVER = RowChange({"outstanding": "outstanding - 1"})
RELEASED = RowChange({"running_jobs": "running_jobs - 1"})
# An own job succeeded.
SUCCEEDED = RowChange(
    {
        "run_count": "run_count + 1",
        "current_repeat": "current_repeat + 1",
        "current_retry": "0",
        "failed_slots": "0",
        "last_success_at": "now",
        "last_success_job_id": "job_id",
    }
)
# An own job failed; the slot may be retried.
FAILED = RowChange(
    {
        "error_count": "error_count + 1",
        "current_retry": "current_retry + 1",
        "last_error": "error",
        "last_error_type": "error_type",
    }
)
# The last attempt of an own slot failed; with `on_exhausted: stop` failures are counted over slots.
SLOT_FAILED = RowChange(
    {"failed_slots": "failed_slots + 1", "current_retry": "current_retry if keeps_retries else 0"}
)
# The last attempt of an own slot is over.
SLOT_ENDED = RowChange({"last_completed_at": "now"})
# What a job that was queued does to the row when it is cancelled.
CANCELLED = OVER | RowChange(
    {"waiting": "waiting - is_waiting", "retries_waiting": "retries_waiting - is_waiting_retry"}
)
# An own job has ended: only now it is known when its target began, which may have been later than its claim.
RAN = RowChange({"last_run_at": "max(run_at, coalesce(last_run_at, run_at))"})
# An ordinary success: the only attempt of its slot, on which nothing else depends.
ENDED_WELL = OVER | RELEASED | SUCCEEDED | SLOT_ENDED | RAN

# -- the row of a job --

JOB_STARTED = RowChange(
    {
        "status": "'running'",
        "is_counted": "True",
        "is_probe": "probes",
        "attempt": "attempt + 1",
        "started_at": "now",
        "deadline_at": "until",
        "node": "by",
        "fence": "fence + 1",
        "ready_at": "None",
    }
)
# Columns that are known when a job is created, in the order of `job_row`.
JOB_INSERTED = tuple(
    """job_id schedule_row uid schedule_id revision number retry origin slot_at due_at not_before is_ready is_counted
    is_probe attempt payload queue guard_key capacity_key capacity_limit breaker_key line created_at
    cost_reserved share ready_at""".split()
)
# What the other columns hold then.
JOB_QUEUED = RowChange({"status": "'queued'", "rescues": "0", "fence": "0", "cancel_requested": "False"})


def job_row(job: NewJob, state: State, plan: Plan, now: int) -> tuple[object, ...]:
    """Return the row of a new job, in the order of JOB_INSERTED."""
    definition = plan.definition
    guard = definition.guard if job.origin in OWN_ORIGINS else None
    capacity = definition.capacity
    return (
        job.job_id,
        state.row_id,
        state.uid,
        state.schedule_id,
        state.revision,
        job.number,
        job.retry,
        job.origin,
        job.slot_at,
        job.due_at,
        job.not_before,
        job.is_ready,
        job.is_counted,
        job.is_probe,
        job.attempt,
        job.payload,
        definition.queue,
        guard.key if guard is not None else None,
        capacity.key if capacity is not None else None,
        capacity.limit if capacity is not None else None,
        definition.breaker.key if definition.breaker is not None else None,
        job.line,
        now,
        job.cost_reserved,
        share_key(definition.owner, definition.group),
        (job.not_before or now) if job.is_ready else None,
    )


# -- the changes as functions --


def _coalesce(first: Any, second: Any) -> Any:
    return second if first is None else first


def _compile(row_type: type, read: Sequence[str], values: Sequence[str], arguments: Sequence[str]) -> Any:
    """Compile a function that makes a row of `values` from a row with the columns `read`.

    `_replace` takes three times as long, and nearly every slot applies several changes.
    """
    source = (
        f"def change({', '.join(('row', *arguments))}):\n"
        f"    {', '.join(read)}, = row\n"
        f"    return new(row_type, ({', '.join(values)},))"
    )
    known = {"new": tuple.__new__, "row_type": row_type, "coalesce": _coalesce, "max": max}
    shadowed, found = set(read) & {*arguments, *known}, dict[str, Any](known)
    exec(source, found)
    change = found["change"]
    unknown = set(change.__code__.co_names) - known.keys()
    if unknown or shadowed:
        raise ValueError(f"a change of {row_type.__name__} has unclear names: {sorted(unknown | shadowed)}")
    return change


def _change_state(change: RowChange, *arguments: str) -> Any:
    return _compile(State, State._fields, _values(change, State._fields), arguments)


def _values(change: RowChange, columns: Sequence[str]) -> list[str]:
    return [change.values.get(column, column) for column in columns]


reach: Callable[[State, int], State]
fire: Callable[[State, int, int], State]
fire_and_move_on: Callable[[State, int, int, int, int], State]
move_on: Callable[[State, int | None, int | None], State]
request: Callable[[State, bool], State]
defer: Callable[[State], State]
retry: Callable[[State], State]
start: Callable[[State, int, int, int, int | None], State]
end_job: Callable[[State], State]
release: Callable[[State], State]
succeed: Callable[[State, int, str], State]
fail: Callable[[State, str, str | None], State]
fail_slot: Callable[[State, bool], State]
end_slot: Callable[[State, int], State]
cancel: Callable[[State, bool, bool], State]
ran: Callable[[State, int], State]
end_well: Callable[[State, int, str, int], State]
start_job: Callable[[Job, int, int | None, str, bool], Job]
queue_job: Callable[[Sequence[object], int], Job]

_OF_STATES: dict[str, tuple[RowChange, str]] = {
    "reach": (REACHED, "slot_at"),
    "fire": (FIRED, "now slot_at"),
    "fire_and_move_on": (FIRED | MOVED_ON, "now slot_at following due_at"),
    "move_on": (MOVED_ON, "following due_at"),
    "request": (REQUESTED, "places"),
    "defer": (DEFERRED, ""),
    "retry": (RETRIED, ""),
    "start": (STARTED, "running began_waiting began_retries run_at"),
    "end_job": (OVER, ""),
    "release": (RELEASED, ""),
    "succeed": (SUCCEEDED, "now job_id"),
    "fail": (FAILED, "error error_type"),
    "fail_slot": (SLOT_FAILED, "keeps_retries"),
    "end_slot": (SLOT_ENDED, "now"),
    "cancel": (CANCELLED, "is_waiting is_waiting_retry"),
    "ran": (RAN, "run_at"),
    "end_well": (ENDED_WELL, "now job_id run_at"),
}


def _compiled(name: str) -> Any:
    """Compile a change when it is first used: a command that only reads applies none."""
    if name in _OF_STATES:
        change_of_state, arguments = _OF_STATES[name]
        change = _change_state(change_of_state, *arguments.split())
    elif name == "start_job":
        values = _values(JOB_STARTED, Job._fields)
        change = _compile(Job, Job._fields, values, ("now", "until", "by", "probes"))
    elif name == "queue_job":
        known = (*JOB_INSERTED, "row_id")
        values = [one if one in known else JOB_QUEUED.values.get(one, "None") for one in Job._fields]
        change = _compile(Job, JOB_INSERTED, values, ("row_id",))
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = change
    return change


if not TYPE_CHECKING:  # the type checker goes by the annotations
    __getattr__ = _compiled
