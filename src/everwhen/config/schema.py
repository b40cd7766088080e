"""The shape of `everwhen.yaml`: every key, what it takes, and one sentence about it. Nothing else knows keys.

The check of a file and the JSON Schema for editors are both made from these tables.
"""

from __future__ import annotations

import re
from typing import Any, get_args

from everwhen.config.kinds import (
    Anything,
    Either,
    Flag,
    Key,
    ListOf,
    MapOf,
    Node,
    Number,
    Object,
    Only,
    Parsed,
    Record,
    Refused,
    Schema,
    Text,
    Word,
)
from everwhen.errors import ConfigError, shown
from everwhen.model.events import EventType
from everwhen.model.policy import CatchUp, IfRunning, IntervalFrom, OnLost, WhenClosed
from everwhen.timetable.civil_time import Fold, Gap, zone
from everwhen.timetable.cron import parse_cron
from everwhen.timetable.interval import parse_seconds
from everwhen.timetable.occurrences import FirstRun
from everwhen.timetable.trigger import parse_every, parse_instant
from everwhen.timetable.windows import parse_dates, parse_weekdays, parse_window

MOST_PAYLOAD = 64 << 10
_SIZE = re.compile(r"([0-9]{1,9}) ?(B|KiB|MiB|GiB)?")
_UNITS = {None: 0, "B": 0, "KiB": 10, "MiB": 20, "GiB": 30}
_UTC = zone("UTC")


def parse_size(value: Any) -> int:
    """A number of bytes: `64KiB`, `16MiB`, or a plain number.

    >>> parse_size("64KiB")
    65536
    """
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    found = _SIZE.fullmatch(value) if isinstance(value, str) else None
    if found is None or int(found[1]) == 0:
        raise ConfigError(f'"{shown(value)}" is no size; write it like 64KiB or 16MiB')
    return int(found[1]) << _UNITS[found[2]]


def _zone_name(value: Any) -> None:
    if value != "local":
        zone(value)


def _instant(value: Any) -> None:
    parse_instant(value, _UTC)


def _seconds(value: Any) -> None:
    """A duration in words, or a whole number of seconds."""
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        parse_seconds(value)


def _quiet_days(value: Any) -> None:
    parse_weekdays(value, "days")


def _date(value: Any) -> None:
    parse_dates([value])


_A_DURATION: Schema = {"type": "string", "examples": ["30s", "5m", "1h30m"]}
DURATION = Parsed(_seconds, {"anyOf": [_A_DURATION, {"type": "integer", "minimum": 1}]})
DURATION_OR_NONE = Parsed(_seconds, _A_DURATION, also=(0, "0", "0s"))
GRACE = Parsed(_seconds, _A_DURATION, also=("auto",))
ZONE = Parsed(_zone_name, {"type": "string", "examples": ["UTC", "Europe/Berlin", "local"]})
INSTANT = Parsed(_instant, {"type": "string", "examples": ["2026-12-24T18:00:00+01:00"]})
_A_WEEKDAY: Schema = {"type": ["string", "integer"], "examples": ["saturday", "sat", 6]}
WEEKDAYS = Parsed(parse_weekdays, {"anyOf": [{"type": "array", "items": _A_WEEKDAY}, _A_WEEKDAY]})
QUIET_DAYS = Parsed(_quiet_days, WEEKDAYS.shape)
WINDOW = Parsed(parse_window, {"type": "string", "examples": ["08:00-18:00"]})
SIZE = Parsed(parse_size, {"type": ["string", "integer"], "examples": ["64KiB"]})
URL = Text("https://host/path", r"(https?://[^\s/]+.*|.*\$\{.*)", "must be a URL")
PERCENT_OR_DURATION = Text("30s or 5%")
NAME_TEXT = Text(
    "nightly-backup", r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}", "must be a name of letters, digits, - and _"
)
SCALAR = Either(((str, Anything()), (bool, Flag()), ((int, float), Anything())), Text())
ARGV = ListOf(SCALAR, "must be a list: the program, then its arguments", 1)
ENVIRONMENT = MapOf(SCALAR, has_names=False, says="must be a mapping of variables")


BREAKER = Either(
    ((bool, Only(False)),),
    Record(
        {
            "threshold": Key(Number(1), "Failures in a row that open it.", 3),
            "reset_after": Key(DURATION, "How long it stays open before one run is tried.", "30m"),
        }
    ),
)
DST = Record(
    {
        "gap": Key(Word(get_args(Gap)), "What becomes of a time that the clock jumps over."),
        "fold": Key(Word(get_args(Fold)), "Which of two equal times counts."),
    }
)

HTTP = Record(
    {
        "url": Key(URL, "Where the request goes.", is_required=True),
        "method": Key(Word(("POST", "GET", "PUT", "PATCH", "DELETE", "HEAD")), "The HTTP method.", "POST"),
        "headers": Key(
            MapOf(SCALAR, has_names=False, says="must be a mapping of headers"), "Further headers."
        ),
        "body": Key(Anything(), "Sent instead of the run."),
        "redirects": Key(Flag(), "Follow redirects.", False),
        "connect_timeout": Key(DURATION, "How long connecting may take."),
    }
)
_MESSAGE_KEYS = {
    "text": Key(Text(), "What it says."),
    "structured": Key(Object(MOST_PAYLOAD), "The same for machines."),
    "thread_id": Key(Text(), "The conversation that it belongs to."),
    "actor": Key(Anything(), "Who speaks."),
}


def _one_target(node: Node) -> None:
    kinds = [kind for kind in TARGETS if node.value.get(kind) is not None]
    if len(kinds) != 1:
        found = f", not {' and '.join(kinds)}" if kinds else ""
        node.complain(f"must name exactly one of {', '.join(TARGETS)}{found}")
    for key, owner in _BESIDE.items():
        if kinds and kinds != [owner] and node.value.get(key) is not None:
            node.complain(f"goes with {owner} only", key)


TARGETS = ("command", "http", "python", "message", "plugin", "agent", "workflow")
_BESIDE = {"cwd": "command", "env": "command", "isolate": "python"}
RUN = Record(
    {
        "command": Key(ARGV, "A program and its arguments; never a shell."),
        "cwd": Key(Text(), "The directory that the command runs in."),
        "env": Key(ENVIRONMENT, "Variables of the command's environment."),
        "http": Key(HTTP, "An HTTP request."),
        "python": Key(
            Text("module:function", r"[\w.]+:[\w.]+", "must name a function"), "A function of this process."
        ),
        "isolate": Key(Flag(), "Run the function in a process of its own.", False),
        "message": Key(Record(_MESSAGE_KEYS), "A message to the subscribers."),
        "plugin": Key(
            Record(
                {
                    "name": Key(NAME_TEXT, "The plugin.", is_required=True),
                    "command": Key(Text("poll"), "The command.", "poll"),
                }
            ),
            "A command of a plugin.",
        ),
        "agent": Key(
            Record(
                {
                    "name": Key(NAME_TEXT, "The agent.", is_required=True),
                    "prompt": Key(Text(), "What it is asked to do."),
                }
            ),
            "A run of an agent.",
        ),
        "workflow": Key(
            Record(
                {
                    "id": Key(SCALAR, "The workflow.", is_required=True),
                    "trigger_node_id": Key(Text(), "The trigger of the workflow that is meant."),
                }
            ),
            "A run of a workflow.",
        ),
    },
    _one_target,
)

TRIGGER: dict[str, Key] = {
    "every": Key(
        Parsed(parse_every, _A_DURATION), "An interval: 5m, 1h30m, hourly, daily, weekly or monthly."
    ),
    "cron": Key(
        Parsed(parse_cron, {"type": "string", "examples": ["0 2 * * *"]}),
        "Five fields, or @daily and others.",
    ),
    "at": Key(INSTANT, "Once, at this time; without an offset it is read in the schedule's timezone."),
    "after": Key(Parsed(parse_seconds, _A_DURATION), "Once, this long after the schedule is created."),
}
POLICIES: dict[str, Key] = {
    "name": Key(Text(), "A name for people."),
    "description": Key(Text(), "What it is for."),
    "owner": Key(Text(), "Whose it is."),
    "enabled": Key(Flag(), "false pauses it and keeps its state.", True),
    "timezone": Key(ZONE, "An IANA name, or local."),
    "dst": Key(DST, "What happens when clocks change."),
    "start_at": Key(INSTANT, "No slot before it."),
    "end_at": Key(INSTANT, "No slot from here on."),
    "first_run": Key(Word(get_args(FirstRun)), "When an interval begins.", "immediately"),
    "interval_from": Key(
        Word(get_args(IntervalFrom)), "Count from the slot, or from the end of the last run."
    ),
    "jitter": Key(PERCENT_OR_DURATION, "Spread the starts over this time: 30s, or 5% of an interval."),
    "only_between": Key(WINDOW, "Fire in these hours only."),
    "not_on": Key(WEEKDAYS, "Weekdays on which it does not fire."),
    "outside_window": Key(Word(get_args(WhenClosed)), "Skip a slot in a closed time, or defer it.", "skip"),
    "quiet_hours": Key(Text("nights"), "The id of a quiet-hours policy."),
    "misfire_grace": Key(GRACE, "How late a slot may still fire.", "auto"),
    "catch_up": Key(Word((*get_args(CatchUp), "run_all_capped")), "What becomes of missed slots."),
    "catch_up_limit": Key(Number(1, 100_000), "At most so many catch-up jobs.", 100),
    "if_running": Key(Word(get_args(IfRunning)), "What a slot does while a job is outstanding.", "skip"),
    "queue_limit": Key(Number(1), "At most so many jobs waiting with if_running: queue.", 1_000),
    "max_outstanding": Key(Number(0), "At most so many outstanding jobs; 0 means no limit."),
    "total_repeats": Key(Number(0), "Done after so many successful runs; 0 means never.", 0),
    "max_retries": Key(Number(0), "More failures in a row than this end it."),
    "retry_delay": Key(DURATION, "The first pause before a retry."),
    "on_lost": Key(Word(get_args(OnLost)), "What becomes of a job whose node died.", "rerun"),
    "timeout": Key(DURATION_OR_NONE, "How long a run may take; 0 means for ever."),
    "circuit_breaker": Key(BREAKER, "Stop firing after failures in a row; false turns it off."),
    "queue": Key(NAME_TEXT, "Which workers may take its jobs.", "default"),
    "payload": Key(Object(MOST_PAYLOAD), "Handed to the target."),
    "expect": Key(
        Record(
            {
                "within": Key(DURATION, "A success is expected this often.", is_required=True),
                "grace": Key(DURATION, "And may be this late."),
            }
        ),
        "Raise an alert when it falls silent.",
    ),
    "ping": Key(
        Record({"url": Key(URL, "The URL to call.", is_required=True)}), "Tell a watcher of each run."
    ),
}
SCHEDULE = Record(
    {
        "id": Key(NAME_TEXT, "Its name in this file.", is_required=True),
        **TRIGGER,
        **POLICIES,
        "max_concurrent": Key(Number(0), "At most so many running jobs; 0 means no limit."),
        "run": Key(RUN, "What it runs.", is_required=True),
    }
)
GROUP: dict[str, Key] = {
    "enabled": Key(Flag(), "false pauses all its schedules and keeps their state.", True),
    "owner": Key(Text(), "Whose it is."),
    "queue": Key(NAME_TEXT, "Which workers may take its jobs.", "default"),
    "timezone": Key(ZONE, "An IANA name, or local."),
    "max_concurrent": Key(Number(0), "At most so many running jobs; 0 means no limit."),
    "max_outstanding": Key(Number(0), "At most so many outstanding jobs; 0 means no limit."),
    "circuit_breaker": Key(BREAKER, "Stop firing after failures in a row; false turns it off."),
    "timeout": Key(DURATION_OR_NONE, "How long a run may take; 0 means for ever."),
}
PLUGIN_SCHEDULE = Record(
    {
        "id": Key(NAME_TEXT, "Its name within the plugin."),
        "command": Key(Text("poll"), "The plugin's command.", "poll"),
        **TRIGGER,
        **POLICIES,
    }
)
PLUGIN = Record(
    {
        **GROUP,
        "config": Key(Object(1 << 20), "Handed to the plugin."),
        "max_outstanding_polls": Key(Number(0), "At most so many outstanding jobs of a command.", 1),
        "timeouts": Key(MapOf(DURATION_OR_NONE, has_names=False), "How long each command may take."),
        "schedule": Key(PLUGIN_SCHEDULE, "The plugin's one schedule."),
        "schedules": Key(ListOf(PLUGIN_SCHEDULE), "The plugin's schedules."),
    }
)
WORK_SOURCE = Record(
    {
        "type": Key(Text("directory"), "directory, command, or one that is installed.", is_required=True),
        "path": Key(Text("inbox"), "The directory with one file per item."),
        "command": Key(ARGV, "The program that hands out work."),
        "env": Key(ENVIRONMENT, "Variables of its environment."),
        "when_empty": Key(Word(("run", "skip")), "What to do without an item.", "run"),
        "options": Key(Object(MOST_PAYLOAD), "Words of an installed source."),
    }
)
AGENT_SCHEDULE = Record(
    {
        "type": Key(Word(("interval", "cron", "webhook", "chat")), "What fires it."),
        "interval": Key(Parsed(parse_every, _A_DURATION), "The pause between two runs."),
        "expression": Key(Parsed(parse_cron), "The same as cron."),
        **TRIGGER,
        **POLICIES,
        "prompt": Key(Text(longest=1 << 20), "What the agent is asked to do."),
        "work_source": Key(WORK_SOURCE, "Where its work items come from."),
        "secret": Key(Text(), "Signs the requests of a webhook; write it as ${NAME}."),
    }
)
AGENT = Record(
    {
        **GROUP,
        "command": Key(ARGV, "The agent's program; the prompt on standard input, or where {prompt} stands."),
        "default_prompt": Key(Text(longest=1 << 20), "The prompt of schedules without one."),
        "cwd": Key(Text(), "The directory that it runs in."),
        "env": Key(ENVIRONMENT, "Variables of its environment."),
        "instances": Key(
            Record({"max_concurrent": Key(Number(0), "At most so many running jobs.")}), "herdctl's spelling."
        ),
        "schedules": Key(MapOf(AGENT_SCHEDULE), "Its schedules by name."),
    }
)
WORKFLOW = Record(
    {
        **GROUP,
        "name": Key(Text(), "A name for people."),
        "run": Key(RUN, "What starts it.", is_required=True),
        "triggers": Key(ListOf(Text()), "The trigger nodes that it has."),
    }
)
SUBSCRIBER = Record(
    {
        "id": Key(NAME_TEXT, "Its name.", is_required=True),
        "http": Key(HTTP, "Where messages are posted.", is_required=True),
    }
)
QUIET_HOURS = Record(
    {
        "name": Key(Text(), "A name for people."),
        "timezone": Key(ZONE, "Its own zone; the service's when none is given."),
        "windows": Key(
            ListOf(
                Record(
                    {
                        "days": Key(QUIET_DAYS, "The days on which it begins; all when none are given."),
                        "between": Key(WINDOW, "From when to when.", is_required=True),
                    }
                )
            ),
            "Hours of the day.",
        ),
        "dates": Key(
            ListOf(
                Either(
                    (
                        (
                            dict,
                            Record(
                                {
                                    "from": Key(Parsed(_date), "The first day.", is_required=True),
                                    "to": Key(Parsed(_date), "The last day.", is_required=True),
                                }
                            ),
                        ),
                    ),
                    Parsed(_date),
                )
            ),
            "Whole days.",
        ),
        "action": Key(Word(get_args(WhenClosed)), "Skip a slot, or defer it.", "skip"),
    }
)
BUDGET = Record(
    {
        "fires_per_hour": Key(Number(1), "At most so many firings in an hour."),
        "fires_per_day": Key(Number(1), "At most so many firings in a day."),
    }
)


def _one_channel(node: Node) -> None:
    channels = [name for name in ("http", "email", "command") if node.value.get(name) is not None]
    if len(channels) != 1:
        found = f", not {' and '.join(channels)}" if channels else ""
        node.complain(f"must name exactly one of http, email, command{found}")


NOTIFY = Record(
    {
        "on": Key(
            ListOf(Word(get_args(EventType), "event"), least=1),
            "The events that it tells of.",
            is_required=True,
        ),
        "http": Key(
            Record(
                {
                    "url": Key(URL, "Where it is posted.", is_required=True),
                    "format": Key(Word(("generic", "slack", "discord")), "The shape of the body.", "generic"),
                    "headers": Key(MapOf(SCALAR, has_names=False), "Further headers."),
                }
            ),
            "A webhook.",
        ),
        "email": Key(
            Record(
                {
                    "to": Key(
                        Either(((str, Text()),), ListOf(Text(), least=1)), "Who gets it.", is_required=True
                    ),
                    "from": Key(Text(), "Who it is from."),
                    "smtp": Key(Text("smtp://host:587"), "The mail server.", is_required=True),
                }
            ),
            "A mail.",
        ),
        "command": Key(ARGV, "A program."),
        "cooldown": Key(DURATION_OR_NONE, "Tell of the same thing again only after this.", "10m"),
    },
    _one_channel,
)
RETENTION = Record(
    {
        "jobs": Key(DURATION, "Jobs that have ended.", "30d"),
        "audit": Key(DURATION, "Audit events.", "90d"),
        "breaker_transitions": Key(DURATION, "Changes of breakers.", "90d"),
        "messages": Key(DURATION, "Messages.", "30d"),
        "output": Key(DURATION, "What jobs printed.", "7d"),
    }
)
SERVICE = Record(
    {
        "name": Key(NAME_TEXT, "The name of this service.", "everwhen"),
        "database": Key(
            Text(
                "sqlite:///everwhen.db",
                r"(sqlite|postgresql|postgres)://.*|.*\$\{.*",
                "must be a database URL",
            ),
            "sqlite:///FILE or postgresql://user:password@host/db.",
            "sqlite:///everwhen.db",
        ),
        "timezone": Key(ZONE, "The zone of schedules that name none.", "UTC"),
        "check_interval": Key(DURATION, "How often the loop looks without being woken.", "1s"),
        "misfire_grace": Key(GRACE, "How late a slot may still fire.", "auto"),
        "catch_up_stagger": Key(DURATION_OR_NONE, "The pause between catch-up jobs.", "0s"),
        "max_workers": Key(Number(1, 1_000), "How many jobs this node runs at once.", 8),
        "shutdown_timeout": Key(DURATION_OR_NONE, "How long a stop waits for jobs.", "30s"),
        "lease": Key(DURATION, "How long a silent node keeps its jobs.", "30s"),
        "dispatch": Key(Word(("local", "rq", "rq-chain", "celery")), "Who runs jobs.", "local"),
        "redis": Key(Text("redis://127.0.0.1:6379/0"), "For rq and rq-chain."),
        "celery_broker": Key(Text("redis://127.0.0.1:6379/1"), "For celery."),
        "retention": Key(RETENTION, "How long the record is kept."),
    }
)
API = Record(
    {
        "host": Key(Text("127.0.0.1"), "The address that it listens on.", "127.0.0.1"),
        "port": Key(Number(0, 65_535), "The port that it listens on.", 8750),
        "allow_code_targets": Key(Flag(), "May REST and MCP create command and python targets?", False),
        "allow_private_urls": Key(Flag(), "May URLs of REST and MCP reach private networks?", False),
        "max_payload": Key(SIZE, "Of one schedule.", "64KiB"),
        "max_body": Key(SIZE, "Of a whole request.", "16MiB"),
        "tls": Key(
            Record(
                {
                    "cert": Key(Text("cert.pem"), "The certificate's file.", is_required=True),
                    "key": Key(Text("key.pem"), "The key's file.", is_required=True),
                }
            ),
            "Serve HTTPS.",
        ),
        "behind_proxy": Key(Flag(), "A proxy in front of it speaks TLS.", False),
        "insecure": Key(Flag(), "Serve other machines without TLS.", False),
        "allowed_hosts": Key(ListOf(Text()), "Host names that it answers to."),
    }
)
SECTIONS: dict[str, Key] = {
    "service": Key(SERVICE, "The service itself; each key has a variable such as EVERWHEN_DATABASE."),
    "api": Key(API, "REST, dashboard and MCP."),
    "include": Key(ListOf(Text("schedules.d/*.yaml")), "Further files, relative to this one."),
    "plugin_dirs": Key(ListOf(Text("plugins")), "Where plugins are, relative to this file."),
    "quiet_hours": Key(MapOf(QUIET_HOURS), "Times in which schedules that name them do not fire."),
    "plugins": Key(MapOf(PLUGIN), "Plugins and their schedules."),
    "agents": Key(MapOf(AGENT), "Agents and their schedules."),
    "workflows": Key(MapOf(WORKFLOW), "What a workflow_id starts."),
    "messages": Key(Record({"subscribers": Key(ListOf(SUBSCRIBER), "Who gets messages.")}), "Messages."),
    "schedules": Key(ListOf(SCHEDULE, may_be_trusted=True), "General schedules."),
    "budgets": Key(MapOf(BUDGET, has_names=False), "Firings by the clock, per group or owner."),
    "notify": Key(ListOf(NOTIFY), "Who is told when something happens."),
}
MAIN_ONLY = ("service", "api", "include")
FILE = Record(SECTIONS)
_ELSEWHERE = Key(Refused("stands in the main file only"), "")
INCLUDED = Record({name: _ELSEWHERE if name in MAIN_ONLY else key for name, key in SECTIONS.items()})


def json_schema() -> Schema:
    """A JSON Schema of the file, for editors."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "everwhen.yaml",
        **FILE.schema(),
    }
