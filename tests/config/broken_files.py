"""Files with mistakes, each with everything that is said about it. A file is written as `everwhen.yaml`.

The short form `… | keys` stands for one general schedule with an id, a command and those keys.
"""

from __future__ import annotations

from typing import NamedTuple

from everwhen.config.schema import SECTIONS
from everwhen.model.group import needs_max_cost


class Broken(NamedTuple):
    """A file and the lines that are said about it, without the file's name."""

    text: str
    lines: tuple[str, ...]


def one(keys: str, *said: str) -> Broken:
    """One schedule, `id: a` with a command, and these keys in line 2."""
    return Broken(
        f"schedules:\n- {{id: a, run: {{command: [ls]}}, {keys}}}\n",
        tuple(f"2: schedules[0]{line}" for line in said),
    )


def run(fields: str, *said: str) -> Broken:
    """One schedule every minute that runs this."""
    return Broken(
        f"schedules:\n- {{id: a, every: 1m, run: {fields}}}\n",
        tuple(f"2: schedules[0].run{line}" for line in said),
    )


_FORMAT = 'Expected format: "{number}{unit}"'
_NO_WEEKDAY = "is not a weekday; use names (saturday, sat) or 0 to 7, where 0 and 7 are Sunday"
_ONE_TARGET = "must name exactly one of command, http, python, message, plugin, agent, workflow"

YAML = {
    "no YAML": Broken(
        "a: [", ("2: is not valid YAML: did not find expected node content, while parsing a flow node",)
    ),
    "a tab": Broken(
        "service:\n\tname: x",
        (
            "2: is not valid YAML: a tab, @ or ` begins a word; indent with spaces, and put such words in quotes",
        ),
    ),
    "an open quote": Broken(
        'service: {name: "x}',
        ("1: is not valid YAML: found unexpected end of stream, while scanning a quoted scalar",),
    ),
    "a control character": Broken(
        "a: 1\nb: \x07", ("2: is not valid YAML: it contains a control character (#x07)",)
    ),
    "a key twice": Broken(
        "service: {name: a}\napi: {port: 1}\nservice: {name: b}",
        ("3: service: duplicate key, first in line 1",),
    ),
    "a key twice deep inside": Broken(
        "api:\n  port: 1\n  host: a\n  port: 2", ("4: api.port: duplicate key, first in line 2",)
    ),
    "a foreign tag": Broken(
        "service: {name: !!python/name:os.system x}",
        (
            '1: service.name: the tag "tag:yaml.org,2002:python/name:os.system" does not fit "x"; leave it out',
        ),
    ),
    "a tagged list": Broken(
        "include: !mine [a*]", ('1: include: the tag "!mine" is not supported; write plain values',)
    ),
    "several documents": Broken(
        "service: {}\n---\napi: {}", ("2: holds several documents; keep one, and drop the line with ---",)
    ),
    "an alias without anchor": Broken(
        "service: *base", ("1: service: *base refers to no anchor before it, or to one that contains it",)
    ),
    "an alias inside its anchor": Broken(
        "service: &a {name: *a}",
        ("1: service.name: *a refers to no anchor before it, or to one that contains it",),
    ),
    "a list as a key": Broken("? [a]\n: 1", ("1: a key must be a word, not a list or a mapping",)),
    "a merge of a word": Broken(
        "service: {<<: x}", ("1: service.<<: takes a mapping, or a list of mappings",)
    ),
    "brackets without end": Broken("[" * 1_000, ("1: [0][0][0]: is nested more than 50 levels deep",)),
}
SHAPE = {
    "a list": Broken(
        "- a", ("1: must be a mapping with service, api, include, plugin_dirs, quiet_hours, …, not a list",)
    ),
    "a word": Broken(
        "hello",
        ('1: must be a mapping with service, api, include, plugin_dirs, quiet_hours, …, not "hello"',),
    ),
    "an unknown section": Broken("schedule: []", ('1: schedule: unknown key, did you mean "schedules"?',)),
    "a section of no sense": Broken(
        "xyzzy: 1", (f"1: xyzzy: unknown key; known keys: {', '.join(SECTIONS)}",)
    ),
    "service is a number": Broken(
        "service: 5",
        (
            "1: service: must be a mapping with name, database, timezone, check_interval, misfire_grace, …, not 5",
        ),
    ),
    "an unknown key of service": Broken(
        "service:\n  databse: x", ('2: service.databse: unknown key, did you mean "database"?',)
    ),
    "a worker too many": Broken(
        "service: {max_workers: 1001}",
        ("1: service.max_workers: must be a whole number from 1 to 1,000, not 1001",),
    ),
    "a number in words": Broken(
        "service: {max_workers: eight}",
        ('1: service.max_workers: must be a whole number from 1 to 1,000, not "eight"',),
    ),
    "true is no duration, though 1 is one": Broken(
        "service: {check_interval: 1, lease: true}",
        (f'1: service.lease: Invalid interval "True". {_FORMAT}',),
    ),
    "true is no weekday, though 1 is one": Broken(
        "schedules:\n- {id: a, every: 1m, not_on: [1], run: {command: [ls]}}\n"
        "- {id: b, every: 1m, not_on: [true], run: {command: [ls]}}",
        (f'3: schedules[1].not_on: "True" {_NO_WEEKDAY}',),
    ),
    "a zero byte": Broken(
        'schedules:\n- {id: a, every: 1m, name: "a\\0b", run: {command: [ls, "\\0"]}}',
        (
            "2: schedules[0].name: contains a zero byte, which is not allowed",
            "2: schedules[0].run.command[1]: contains a zero byte, which is not allowed",
        ),
    ),
    "true is no number": Broken(
        "service: {max_workers: true}",
        ("1: service.max_workers: must be a whole number from 1 to 1,000, not true",),
    ),
    "a database of another kind": Broken(
        "service: {database: mysql://x}",
        ('1: service.database: "mysql://x" must be a database URL, such as sqlite:///everwhen.db',),
    ),
    "an unknown dispatch": Broken(
        "service: {dispatch: rabbit}",
        ('1: service.dispatch: "rabbit" must be one of local, rq, rq-chain, celery',),
    ),
    "a lease without unit": Broken(
        "service: {lease: '30'}", (f"1: service.lease: Missing time unit. {_FORMAT}",)
    ),
    "retention for ever": Broken(
        "service: {retention: {jobs: for ever}}",
        (f'1: service.retention.jobs: Invalid interval "for ever". {_FORMAT}',),
    ),
    "a zone of the service": Broken(
        "service: {timezone: Paris}",
        ('1: service.timezone: Unknown time zone "Paris", use an IANA name such as Europe/Paris, or local',),
    ),
    "an unset variable": Broken(
        "service: {name: '${NO_SUCH_THING}'}",
        (
            "1: service.name: must be a name of letters, digits, - and _, such as nightly-backup, not empty",
            "1: service.name: the variable NO_SUCH_THING is not set; set it, or write ${NO_SUCH_THING:-default}",
        ),
    ),
    "a port in words": Broken(
        "api: {port: http}", ('1: api.port: must be a whole number from 0 to 65,535, not "http"',)
    ),
    "a size without unit": Broken(
        "api: {max_payload: much}",
        ('1: api.max_payload: "much" is not a size; write it like 64KiB or 16MiB',),
    ),
    "behind a proxy": Broken(
        "api: {behind_proxy: true}",
        (
            "1: api.behind_proxy: was replaced: write trusted_proxies: [127.0.0.1] with the networks of your proxies",
        ),
    ),
    "proxies that are no networks": Broken(
        "api: {trusted_proxies: [proxy.example, 10.0.0.1/8, 0.0.0.0/0, 7]}",
        (
            '1: api.trusted_proxies[0]: "proxy.example" is not a network; write it like 10.0.0.0/8 or 127.0.0.1',
            '1: api.trusted_proxies[1]: "10.0.0.1/8" is not a network; write it like 10.0.0.0/8 or 127.0.0.1',
            '1: api.trusted_proxies[2]: "0.0.0.0/0" contains all addresses; name the networks of your proxies',
            '1: api.trusted_proxies[3]: "7" is not a network; write it like 10.0.0.0/8 or 127.0.0.1',
        ),
    ),
    "half of tls": Broken("api: {tls: {cert: a.pem}}", ("1: api.tls: key is required",)),
    "yes is no truth": Broken("api: {insecure: yes}", ('1: api.insecure: must be true or false, not "yes"',)),
    "an include that is not there": Broken(
        "include: [more.yaml]", ('1: include[0]: there is no file "more.yaml"',)
    ),
    "an include that is not a list": Broken("include: a.yaml", ('1: include: must be a list, not "a.yaml"',)),
    "schedules as a mapping": Broken("schedules: {a: 1}", ("1: schedules: must be a list, not a mapping",)),
    "a schedule that is a word": Broken(
        "schedules: [a]", ('1: schedules[0]: must be a mapping with id, every, cron, at, after, …, not "a"',)
    ),
    "neither id nor run": Broken(
        "schedules:\n- every: 5m", ("2: schedules[0]: id is required", "2: schedules[0]: run is required")
    ),
    "an id with a dot": Broken(
        "schedules: [{id: a.b, every: 1m, run: {command: [ls]}}]",
        ('1: schedules[0].id: "a.b" must be a name of letters, digits, - and _, such as nightly-backup',),
    ),
    "an id that is a number": Broken(
        "schedules: [{id: 5, every: 1m, run: {command: [ls]}}]",
        (
            (
                "1: schedules[0].id: must be a name of letters, digits, - and _, such as nightly-backup, not 5;"
                ' write it in quotes: "5"'
            ),
        ),
    ),
    "an id twice": Broken(
        "schedules:\n- {id: a, every: 1m, run: {command: [ls]}}\n- {id: a, every: 2m, run: {command: [ls]}}",
        ('3: schedules[1]: duplicate schedule id "a", first in everwhen.yaml:2',),
    ),
}
SCHEDULES = {
    "no trigger": one("name: x", ": requires one of every, cron, at, or after"),
    "two triggers": one("every: 5m, cron: '@daily'", ": must set exactly one of every, cron, at, or after"),
    "an interval without unit": one("every: '5'", f".every: Missing time unit. {_FORMAT}"),
    "an interval that is a number": one("every: 5", f'.every: Invalid interval "5". {_FORMAT}'),
    "a negative interval": one("every: -5m", ".every: Negative intervals are not allowed"),
    "a decimal interval": one("every: 5.5m", ".every: Decimal values are not supported"),
    "no interval": one("every: 0m", ".every: Zero interval is not allowed"),
    "an unknown unit": one("every: 5x", '.every: Invalid time unit "x". Valid units are: s, m, h, d'),
    "an empty interval": one("every: ''", ".every: Interval cannot be empty"),
    "hour 25": one("cron: 0 25 * * *", '.cron: Invalid cron expression "0 25 * * *" - hour must be 0-23'),
    "three fields": one('cron: "* * *"', '.cron: Invalid cron expression "* * *" - expected 5 fields, got 3'),
    "six fields": one(
        "cron: 0 0 0 * * *", '.cron: Invalid cron expression "0 0 0 * * *" - expected 5 fields, got 6'
    ),
    "an unknown shorthand": one(
        "cron: '@fortnightly'",
        '.cron: Invalid cron expression "@fortnightly" - unknown shorthand "@fortnightly"',
    ),
    "30 February": one("cron: 0 0 30 2 *", '.cron: Invalid cron expression "0 0 30 2 *" - never matches'),
    "tomorrow": one(
        "at: tomorrow", '.at: "tomorrow" is not an RFC 3339 time; write it like 2026-12-24T18:00:00+01:00'
    ),
    "a delay in words": one("after: soon", f'.after: Invalid interval "soon". {_FORMAT}'),
    "a misspelled key": one("every: 1m, jiter: 3s", '.jiter: unknown key, did you mean "jitter"?'),
    "jitter as large as the interval": one(
        "every: 1m, jitter: 1m", '.jitter: jitter "1m" must be smaller than the interval'
    ),
    "jitter of a one-shot": one(
        "after: 1h, jitter: 1m", ".jitter: jitter is for every and cron; a one-shot fires at its exact time"
    ),
    "jitter in percent of cron": one(
        "cron: '@daily', jitter: 5%",
        '.jitter: jitter "5%": a percentage needs a plain interval; give a duration such as 30s',
    ),
    "an unknown zone": one(
        "every: 1m, timezone: Mars/Base",
        '.timezone: Unknown time zone "Mars/Base", use an IANA name such as Europe/Paris, or local',
    ),
    "a window of one time": one(
        "every: 1m, only_between: 8-18",
        '.only_between: only_between "8-18" is not a time window; write it like "08:00-18:00"',
    ),
    "a window that is no time": one(
        "every: 1m, only_between: 08:00-25:00",
        '.only_between: only_between "08:00-25:00": times go from 00:00 to 23:59, and to 24:00 at the end',
    ),
    "a window of nothing": one(
        "every: 1m, only_between: 08:00-08:00",
        '.only_between: only_between "08:00-08:00" starts where it ends; for the whole day write "00:00-24:00"',
    ),
    "no weekday": one(
        "every: 1m, not_on: [caturday]",
        '.not_on: "caturday" is not a weekday; use names (saturday, sat) or 0 to 7, where 0 and 7 are Sunday',
    ),
    "first_run beside start_at": one(
        "every: 1m, start_at: 2030-01-01T00:00:00Z, first_run: immediately",
        ".first_run: first_run beside start_at: start_at says when the first run is; leave one of them out",
    ),
    "an unknown policy": one(
        "every: 1m, catch_up: all", '.catch_up: "all" must be one of skip, run_once, run_all, run_all_capped'
    ),
    "an unknown overlap": one(
        "every: 1m, if_running: wait", '.if_running: "wait" must be one of skip, queue, cancel, allow'
    ),
    "no quiet hours": one(
        "every: 1m, quiet_hours: nights", '.quiet_hours: there are no quiet hours "nights"'
    ),
    "negative retries": one(
        "every: 1m, max_retries: -1", ".max_retries: must be a whole number from 0 on, not -1"
    ),
    "a timeout in words": one("every: 1m, timeout: never", f'.timeout: Invalid interval "never". {_FORMAT}'),
    "a breaker that is a number": one(
        "every: 1m, circuit_breaker: 3",
        ".circuit_breaker: must be a mapping with threshold, reset_after, not 3",
    ),
    "a breaker that is true": one(
        "every: 1m, circuit_breaker: true", ".circuit_breaker: true must be false, or left out"
    ),
    "a breaker without patience": one(
        "every: 1m, circuit_breaker: {threshold: 0}",
        ".circuit_breaker.threshold: must be a whole number from 1 on, not 0",
    ),
    "a payload that is a list": one("every: 1m, payload: [1]", ".payload: must be an object, not a list"),
    "an unknown dst": one("every: monthly, dst: {gap: jump}", '.dst.gap: "jump" must be one of shift, skip'),
    "expect without within": one(
        "every: 1m, expect: {grace: 1h}", ".expect: must set exactly one of each, within"
    ),
    "ping without a URL": one(
        "every: 1m, ping: {url: hc}", '.ping.url: "hc" must be a URL, such as https://host/path'
    ),
    "all at once": one(
        "evry: 1m, every: 1m, timezone: Nowhere, jitter: 2m, if_running: wait",
        '.evry: unknown key, did you mean "every"?',
        '.timezone: Unknown time zone "Nowhere", use an IANA name such as Europe/Paris, or local',
        '.if_running: "wait" must be one of skip, queue, cancel, allow',
        '.jitter: jitter "2m" must be smaller than the interval',
    ),
}
TARGETS = {
    "nothing to run": run("{}", f": {_ONE_TARGET}"),
    "two things to run": run("{command: [ls], python: 'a:b'}", f": {_ONE_TARGET}, not command and python"),
    "a shell line": run(
        "{command: ls -l}", '.command: must be a list: the program, then its arguments, not "ls -l"'
    ),
    "no program": run(
        "{command: []}", ".command: must be a list: the program, then its arguments, not empty"
    ),
    "an argument that is a list": run("{command: [ls, [a]]}", ".command[1]: must be text, not a list"),
    "cwd of a request": run("{http: {url: 'http://x'}, cwd: /tmp}", ".cwd: is allowed only with command"),
    "env as a list": run("{command: [ls], env: [A=1]}", ".env: must be a mapping of variables, not a list"),
    "a URL without scheme": run(
        "{http: {url: example.org}}", '.http.url: "example.org" must be a URL, such as https://host/path'
    ),
    "a URL with an impossible port": run(
        "{http: {url: 'http://u:secret@example.org:70000'}}",
        ".http.url: must be a URL, such as https://host/path: its port must be a number from 1 to 65535",
    ),
    "no URL": run("{http: {method: GET}}", ".http: url is required"),
    "an unknown method": run(
        "{http: {url: 'http://x', method: FETCH}}",
        '.http.method: "FETCH" must be one of POST, GET, PUT, PATCH, DELETE, HEAD',
    ),
    "a function without module": run(
        "{python: recount}", '.python: "recount" must name a function, such as module:function'
    ),
    "an unknown target": run(
        "{comand: [ls]}", f": {_ONE_TARGET}", '.comand: unknown key, did you mean "command"?'
    ),
}
POLICIES = {
    "quiet hours of nothing": Broken(
        "quiet_hours: {nights: {}}", ("1: quiet_hours.nights: closes nothing; give it windows or dates",)
    ),
    "a window without times": Broken(
        "quiet_hours: {nights: {windows: [{days: [mon]}]}}",
        ("1: quiet_hours.nights.windows[0]: between is required",),
    ),
    "a day that is none": Broken(
        "quiet_hours: {nights: {windows: [{days: [moon], between: '22:00-07:00'}]}}",
        (
            (
                '1: quiet_hours.nights.windows[0].days: "moon" is not a weekday; use names (saturday, sat)'
                " or 0 to 7, where 0 and 7 are Sunday"
            ),
        ),
    ),
    "a date that is none": Broken(
        "quiet_hours: {nights: {dates: [2026-02-30]}}",
        (
            (
                '1: quiet_hours.nights.dates[0]: dates: "2026-02-30" is not a date; write 2026-12-25'
                " or {from: 2026-12-31, to: 2027-01-01}"
            ),
        ),
    ),
    "dates the wrong way round": Broken(
        "quiet_hours: {nights: {dates: [{from: 2027-01-01, to: 2026-12-31}]}}",
        ("1: quiet_hours.nights: dates: {'from': '2027-01-01', 'to': '2026-12-31'} ends before it begins",),
    ),
    "a policy with a bad name": Broken(
        "quiet_hours: {a b: {dates: [2026-12-25]}}",
        (
            (
                "1: quiet_hours.a b: is not a valid name; use at most 100 letters, digits, - and _,"
                " beginning with a letter or digit"
            ),
        ),
    ),
    "notify with a name that is taken, and quiet hours that do not exist": Broken(
        "quiet_hours: {nights: {windows: [{between: '22:00-07:00'}]}}\n"
        "notify:\n"
        "- {name: a, command: [x], quiet_hours: nights}\n"
        "- {name: a, command: [x]}\n"
        "- {command: [x], quiet_hours: nigths}\n",
        (
            '4: notify[1]: duplicate name "a", first in everwhen.yaml:3',
            '5: notify[2].quiet_hours: there are no quiet hours "nigths", did you mean "nights"? Available: nights',
        ),
    ),
    "notify by a mail that cannot be sent": Broken(
        "notify:\n"
        "- email: {to: nobody, smtp: 'mail.example.com:587'}\n"
        "- email: {to: ['a@example.com', 'a\\nb@example.com'], from: me, smtp: 'https://user:secret@mail.example.com'}\n"
        "- email: {to: 'Ops <ops@example.com>', from: '${SENDER}', smtp: 'smtps://user:${PASSWORD}@mail.example.com'}\n"
        "- email: {to: ['${ADDRESS}'], smtp: '${SMTP_URL}'}\n",
        (
            '2: notify[0].email.to: "nobody" must be an address, such as ops@example.com',
            "2: notify[0].email.smtp: must be a URL such as smtp://host:587 or smtps://host",
            '3: notify[1].email.from: "me" must be an address, such as ops@example.com',
            "3: notify[1].email.smtp: must be a URL such as smtp://host:587 or smtps://host",
        ),
    ),
    "notify of nothing": Broken(
        "notify: [{on: []}]",
        (
            "1: notify[0]: must name exactly one of http, email, command, apprise",
            "1: notify[0].on: must be a list, not empty",
        ),
    ),
}
_PLUGIN = "plugins:\n  withings:\n    config: {token_file: t}\n"
_AGENT = "agents:\n  reviewer:\n    command: [claude]\n    schedules:\n"


def plugin(fields: str, *said: str) -> Broken:
    """The plugin of the sample, with these keys in line 4."""
    return Broken(f"{_PLUGIN}    {fields}\n", tuple(f"4: plugins.withings{line}" for line in said))


def agent(fields: str, *said: str) -> Broken:
    """An agent with one schedule, in line 5."""
    return Broken(
        f"{_AGENT}      a: {fields}\n", tuple(f"5: agents.reviewer.schedules.a{line}" for line in said)
    )


GROUPS = {
    "schedule and schedules": Broken(
        f"{_PLUGIN}    schedule: {{every: 1h}}\n    schedules: [{{every: 1h}}]\n",
        ('2: plugins.withings: set either "schedule" or "schedules", not both',),
    ),
    "several schedules without ids": plugin(
        "schedules: [{every: 1h}, {id: b, every: 1h}]",
        ".schedules[0]: id is required when a plugin has several schedules",
    ),
    "an id twice in a plugin": plugin(
        "schedules: [{id: b, every: 1h}, {id: b, every: 1h}]",
        '.schedules[1]: duplicate schedule id "b", first in everwhen.yaml:4',
    ),
    "handle": plugin(
        "schedule: {command: handle, every: 1h}", '.schedule.command: command "handle" cannot be scheduled'
    ),
    "a command that is not in the manifest": plugin(
        "schedule: {command: fetch, every: 1h}",
        '.schedule.command: schedule "default" references unsupported command "fetch"; available: poll, token_refresh',
    ),
    "a payload that the command does not take": plugin(
        "schedule: {command: token_refresh, every: 1h, payload: {source: 5}}",
        """.schedule.payload: schedule "default": payload.source: 5 is not of type 'string'""",
    ),
    "a payload that lacks something": plugin(
        "schedule: {command: token_refresh, every: 1h}",
        """.schedule: schedule "default": payload: 'source' is a required property""",
    ),
    "a plugin that is not installed": Broken(
        "plugins:\n  garmin: {schedule: {every: 1h}}",
        ('2: plugins.garmin: plugin "garmin" is not installed in plugins',),
    ),
    "config that the plugin requires": Broken(
        "plugins:\n  withings: {schedule: {every: 1h}}",
        ('2: plugins.withings: config has no "token_file", which the plugin requires',),
    ),
    "a misspelled key of a plugin's schedule": plugin(
        "schedules: [{id: hourly, every: 1h, jiter: 30s}]",
        '.schedules[0].jiter: unknown key, did you mean "jitter"?',
    ),
    "no trigger in a plugin's schedule": plugin(
        "schedule: {command: poll}", ".schedule: requires one of every, cron, at, or after"
    ),
    "a name that an agent and a plugin share": Broken(
        f"{_PLUGIN}agents:\n  withings: {{command: [x]}}",
        ("5: agents.withings: the name is taken by a plugin, in everwhen.yaml:2",),
    ),
    "an agent without a program": Broken(
        "agents:\n  a: {schedules: {b: {type: chat}}}",
        ("2: agents.a: command is required: the program that is the agent, as in [claude, -p]",),
    ),
    "an unknown type": agent(
        "{type: timer, interval: 5m}", '.type: "timer" must be one of interval, cron, webhook, chat'
    ),
    "a type without its word": agent("{type: interval}", ": a schedule of type interval needs interval"),
    "a word of another type": agent(
        "{type: interval, interval: 5m, cron: '@daily'}", ".cron: is not allowed with type interval"
    ),
    "cron in two words": agent(
        "{type: cron, cron: '@daily', expression: '@hourly'}",
        ".expression: means the same as cron; keep only one of them",
    ),
    "an agent's interval without unit": agent(
        "{type: interval, interval: '5'}", f".interval: Missing time unit. {_FORMAT}"
    ),
    "an agent's cron": agent(
        "{type: cron, expression: '* * *'}",
        '.expression: Invalid cron expression "* * *" - expected 5 fields, got 3',
    ),
    "jitter of an agent": agent(
        "{type: interval, interval: 5m, jitter: 20%}", '.jitter: jitter "20%" must be 0% to 10% here'
    ),
    "a secret of a chat": agent("{type: chat, secret: x}", ".secret: is only for a webhook"),
    "a signature of a chat": agent(
        "{type: chat, signature: github}",
        ".signature: is only for a webhook",
        ".signature: requires secret",
    ),
    "a signature of nobody's": agent(
        "{type: webhook, secret: x, signature: gitlab}",
        '.signature: "gitlab" must be one of everwhen, github',
    ),
    "a work source without a type": agent(
        "{type: interval, interval: 5m, work_source: {path: inbox}}", ".work_source: type is required"
    ),
    "two limits that differ": Broken(
        "agents:\n  a:\n    command: [x]\n    max_concurrent: 2\n    instances: {max_concurrent: 3}",
        ("4: agents.a.max_concurrent: max_concurrent is 2 here and 3 in instances; keep one",),
    ),
    "a workflow that nobody knows": Broken(
        "workflows:\n  '12': {run: {http: {url: 'http://x'}}}\n"
        "schedules:\n- {id: a, every: 1h, run: {workflow: {id: 13}}}",
        ("4: schedules[0].run.workflow.id: Workflow not found. Available: 12",),
    ),
    "a trigger that the workflow lacks": Broken(
        "workflows:\n  '1': {triggers: [t1], run: {http: {url: 'http://x'}}}\n"
        "schedules:\n- {id: a, every: 1h, run: {workflow: {id: 1, trigger_node_id: t2}}}",
        ('4: schedules[0].run.workflow.trigger_node_id: workflow "1" has no trigger "t2", only t1',),
    ),
    "a workflow without run": Broken("workflows: {'1': {name: x}}", ("1: workflows.1: run is required",)),
    "an agent that nobody knows": run(
        "{agent: {name: x}}", '.agent.name: there is no agent "x" in this file'
    ),
    "a plugin of the general section": run(
        "{plugin: {name: withings}}", '.plugin.name: there is no plugin "withings" in this file'
    ),
    "a budget of nothing": Broken(
        "budgets: {a: {}}", ("1: budgets.a: limits nothing; give it fires_per_hour or fires_per_day",)
    ),
    "a cost that no budget says": Broken(
        'agents:\n  a:\n    command: [x, "{max_cost}"]\n    schedules:\n      s: {type: interval, interval: 1h}\n'
        "budgets: {a: {cost_per_day: 5 USD}}",
        (f"5: agents.a.schedules.s: {needs_max_cost('a')}",),
    ),
    "a cost that no budget of another section's schedule says": Broken(
        'agents: {a: {command: [x, "{max_cost}"]}}\nschedules:\n  - id: s\n    every: 1h\n    run: {agent: {name: a}}',
        (f"5: schedules[0].run: {needs_max_cost('a')}",),
    ),
    "a subscriber without a URL": Broken(
        "messages: {subscribers: [{id: a, http: {}}]}", ("1: messages.subscribers[0].http: url is required",)
    ),
    "an event that nobody sends": Broken(
        "notify: [{on: [breaker.opend], command: [x]}]",
        ('1: notify[0].on[0]: "breaker.opend" is not a known event, did you mean "breaker.opened"?',),
    ),
}
BROKEN = YAML | SHAPE | SCHEDULES | TARGETS | POLICIES | GROUPS
