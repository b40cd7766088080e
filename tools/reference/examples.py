"""Examples: one value for every key, made from its kind, and one file for every section.

`tests/docs/test_reference.py` checks every value by its kind, and `config check` reads every file.
"""

from __future__ import annotations

import re
from typing import Any

from everwhen.model.kinds import Anything, Either, Headers, Key, Kind, ListOf, MapOf, Object, Record
from everwhen.model.scalars import AnyText, Flag, Number, Only, Parsed, Text, Word
from everwhen.model.values import DATE

# Where a kind does not know a telling value.
VALUES: dict[str, Any] = {
    "catch_up": "run_once",
    "timezone": "Europe/Berlin",
    "queue": "heavy",
    "every": "5m",
    "interval": "1h",
    "timeout": "30m",
    "misfire_grace": "1m",
    "dst": {"gap": "skip", "fold": "both"},
    "end_at": "2027-12-24T18:00:00+01:00",
    "work_source": {"type": "directory", "path": "inbox"},
    "cron": "0 2 * * *",
    "ping": {"url": "https://hc-ping.com/your-uuid"},
    "host": "0.0.0.0",
    "port": 8080,
    "database": "postgresql://everwhen:secret@db.example.com/everwhen",
    "name": "Nightly backup",
    "description": "Copies the database to the other site.",
    "owner": "ada",
    "command": ["backup", "--all"],
    "prompt": "Review what was pushed since yesterday.",
    "default_prompt": "Look for work.",
    "secret": "${PUSH_SECRET}",
    "cwd": "/srv/shop",
    "env": {"LANG": "C.UTF-8"},
    "redis": "redis://127.0.0.1:6379/0",
    "to": "ops@example.com",
    "from": "everwhen@example.com",
    "smtp": "smtp://mail.example.com:587",
    "headers": {"X-Team": "ops"},
    "url": "https://example.com/hook",
    "payload": {"city": "Berlin"},
    "config": {"account": "main"},
    "options": {"project": 7},
    "body": {"text": "hello"},
    "structured": {"level": "info"},
    "actor": "scheduler",
    "text": "Good morning.",
    "thread_id": "daily",
    "trigger_node_id": "start",
    "args": [1, 2],
    "kwargs": {"city": "Berlin"},
    "python": "shop.tasks:report",
    "id": "nightly-backup",
    "triggers": ["start"],
    "timeouts": {"poll": "2m"},
    "allowed_hosts": ["scheduler.example.com"],
    "include": ["schedules.d/*.yaml"],
    "plugin_dirs": ["plugins"],
    "dates": ["2026-12-25", {"from": "2026-12-30", "to": "2027-01-01"}],
    "days": ["saturday", "sunday"],
    "not_on": ["saturday", "sunday"],
    "jitter": "30s",
    "after": "30m",
    "at": "2026-12-24T18:00:00+01:00",
    "quiet_hours": "nights",
    "on": ["schedule.failing", "breaker.*"],
    "groups": ["reviewer"],
    "owners": ["ada"],
    "schedules": ["nightly-backup"],
    "expect": {"within": "26h"},
    "run": {"command": ["backup", "--all"]},
    "spec": {"every": "5m"},
    "catch_up_share": "25%",
    "cost_per_month": "100 USD",
    "cost_per_run": "0.50 USD",
    "group": "reviewer",
    "schedule": "nightly-backup",
    "workflow_id": 7,
    "interval_seconds": 300,
}


def example_of(name: str, key: Key) -> Any:
    """Return a value that the key may have, different from its default where it can be; None for none."""
    if name in VALUES and accepts(key.kind, VALUES[name]):
        return VALUES[name]
    return _made(key.kind, key.default)


def accepts(kind: Kind, value: Any) -> bool:
    """Return whether a kind takes a value."""
    return not faults(kind, value)


def faults(kind: Kind, value: Any) -> list[str]:
    """Return what a kind says against a value."""
    from everwhen.config.document import Block, Document, DocumentNode
    from everwhen.config.problems import Report

    report = Report()
    kind.check(DocumentNode(Document("example", Block(), is_file=False), (), value, report))
    return [problem.message for problem in report.errors]


def _made(kind: Kind, default: Any) -> Any:
    match kind:
        case Word():
            return next((word for word in kind.fields if word != default), default)
        case Flag():
            return not default
        case Number():
            wanted = default * 2 if isinstance(default, int) and default else max(kind.least, 5)
            return min(wanted, kind.most)
        case Only():
            return kind.value
        case Parsed():
            found = ["2026-12-25"] if kind == DATE else examples_in(kind.schema())
            if isinstance(default, str) and (figure := re.fullmatch(r"([1-9][0-9]*)([a-zA-Z]+)", default)):
                return f"{int(figure[1]) * 2}{figure[2]}"  # of the same order as the default
            return next((value for value in found if value != default), found[0] if found else None)
        case Text():
            return kind.example or "some text"
        case AnyText():
            return "some text"
        case Either():
            return _made(kind.last, default)
        case Record():
            return _record(kind)
        case ListOf():
            return [_made(kind.kind, None)]
        case MapOf() | Headers():
            return {"NAME": _made(kind.kind, None)}
        case Object():
            return {"city": "Berlin"}
        case Anything():
            return "some text"
    return None


def _record(record: Record) -> dict[str, Any] | None:
    """Return a mapping with the keys that are required, else with the first two, if it is valid."""
    names = record.required or tuple(record.keys)[:2]
    for chosen in (names, names[:1], names[1:]):
        made = {name: example_of(name, record.keys[name]) for name in chosen}
        if made and accepts(record, made):
            return made
    return None


def examples_in(schema: dict[str, Any]) -> list[Any]:
    """Return the examples of a JSON Schema, also those of its alternatives."""
    if "examples" in schema:
        return list(schema["examples"])
    found = [one for inner in schema.get("anyOf", ()) for one in examples_in(inner)]
    if not found and "items" in schema:
        found = [[one] for one in examples_in(schema["items"])]
    return found[:3]


SCHEDULE = """
schedules:
  - id: nightly-backup
    cron: "0 2 * * *"
    timezone: Europe/Berlin
    catch_up: run_once
    max_retries: 3
    run: {command: [backup, --all]}
"""

FILES: dict[str, str] = {
    "service": """
service:
  name: shop
  database: sqlite:///shop.db
  timezone: Europe/Berlin
  max_workers: 16
  retention: {jobs: 60d, output: 14d}
  log: {format: json, level: warning}
""",
    "api": """
api:
  host: 0.0.0.0
  port: 8750
  trusted_proxies: [10.0.0.0/8]
  allowed_hosts: [scheduler.example.com]
""",
    "include": """
include: [schedules.d/*.yaml]
""",
    "plugin_dirs": """
plugin_dirs: [plugins, /opt/plugins]
""",
    "quiet_hours": """
quiet_hours:
  nights:
    name: Nights and holidays
    timezone: Europe/Berlin
    windows:
      - {between: "22:00-07:00"}                                  # every day
      - {days: [saturday, sunday], between: "00:00-24:00"}        # the whole weekend
    dates: [2026-12-25, {from: 2026-12-30, to: 2027-01-01}]       # whole days
    action: defer

schedules:
  - {id: report, every: 1h, quiet_hours: nights, run: {command: [report]}}
""",
    "plugins": """
plugins:
  withings:
    config: {account: main}
    timeouts: {poll: 2m}
    schedules:
      - {id: hourly, every: 1h, command: poll, jitter: 5m}
      - {id: weekly, cron: "0 6 * * 1", command: sync}
""",
    "agents": """
agents:
  reviewer:
    command: [my-agent, "{prompt}"]
    default_prompt: Look for work.
    max_concurrent: 2
    self_schedule: {max_schedules: 3, min_interval: 1h}
    schedules:
      morning: {cron: "0 8 * * 1-5", prompt: Review what was pushed since yesterday.}
      inbox: {every: 5m, work_source: {type: directory, path: inbox, when_empty: skip}}
""",
    "workflows": """
workflows:
  "7":
    name: Invoices
    owner: ada
    run: {http: {url: "https://example.com/workflows/7/start"}}
    triggers: [start, correction]

schedules:
  - {id: invoices, cron: "0 6 1 * *", owner: ada, run: {workflow: {id: 7, trigger_node_id: start}}}
""",
    "messages": """
messages:
  subscribers:
    - {id: chat, http: {url: "https://example.com/messages"}}

schedules:
  - {id: greeting, cron: "0 9 * * *", run: {message: {text: Good morning.}}}
""",
    "schedules": SCHEDULE,
    "budgets": """
budgets:
  reviewer:              # the group: a plugin, an agent or a workflow
    fires_per_hour: 20
    cost_per_day: 5 USD
    cost_per_run: 0.50 USD
    on_reached: pause
  "owner:ada":           # everything that belongs to an owner
    cost_per_month: 100 USD

agents:
  reviewer: {owner: ada, command: [my-agent], schedules: {inbox: {every: 5m}}}
""",
    "notify": """
notify:
  - on: problems
    http: {url: "https://example.com/hook"}
  - name: breakers
    on: [breaker.*, schedule.died]
    for: {severity: error}
    email: {to: ops@example.com, from: everwhen@example.com, smtp: "smtp://mail.example.com:587"}
    cooldown: 1h
    quiet_hours: nights

quiet_hours:
  nights: {windows: [{between: "22:00-07:00"}]}
""",
}
