"""The schema of `everwhen.yaml`: every key, its values, and one sentence about it.

The check of a file and the JSON Schema for editors are both made from these tables. The keys of schedules are
those of `model.fields`.
"""

from __future__ import annotations

from typing import get_args

from everwhen.config.target_fields import RUN, TARGET_KEYS
from everwhen.model import meanings
from everwhen.model.alerts import ALL, CHANNELS, CLASSES, PROBLEMS, SEVERITIES
from everwhen.model.budget_terms import share_of
from everwhen.model.cost import parse_cost
from everwhen.model.events import EventType
from everwhen.model.fields import FIELDS, fields_in
from everwhen.model.kinds import Either, Key, ListOf, MapOf, Object, Record, Refused
from everwhen.model.policy import OnReached, WhenClosed
from everwhen.model.scalars import CheckedValue, Flag, Number, Parsed, Schema, Text, Word
from everwhen.model.values import (
    ARGV,
    DATE,
    DURATION,
    DURATION_OR_NONE,
    ENVIRONMENT,
    GRACE,
    HEADERS,
    MAIL_ADDRESS,
    MAIL_SERVER,
    NAME_TEXT,
    NETWORK,
    PUBLIC_URL,
    QUIET_DAYS,
    SIZE,
    URL,
    WINDOW,
    ZONE,
)

SCHEDULE = Record(
    {
        "id": Key(NAME_TEXT, "Its name in this file.", is_required=True),
        **fields_in("schedules"),
        "run": Key(RUN, FIELDS["run"].about, is_required=True),
    }
)
PLUGIN_SCHEDULE = Record({"id": Key(NAME_TEXT, "Its name within the plugin."), **fields_in("plugins")})
AGENT_SCHEDULE = Record(fields_in("agents"))
GROUP: dict[str, Key] = {
    "enabled": Key(Flag(), "Set it to false to pause all its schedules; their state is kept.", True),
    "owner": Key(Text(), "The owner; schedules that run it belong to the same owner."),
    "shared": Key(
        Flag(), "Set it to true to let every owner run it, each with a separate circuit breaker.", False
    ),
    **{
        name: FIELDS[name]
        for name in ("queue", "timezone", "max_concurrent", "max_outstanding", "circuit_breaker", "timeout")
    },
}
PLUGIN = Record(
    {
        **GROUP,
        "config": Key(Object(1 << 20), "Settings that are passed to the plugin."),
        "max_outstanding_polls": Key(
            Number(0), "The largest number of queued and running jobs of one command.", 1
        ),
        "timeouts": Key(MapOf(DURATION_OR_NONE, has_names=False), "How long each command may take."),
        "schedule": Key(PLUGIN_SCHEDULE, "The plugin's one schedule."),
        "schedules": Key(ListOf(PLUGIN_SCHEDULE), "The plugin's schedules."),
    }
)
SELF_SCHEDULE = Record(
    {
        "max_schedules": Key(Number(1), "So many schedules of its runs at a time.", 5),
        "min_interval": Key(
            DURATION, "So long between two firings of a schedule, and of what replaces it.", "10m"
        ),
        "ttl": Key(DURATION, "What a run makes ends this long after its creation.", "7d"),
        "approval": Key(
            Word(("none", "recurring", "required"), meanings=meanings.APPROVAL),
            "What waits for the approval of a person.",
            "recurring",
        ),
        "max_depth": Key(Number(1, 100), "1: runs of what a run made make nothing themselves.", 1),
        "fires_per_hour": Key(Number(1), "All that runs cause together, in an hour.", 10),
        "fires_per_day": Key(Number(1), "All that runs cause together, in a day.", 50),
    }
)
AGENT = Record(
    {
        **GROUP,
        "command": Key(ARGV, "The agent's program. The prompt replaces {prompt}, or is on standard input."),
        "default_prompt": Key(Text(longest=1 << 20), "The prompt of schedules without one."),
        "cwd": Key(Text(), "The directory that it runs in."),
        "env": Key(ENVIRONMENT, "Variables of its environment."),
        "report": Key(
            Word(("claude",)), "How it reports its cost: as claude --output-format json prints it."
        ),
        "instances": Key(Record({"max_concurrent": FIELDS["max_concurrent"]}), "Holds max_concurrent, too."),
        "self_schedule": Key(SELF_SCHEDULE, "Lets its runs schedule it; not given: they cannot."),
        "schedules": Key(MapOf(AGENT_SCHEDULE), "Its schedules by name."),
    }
)
AGENTS = MapOf(AGENT)
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
        "http": Key(TARGET_KEYS["http"], "Where messages are posted.", is_required=True),
    }
)
MOST_CLOSED = 1_000  # windows, and dates, of one policy: every slot is compared with all of them
_QUIET_WINDOW = Record(
    {
        "days": Key(QUIET_DAYS, "The days on which the window begins; by default every day."),
        "between": Key(WINDOW, "The hours, such as 22:00-07:00.", is_required=True),
    }
)
_DATES = Record(
    {
        "from": Key(DATE, "The first day.", is_required=True),
        "to": Key(DATE, "The last day.", is_required=True),
    }
)
QUIET_HOURS = Record(
    {
        "name": Key(Text(), "A name for people."),
        "timezone": Key(ZONE, "The time zone of the hours; by default that of the service."),
        "windows": Key(ListOf(_QUIET_WINDOW, most=MOST_CLOSED), "Hours of the day."),
        "dates": Key(ListOf(Either(((dict, _DATES),), DATE), most=MOST_CLOSED), "Whole days."),
        "action": Key(
            Word(get_args(WhenClosed), meanings=meanings.WHEN_CLOSED),
            "Whether a slot is skipped or deferred.",
            "skip",
        ),
    }
)
COST = Parsed(
    parse_cost, {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)? +[A-Z]{3,12}$", "examples": ["5 USD"]}
)
SHARE = Parsed(
    share_of,
    {
        "anyOf": [
            {"type": "string", "pattern": "^[0-9]{1,3}%?$"},
            {"type": "integer", "minimum": 0, "maximum": 100},
        ]
    },
)
BUDGET = Record(
    {
        "fires_per_hour": Key(Number(1), "The largest number of firings in an hour."),
        "fires_per_day": Key(Number(1), "The largest number of firings in a day."),
        "cost_per_day": Key(COST, "The largest cost in a day of UTC, such as 5 USD."),
        "cost_per_month": Key(COST, "The largest cost in a month of UTC."),
        "cost_per_run": Key(COST, "What one run may cost; it is handed over to the run."),
        "on_reached": Key(
            Word(get_args(OnReached), meanings=meanings.ON_REACHED),
            "What happens when it is spent: slots are skipped, schedules paused, or an alert is sent.",
            "skip",
        ),
        "catch_up_share": Key(SHARE, "The share of a window that catch-up may take.", "50%"),
    }
)


def _one_channel(node: CheckedValue) -> None:
    channels = [name for name in CHANNELS if node.value.get(name) is not None]
    if len(channels) != 1:
        found = f", not {' and '.join(channels)}" if channels else ""
        node.complain(f"must name exactly one of {', '.join(CHANNELS)}{found}")
    elif node.value.get("env") is not None and channels != ["command"]:
        node.complain("env is the environment of a command; leave it out")


_WEBHOOK = Record(
    {
        "url": Key(URL, "Where it is posted.", is_required=True),
        "format": Key(
            Word(("auto", "generic", "slack", "discord"), meanings=meanings.BODY_FORMAT),
            "The shape of the body; auto: by the host.",
            "auto",
        ),
        "headers": Key(HEADERS, "Further headers."),
    }
)
_MAIL = Record(
    {
        "to": Key(
            Either(((str, MAIL_ADDRESS),), ListOf(MAIL_ADDRESS, least=1)), "The recipients.", is_required=True
        ),
        "from": Key(MAIL_ADDRESS, "The sender."),
        "smtp": Key(MAIL_SERVER, "The mail server.", is_required=True),
        "starttls": Key(
            Flag(),
            "With `smtp://`: true sends nothing before STARTTLS has encrypted the connection, which is the default "
            "where the URL has a password; false sends in plain text; else STARTTLS is used where it is offered.",
        ),
    }
)
_EVENT_TYPES = tuple(dict.fromkeys((*CLASSES, *get_args(EventType))))
_PREFIXES = tuple(dict.fromkeys(f"{name.partition('.')[0]}.*" for name in _EVENT_TYPES))
_EVENT = Word((PROBLEMS, ALL, *_EVENT_TYPES, *_PREFIXES), "event")
_NAMES = Either(((str, Text()),), ListOf(Text(), least=1))
_CONCERN = Record(
    {
        "group": Key(_NAMES, "Of these groups."),
        "owner": Key(_NAMES, "Of these owners."),
        "schedule": Key(_NAMES, "Of these schedules, by their ids or keys."),
        "severity": Key(Word(SEVERITIES), "From this severity on."),
    }
)
NOTIFY = Record(
    {
        "name": Key(NAME_TEXT, "Its name in lists; by default its channel and a number."),
        "on": Key(Either(((str, _EVENT),), ListOf(_EVENT, least=1)), "The events to report.", PROBLEMS),
        "for": Key(_CONCERN, "Report only what concerns these."),
        "http": Key(_WEBHOOK, "A webhook."),
        "email": Key(_MAIL, "A mail."),
        "command": Key(ARGV, "A program; it gets the alert as JSON on standard input."),
        "env": Key(
            ENVIRONMENT,
            "Variables of its environment, which has none of the service's but `PATH` and its like.",
        ),
        "apprise": Key(Text("tgram://token/chat"), "A service of Apprise (an extra)."),
        "group_wait": Key(DURATION_OR_NONE, "Alerts of one class within this time are one message.", "30s"),
        "cooldown": Key(DURATION_OR_NONE, "How long to wait before the same thing is reported again.", "10m"),
        "repeat": Key(
            DURATION_OR_NONE, "How long to wait before an open alert is repeated; 0 means never.", "24h"
        ),
        "resolved": Key(Flag(), "Whether the end of an alert is reported, too.", True),
        "quiet_hours": Key(Text("nights"), "Hold all alerts but critical ones in these quiet hours."),
        "max_per_hour": Key(Number(1), "Above this number of messages, one digest an hour is sent.", 20),
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
        "alerts": Key(DURATION, "Alerts that are over.", "90d"),
        "deliveries": Key(DURATION, "Messages of alerts.", "30d"),
    }
)
HEARTBEAT = Record(
    {
        "url": Key(URL, "The URL to call.", is_required=True),
        "every": Key(DURATION, "How often; the default is every minute."),
    }
)
LOG = Record(
    {
        "format": Key(
            Word(("text", "json"), meanings=meanings.LOG_FORMAT),
            "How lines are written.",
            "text",
        ),
        "level": Key(Word(("debug", "info", "warning", "error")), "The least that is logged.", "info"),
    }
)
SERVICE = Record(
    {
        "name": Key(NAME_TEXT, "The name of this service, in its nodes and metrics.", "everwhen"),
        "database": Key(
            Text(
                "sqlite:///everwhen.db",
                r"(sqlite|postgresql|postgres)://.*|.*\$\{.*",
                "must be a database URL",
            ),
            "sqlite:///FILE or postgresql://user:password@host/db.",
            "sqlite:///everwhen.db",
        ),
        "timezone": Key(ZONE, "The time zone of schedules that set none.", "UTC"),
        "check_interval": Key(
            DURATION, "How often the scheduler looks for due slots when nothing wakes it.", "1s"
        ),
        "misfire_grace": Key(GRACE, "How late a slot may fire before it counts as missed.", "auto"),
        "catch_up_stagger": Key(DURATION_OR_NONE, "The pause between catch-up jobs.", "0s"),
        "max_workers": Key(Number(1, 1_000), "How many jobs this node runs at once.", 8),
        "max_workers_per_owner": Key(
            Number(1, 1_000),
            "How many of them the jobs of one owner may have; one less than max_workers where it is not set.",
        ),
        "shutdown_timeout": Key(DURATION_OR_NONE, "How long a stop waits for jobs.", "30s"),
        "lease": Key(DURATION, "How long a silent node keeps its jobs.", "30s"),
        "when_cut_off": Key(
            Word(("continue", "stop"), meanings=meanings.WHEN_CUT_OFF),
            "What a node does with its jobs when it cannot renew its lease.",
            "continue",
        ),
        "dispatch": Key(
            Word(("local", "rq", "rq-chain", "celery"), meanings=meanings.DISPATCH),
            "What runs jobs: the workers of this service, RQ or Celery.",
            "local",
        ),
        "redis": Key(Text("redis://127.0.0.1:6379/0"), "For rq and rq-chain."),
        "celery_broker": Key(Text("redis://127.0.0.1:6379/1"), "For celery."),
        "approval_ttl": Key(DURATION, "A schedule that waits this long for approval is deleted.", "7d"),
        "retention": Key(RETENTION, "How long the record is kept."),
        "log": Key(LOG, "What a node writes to standard error."),
        "heartbeat": Key(
            HEARTBEAT, "A URL to call while this node is ready, so that its end is noticed from outside."
        ),
    }
)
API = Record(
    {
        "host": Key(Text("127.0.0.1"), "The address that it listens on.", "127.0.0.1"),
        "port": Key(Number(0, 65_535), "The port that it listens on.", 8750),
        "url": Key(
            PUBLIC_URL,
            "The address at which people and other machines reach it, for the links in alerts and for agents.",
        ),
        "allow_code_targets": Key(
            Flag(), "Whether REST and MCP may create command and python targets.", False
        ),
        "allow_private_urls": Key(
            Flag(), "Whether URLs that come over REST and MCP may reach private networks.", False
        ),
        "mcp": Key(Flag(), "Whether MCP is served at /api/v1/mcp/; it needs the extra mcp.", False),
        "max_payload": Key(
            SIZE, "The largest payload of a schedule, and the largest body of a webhook.", "64KiB"
        ),
        "max_body": Key(SIZE, "The largest body of any request; a batch as NDJSON may have 16MiB.", "1MiB"),
        "max_timeout": Key(
            DURATION, "The longest timeout that a caller whose token has an owner may set.", "1h"
        ),
        "tls": Key(
            Record(
                {
                    "cert": Key(Text("cert.pem"), "The certificate's file.", is_required=True),
                    "key": Key(Text("key.pem"), "The key's file.", is_required=True),
                }
            ),
            "Serve HTTPS.",
        ),
        "trusted_proxies": Key(
            Either(((str, NETWORK),), ListOf(NETWORK)),
            "Networks of proxies whose X-Forwarded-For and X-Forwarded-Proto count.",
        ),
        "behind_proxy": Key(
            Refused("was replaced: write trusted_proxies: [127.0.0.1] with the networks of your proxies"),
            "Replaced by trusted_proxies.",
        ),
        "insecure": Key(Flag(), "Serve other machines without TLS.", False),
        "allowed_hosts": Key(ListOf(Text()), "The host names in requests that are accepted."),
    }
)
SECTIONS: dict[str, Key] = {
    "service": Key(SERVICE, "The service itself; each key has a variable such as EVERWHEN_DATABASE."),
    "api": Key(API, "REST, dashboard and MCP."),
    "include": Key(ListOf(Text("schedules.d/*.yaml")), "Further files, relative to this one."),
    "plugin_dirs": Key(ListOf(Text("plugins")), "Where plugins are, relative to this file."),
    "quiet_hours": Key(MapOf(QUIET_HOURS), "Times in which schedules that name them do not fire."),
    "plugins": Key(MapOf(PLUGIN), "Plugins and their schedules."),
    "agents": Key(AGENTS, "Agents and their schedules."),
    "workflows": Key(MapOf(WORKFLOW), "What a workflow_id starts."),
    "messages": Key(
        Record({"subscribers": Key(ListOf(SUBSCRIBER), "Where messages are delivered.")}), "Messages."
    ),
    "schedules": Key(ListOf(SCHEDULE, may_be_trusted=True), "General schedules."),
    "budgets": Key(MapOf(BUDGET, has_names=False), "Firings and cost, per group or owner (owner:NAME)."),
    "notify": Key(ListOf(NOTIFY), "Where events are reported."),
}
MAIN_ONLY = ("service", "api", "include")
FILE = Record(SECTIONS)
_EXTERNAL = Key(Refused("is allowed only in the main file"), "")
INCLUDED = Record({name: _EXTERNAL if name in MAIN_ONLY else key for name, key in SECTIONS.items()})


def json_schema() -> Schema:
    """Return a JSON Schema of the file, for editors."""
    draft = "https://json-schema.org/draft/2020-12/schema"
    return {"$schema": draft, "title": "everwhen.yaml", **FILE.schema()}
