"""The keys of a schedule: one row of `FIELDS` for each, and the `Definition` that they make.

A row says what a key may be, what it means, what it is where nobody sets it, and how it is written as JSON. The checks
of files, REST bodies and Python calls, the JSON Schema, OpenAPI, answers, the options of the command line, the
differences between revisions, `scheduler/schedule_options.py` and `docs/reference/schedule-keys.md` come from here
(the last two by `tools.reference`). To add a key, see CONTRIBUTING.md.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from dataclasses import fields as attributes_of
from operator import attrgetter
from typing import Any, Literal, get_args

from everwhen.model import meanings
from everwhen.model.instants import MINUTE, SECOND, duration_text, rfc3339_text
from everwhen.model.job import Origin
from everwhen.model.kinds import Anything, Either, Key, Object, Record
from everwhen.model.masks import masked
from everwhen.model.payload import payload_text
from everwhen.model.policy import (
    BreakerRule,
    Budget,
    Capacity,
    CatchUp,
    Guard,
    IfRunning,
    IntervalFrom,
    Made,
    OnExhausted,
    OnLost,
    WhenClosed,
)
from everwhen.model.scalars import CheckedValue, Flag, Number, Only, Parsed, Text, Word
from everwhen.model.target_kinds import DEFAULT_COMMAND, Target, run_to_json, some_of
from everwhen.model.values import (
    A_DURATION,
    ARGV,
    BREAKER,
    DST,
    DURATION,
    DURATION_OR_NONE,
    ENVIRONMENT,
    GRACE,
    INSTANT,
    MOST_PAYLOAD,
    NAME_TEXT,
    PERCENT_OR_DURATION,
    SIZE,
    URL,
    WEEKDAYS,
    WINDOW,
    ZONE,
    plain_queue,
)
from everwhen.timetable.civil_time import DstRule, Fold, Gap, Zone
from everwhen.timetable.cron import parse_cron
from everwhen.timetable.interval import parse_seconds
from everwhen.timetable.occurrences import FirstRun, dst_rule
from everwhen.timetable.trigger import Cron, Every, EveryMonth, Once, OnRequest, Trigger, parse_every
from everwhen.timetable.windows import Window, weekday_names

ScheduleType = Literal["interval", "cron", "one_shot", "webhook", "chat"]
SignatureScheme = Literal["everwhen", "github"]
Section = Literal["schedules", "plugins", "agents"]
Reach = Literal["run", "timing", "nothing"]
"""What a key acts on: what a run, or a hook of it, receives; or only when, how often, where and within which limits
runs take place; or neither."""
Column = Literal["plugin", "agent", "seconds", "spec"]
"""Whose defaults differ: targets of a kind, and bodies with `interval_seconds`, or `type` and `spec`."""

EVERYWHERE: tuple[Section, ...] = ("schedules", "plugins", "agents")
THE_INTERVAL = object()  # a default that is the schedule's own interval


PingFormat = Literal["healthchecks", "sentry"]


@dataclass(frozen=True, slots=True)
class Definition:
    """One revision of a schedule: what its keys say, read.

    Durations are microseconds, start_at and end_at seconds of `timetable`.
    """

    trigger: Trigger
    zone: Zone
    target: Target
    name: str = ""
    description: str = ""
    owner: str | None = None
    group: str | None = None
    command: str | None = None
    payload: str = "{}"
    queue: str = "default"
    gap: Gap | None = None
    fold: Fold | None = None
    start_at: int | None = None
    end_at: int | None = None
    first_run: FirstRun | None = None
    interval_from: IntervalFrom = "slot"
    jitter_ms: int = 0
    only_between: Window | None = None
    not_on: int = 0
    outside_window: WhenClosed = "skip"
    quiet_hours_id: str | None = None
    misfire_grace: int | None = None
    catch_up: CatchUp | None = None
    catch_up_limit: int = 100
    if_running: IfRunning = "skip"
    queue_limit: int = 1_000
    guard: Guard | None = None
    capacity: Capacity | None = None
    breaker: BreakerRule | None = None
    budgets: tuple[Budget, ...] = ()
    total_repeats: int = 0
    max_retries: int | None = None
    retry_delay: int | None = None
    on_exhausted: OnExhausted = "continue"
    on_lost: OnLost = "rerun"
    timeout: int | None = 10 * MINUTE
    expect_each: bool = False
    expect_within: int | None = None
    expect_grace: int | None = None
    ping_url: str | None = None
    secret: str | None = None
    signature: SignatureScheme = "everwhen"
    made: Made | None = None
    ping_format: PingFormat = "healthchecks"
    ping_output: int = 10 << 10  # bytes

    @property
    def size(self) -> int:
        """Return about how many characters it has: all of them that are many."""
        return len(self.payload) + len(self.target.spec) + len(self.description) + len(self.name)

    @property
    def is_chain(self) -> bool:
        """Return whether the next slot is counted from the end of the last run."""
        return self.interval_from == "completion" and isinstance(self.trigger, Every)

    @property
    def is_expected(self) -> bool:
        """Return whether an alert reports it when no success comes in time."""
        return self.expect_each or self.expect_within is not None

    @property
    def has_bounds(self) -> bool:
        return self.start_at is not None or self.end_at is not None

    @property
    def is_one_shot(self) -> bool:
        return isinstance(self.trigger, Once)

    @property
    def type(self) -> ScheduleType:
        match self.trigger:
            case Every() | EveryMonth():
                return "interval"
            case Cron():
                return "cron"
            case Once():
                return "one_shot"
            case OnRequest():
                return self.trigger.kind

    @property
    def catch_up_policy(self) -> CatchUp:
        if self.catch_up is not None:
            return self.catch_up
        return "run_once" if self.is_one_shot or self.is_chain else "skip"

    @property
    def retry_base(self) -> int:
        if self.retry_delay is not None:
            return self.retry_delay
        if isinstance(self.trigger, Every):
            return min(self.trigger.seconds * SECOND, MINUTE)
        return MINUTE

    @property
    def stops_when_exhausted(self) -> bool:
        """Return whether more than `max_retries` failures in a row, over any number of slots, end the schedule."""
        return self.max_retries is not None and self.on_exhausted == "stop"

    @property
    def dst(self) -> DstRule:
        return dst_rule(self.trigger, gap=self.gap, fold=self.fold)

    def dedupe_key(self, schedule_id: str, origin: Origin = "schedule", slot_at: int = 0) -> str:
        """Return the label of a job: its schedule, and for catch-up also its slot.

        The store's unique key on (slot_at, uid) prevents a second firing, so this label is not used after the job ends.
        """
        key = f"{self.group or '-'}:{self.command or self.target.kind}:{schedule_id.rpartition('.')[2]}"
        return f"{key}:catchup:{slot_at // SECOND}" if origin == "catch_up" else key


# -- how a key is written --


def _trigger_text(key: str) -> Callable[[Definition], str | None]:
    def written(definition: Definition) -> str | None:
        return trigger_to_json(definition.trigger).get(key)

    return written


def trigger_to_json(trigger: Trigger) -> dict[str, str]:
    """Return the key of a trigger, with its text."""
    match trigger:
        case Every() | EveryMonth():
            return {"every": trigger.text}
        case Cron():
            return {"cron": trigger.expression.text}
        case Once():
            return {trigger.kind: trigger.text}
        case OnRequest():
            return {"type": trigger.kind}


def _duration_of(attribute: str, unset: Any = None) -> Callable[[Definition], Any]:
    value = attrgetter(attribute)
    return lambda definition: duration_text(value(definition)) or unset


def _bound(seconds: int | None) -> str | None:
    return None if seconds is None else rfc3339_text(seconds * SECOND)


def _jitter(definition: Definition) -> str | None:
    milliseconds = definition.jitter_ms
    if not milliseconds:
        return None
    if milliseconds % 1_000 and isinstance(definition.trigger, Every):  # only a percentage has such fractions
        return f"{milliseconds // (definition.trigger.seconds * 10)}%"
    return duration_text(milliseconds * 1_000)


def _breaker(definition: Definition) -> dict[str, Any] | None:
    rule = definition.breaker
    return (
        None
        if rule is None
        else {"threshold": rule.threshold, "reset_after": duration_text(rule.reset_after)}
    )


DEFAULT_PING_OUTPUT = 10 << 10


def _expect(definition: Definition) -> dict[str, Any] | None:
    within, grace = duration_text(definition.expect_within), duration_text(definition.expect_grace)
    each = "slot" if definition.expect_each else None
    return some_of({"each": each, "within": within, "grace": grace})


def _ping(definition: Definition) -> dict[str, Any] | None:
    if not definition.ping_url:
        return None
    found: dict[str, Any] = {"url": definition.ping_url}
    if definition.ping_format != "healthchecks":
        found["format"] = definition.ping_format
    if definition.ping_output != DEFAULT_PING_OUTPUT:
        found["output"] = definition.ping_output
    return found


# -- the table --


@dataclass(frozen=True, slots=True)
class Field(Key):
    """One key of a schedule.

    A key is the attribute of the Definition with its name, or `attribute`, and has its default; then `read` converts a
    checked value to it. A key whose attribute is None is read by `declare`, because it needs the zone, the trigger or
    the group. `write` is the way back, None where the key is not set; `answer` is the form in answers, if it differs.

    `reach` decides which edits need a new approval. Where a row says nothing, it reaches the run;
    tests/api/test_what_reaches_a_run.py compares the rows with what runs receive.
    """

    attribute: str | None = ""
    read: Callable[[Any], Any] | None = None
    write: Callable[[Definition], Any] | None = None
    answer: Callable[[Definition], Any] | None = None
    answer_type: Any = None  # the type in Python; None: that of the kind
    is_answered: bool = False  # never null in an answer
    defaults: Mapping[Column, Any] = field(default_factory=dict)  # those that differ from `default`
    otherwise: str = ""  # the default in words, where it is not one value
    sections: tuple[Section, ...] = EVERYWHERE
    reach: Reach = "run"

    @property
    def reader(self) -> Callable[[Any], Any] | None:
        """Return the conversion of a checked value to the attribute; None: it is the attribute."""
        return self.kind.parse if self.read is None and isinstance(self.kind, Parsed) else self.read

    @property
    def writer(self) -> Callable[[Definition], Any]:
        """Return the conversion of a definition to this key as JSON."""
        if self.write is not None:
            return self.write
        return _nothing if self.attribute is None else attrgetter(self.attribute)


def _nothing(_definition: Definition) -> None:
    return None


_ATTRIBUTES = {one.name: one.default for one in attributes_of(Definition)}


def _completed(name: str, row: Field) -> Field:
    """Return a row with the attribute of its name and the default of that attribute, where it says nothing else."""
    attribute = row.attribute or (name if row.attribute == "" and name in _ATTRIBUTES else None)
    value = _ATTRIBUTES.get(attribute) if attribute is not None else None
    is_value = row.default is None and row.write is None and value not in (None, "")
    return replace(
        row,
        attribute=attribute,
        default=value if is_value else row.default,
        is_answered=row.is_answered or value is not None,
    )


WHEN_EMPTY = ("run", "skip")
WORK_SOURCE = Record(
    {
        "type": Key(
            Text("directory"), "directory, command, or the name of an installed source.", is_required=True
        ),
        "path": Key(Text("inbox"), "The directory with one file per item."),
        "command": Key(ARGV, "The program that provides work items."),
        "env": Key(ENVIRONMENT, "Variables of its environment."),
        "when_empty": Key(
            Word(WHEN_EMPTY, meanings=meanings.WHEN_EMPTY),
            "Whether to run or to skip when there is no item.",
            "run",
        ),
        "options": Key(Object(MOST_PAYLOAD), "Keys of an installed source."),
    }
)


def _one_expectation(node: CheckedValue) -> None:
    if (node.value.get("each") is None) == (node.value.get("within") is None):
        node.complain("must set exactly one of each, within")


EXPECT_RULE = Record(
    {
        "each": Key(Word(("slot",)), "A success is expected after each slot."),
        "within": Key(DURATION, "A success is expected this often; closed time does not count."),
        "grace": Key(DURATION, "How late the success may be; after a slot 1h by default."),
    },
    _one_expectation,
)
EXPECT = Either(((bool, Only(True)),), EXPECT_RULE)
PING = Record(
    {
        "url": Key(URL, "The URL to call.", is_required=True),
        "format": Key(
            Word(get_args(PingFormat), meanings=meanings.PING_FORMAT),
            "The protocol of the monitoring service.",
            "healthchecks",
        ),
        "output": Key(SIZE, "How much of the end of a job's output is sent.", "10KiB"),
    }
)

_OF_AGENTS: tuple[Section, ...] = ("agents",)
_AN_INTERVAL = Parsed(parse_every, A_DURATION, python="Duration")
_EXPRESSION = Parsed(parse_cron, {"type": "string", "examples": ["0 2 * * *"]})
_ROWS: dict[str, Field] = {
    "type": Field(
        Word(("interval", "cron", "webhook", "chat"), meanings=meanings.TRIGGER_TYPE),
        "What fires the schedule.",
        sections=_OF_AGENTS,
    ),
    "interval": Field(_AN_INTERVAL, "The time between two runs.", sections=_OF_AGENTS),
    "expression": Field(_EXPRESSION, "The same as cron.", sections=_OF_AGENTS),
    "command": Field(Text(DEFAULT_COMMAND), "The plugin's command.", DEFAULT_COMMAND, sections=("plugins",)),
    "every": Field(
        _AN_INTERVAL,
        "An interval: 5m, 1h30m, hourly, daily, weekly or monthly.",
        write=_trigger_text("every"),
    ),
    "cron": Field(
        _EXPRESSION,
        "A cron expression of five fields, or a shortcut such as @daily.",
        write=_trigger_text("cron"),
    ),
    "at": Field(
        INSTANT,
        "Run once at this time. A time without an offset is in the schedule's timezone.",
        write=_trigger_text("at"),
        reach="timing",
    ),
    "after": Field(
        Parsed(parse_seconds, A_DURATION, python="Duration"),
        "Run once, this long after the schedule is created.",
        write=_trigger_text("after"),
        reach="timing",
    ),
    "name": Field(Text(), "A name for people to read."),
    "description": Field(Text(), "What the schedule is for."),
    "owner": Field(Text(), "The owner of the schedule."),
    "enabled": Field(
        Flag(),
        "Set it to false to pause the schedule; its state is kept.",
        True,
        is_answered=True,
        reach="nothing",
    ),
    "timezone": Field(
        ZONE,
        "The time zone: an IANA name such as Europe/Berlin, or local.",
        write=attrgetter("zone.name"),
        is_answered=True,
        defaults={"agent": "local", "spec": "UTC"},
        otherwise="the service's",
    ),
    "dst": Field(
        DST,
        "What happens to a slot when the clocks change.",
        write=lambda one: some_of({"gap": one.gap, "fold": one.fold}),
        otherwise="`{gap: skip, fold: both}` for a cron expression whose minute or hour begins with `*`, else "
        "`{gap: shift, fold: first}`",
        reach="timing",
    ),
    "start_at": Field(
        INSTANT,
        "No slot is due before this time.",
        None,
        None,
        write=lambda one: _bound(one.start_at),
        reach="timing",
    ),
    "end_at": Field(
        INSTANT,
        "No slot is due at or after this time.",
        None,
        None,
        write=lambda one: _bound(one.end_at),
        reach="timing",
    ),
    "first_run": Field(
        Word(get_args(FirstRun), meanings=meanings.FIRST_RUN),
        "When the first run of an interval is due.",
        "immediately",
        defaults={"seconds": "after_interval", "spec": "after_interval"},
        reach="timing",
    ),
    "interval_from": Field(
        Word(get_args(IntervalFrom), meanings=meanings.INTERVAL_FROM),
        "Whether an interval is counted from the slot or from the end of the last run.",
        defaults={"agent": "completion"},
        reach="timing",
    ),
    "jitter": Field(
        PERCENT_OR_DURATION,
        "Delay each start by up to this time: 30s, or 5% of the interval.",
        write=_jitter,
        reach="timing",
    ),
    "only_between": Field(
        WINDOW,
        "The hours in which the schedule may fire, such as 08:00-18:00.",
        write=lambda one: str(one.only_between) if one.only_between else None,
        reach="timing",
    ),
    "not_on": Field(
        WEEKDAYS,
        "The weekdays on which the schedule does not fire.",
        write=lambda one: weekday_names(one.not_on) or None,
        answer=lambda one: weekday_names(one.not_on),
        answer_type=list[str],
        reach="timing",
    ),
    "outside_window": Field(
        Word(get_args(WhenClosed), meanings=meanings.WHEN_CLOSED),
        "Whether a slot in a closed time is skipped or deferred.",
        reach="timing",
    ),
    "quiet_hours": Field(
        Text("nights"),
        "The id of a quiet-hours policy.",
        attribute="quiet_hours_id",
        reach="timing",
    ),
    "misfire_grace": Field(
        GRACE,
        "How late a slot may fire before it counts as missed.",
        "auto",
        read=lambda value: None if value == "auto" else DURATION.parse(value),
        write=_duration_of("misfire_grace", "auto"),
        is_answered=True,
        reach="timing",
    ),
    "catch_up": Field(
        Word((*get_args(CatchUp), "run_all_capped"), meanings=meanings.CATCH_UP),
        "What happens to slots that were missed.",
        read=lambda value: "run_all" if value == "run_all_capped" else value,
        answer=attrgetter("catch_up_policy"),
        answer_type=CatchUp,
        is_answered=True,
        otherwise="`run_once` for `at`, `after` and `interval_from: completion`, else `skip`",
        reach="timing",
    ),
    "catch_up_limit": Field(
        Number(1, 100_000),
        "The largest number of catch-up jobs.",
        reach="timing",
    ),
    "if_running": Field(
        Word(get_args(IfRunning), meanings=meanings.IF_RUNNING),
        "What happens to a slot that is due while a job is queued or running.",
        reach="timing",
    ),
    "queue_limit": Field(
        Number(1),
        "The largest number of jobs that wait with if_running: queue.",
        reach="timing",
    ),
    "max_outstanding": Field(
        Number(0),
        "The largest number of queued and running jobs; 0 means no limit.",
        write=lambda one: one.guard and one.guard.limit,
        defaults={"plugin": 1},
        otherwise="no limit",
        reach="timing",
    ),
    "max_concurrent": Field(
        Number(0),
        "The largest number of running jobs; 0 means no limit.",
        write=lambda one: one.capacity and one.capacity.limit,
        defaults={"agent": 1},
        otherwise="no limit",
        sections=("schedules",),
        reach="timing",
    ),
    "total_repeats": Field(
        Number(0),
        "The schedule is done after this number of successful runs; 0 means never.",
        reach="timing",
    ),
    "max_retries": Field(
        Number(0),
        "How many times a failed slot is tried again.",
        defaults={"seconds": 3},
        otherwise="none",
        reach="timing",
    ),
    "retry_delay": Field(
        DURATION,
        "The pause before the first retry; later pauses are longer.",
        write=_duration_of("retry_delay"),
        answer=_duration_of("retry_base"),
        is_answered=True,
        defaults={"seconds": THE_INTERVAL, "spec": "60s"},
        otherwise="the interval, at most `60s`",
        reach="timing",
    ),
    "on_exhausted": Field(
        Word(get_args(OnExhausted), meanings=meanings.ON_EXHAUSTED),
        "Whether the schedule continues with its next slot or stops when all retries have failed.",
        defaults={"seconds": "stop"},
        reach="timing",
    ),
    "on_lost": Field(
        Word(get_args(OnLost), meanings=meanings.ON_LOST),
        "What happens to a job whose node died.",
        reach="timing",
    ),
    "timeout": Field(
        DURATION_OR_NONE,
        "How long a run may take; 0 means no limit.",
        attribute=None,
        write=_duration_of("timeout", 0),
        answer=_duration_of("timeout", "0"),
        is_answered=True,
        defaults={"agent": "1h", "seconds": "600s", "spec": "10m"},
        otherwise="`10m`; `1h` for `run: {command: …}`",
    ),
    "circuit_breaker": Field(
        BREAKER,
        "Stop firing after several failures in a row; false turns this off.",
        write=_breaker,
        answer_type=dict[str, Any],
        defaults={"plugin": {"threshold": 3, "reset_after": "30m"}},
        otherwise="off",
        reach="timing",
    ),
    "queue": Field(
        NAME_TEXT,
        "The queue whose workers run the jobs.",
        "default",
        write=lambda one: plain_queue(one.queue),
        reach="timing",
    ),
    "payload": Field(
        Object(MOST_PAYLOAD),
        "Data that is passed to the target.",
        read=payload_text,
        write=lambda one: json.loads(one.payload),
        answer=lambda one: masked(json.loads(one.payload)),
    ),
    "run": Field(
        Anything(),  # `config.target_fields` knows the kinds of targets, and those that are installed
        "The target: what the schedule runs.",
        write=lambda one: run_to_json(one.target),
        answer=lambda one: masked(run_to_json(one.target)),
        answer_type=dict[str, Any],
        is_answered=True,
        sections=("schedules",),
    ),
    "expect": Field(EXPECT, "Raise an alert when no run succeeds in time.", write=_expect),
    "ping": Field(
        PING,
        "A URL to call at the start and the end of each run, for a monitoring service.",
        attribute=None,
        write=_ping,
        answer=lambda one: masked(_ping(one)),
    ),
    "prompt": Field(Text(longest=1 << 20), "The task of the agent.", sections=_OF_AGENTS),
    "work_source": Field(WORK_SOURCE, "Where its work items come from.", sections=_OF_AGENTS),
    "secret": Field(
        Text(), "The secret that signs the requests of a webhook; write it as ${NAME}.", sections=_OF_AGENTS
    ),
    "signature": Field(
        Word(get_args(SignatureScheme), meanings=meanings.SIGNATURE),
        "How the requests of a webhook are signed.",
        "everwhen",
        sections=_OF_AGENTS,
    ),
}
FIELDS: dict[str, Field] = {name: _completed(name, row) for name, row in _ROWS.items()}
"""The rows, in the order of answers and documents."""

_COLUMN_OF: dict[Section, Column] = {"plugins": "plugin", "agents": "agent"}
TRIGGER_KEYS = ("every", "cron", "at", "after")
GENERAL = {name: row for name, row in FIELDS.items() if "schedules" in row.sections}
"""The keys of the general section, which REST and Python have as well."""

_WRITERS = tuple((name, row.writer) for name, row in GENERAL.items())


def fields_in(section: Section) -> dict[str, Field]:
    """Return the keys that a schedule of that section of a file may have, with the defaults that hold there."""
    column = _COLUMN_OF.get(section)
    return {
        name: replace(row, default=row.defaults[column]) if column and column in row.defaults else row
        for name, row in FIELDS.items()
        if section in row.sections
    }


def schedule_to_json(definition: Definition) -> dict[str, Any]:
    """Return every key of a schedule that is set, including defaults; the one function makes the same of them again.

    Values from other sections (a group's `config`, budgets) are left out: they are added when the keys are read.
    """
    fields = {**trigger_to_json(definition.trigger), **{name: write(definition) for name, write in _WRITERS}}
    if definition.secret is not None:
        fields |= {"secret": definition.secret, "signature": definition.signature}
    return {key: value for key, value in fields.items() if value not in (None, "")}


_UNREVIEWED = frozenset(name for name, row in FIELDS.items() if row.reach == "nothing")


def reviewed_fields(definition: Definition) -> dict[str, Any]:
    """Return the keys that a person approves: those that reach the run, or decide when and how it takes place."""
    fields = schedule_to_json(definition)
    return {name: value for name, value in fields.items() if name not in _UNREVIEWED}


def settled_fields(definition: Definition) -> dict[str, Any]:
    """Return the same with explicit values for what is turned off, so that no default replaces them when read again."""
    off: dict[str, Any] = {"max_outstanding": 0, "max_concurrent": 0, "circuit_breaker": False}
    return {**off, **schedule_to_json(definition)}


_ANSWERS = tuple((name, row.answer or row.writer) for name, row in GENERAL.items() if name != "enabled")


def answer_to_json(definition: Definition) -> dict[str, Any]:
    """Return every key of a schedule as it is answered, null where it is not set; `enabled` is a schedule's state."""
    return {name: answer(definition) for name, answer in _ANSWERS}
