"""The keys of a schedule: its trigger, its policies and what it runs; the same in every section."""

from __future__ import annotations

from typing import get_args

from everwhen.config.kinds import Anything, Key, Object, Record
from everwhen.config.node import Node
from everwhen.config.scalars import Flag, Number, Parsed, Text, Word
from everwhen.config.values import (
    A_DURATION,
    ARGV,
    BREAKER,
    DST,
    DURATION,
    DURATION_OR_NONE,
    ENVIRONMENT,
    GRACE,
    HEADERS,
    INSTANT,
    MOST_PAYLOAD,
    NAME_TEXT,
    PERCENT_OR_DURATION,
    URL,
    WEEKDAYS,
    WINDOW,
    WORKFLOW_ID,
    ZONE,
)
from everwhen.model.policy import CatchUp, IfRunning, IntervalFrom, OnExhausted, OnLost, WhenClosed
from everwhen.timetable.cron import parse_cron
from everwhen.timetable.interval import parse_seconds
from everwhen.timetable.occurrences import FirstRun
from everwhen.timetable.trigger import parse_every

HTTP = Record(
    {
        "url": Key(URL, "Where the request goes.", is_required=True),
        "method": Key(Word(("POST", "GET", "PUT", "PATCH", "DELETE", "HEAD")), "The HTTP method.", "POST"),
        "headers": Key(HEADERS, "Further headers."),
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
                    "id": Key(WORKFLOW_ID, "The workflow.", is_required=True),
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
        Parsed(parse_every, A_DURATION), "An interval: 5m, 1h30m, hourly, daily, weekly or monthly."
    ),
    "cron": Key(
        Parsed(parse_cron, {"type": "string", "examples": ["0 2 * * *"]}),
        "Five fields, or @daily and others.",
    ),
    "at": Key(INSTANT, "Once, at this time; without an offset it is read in the schedule's timezone."),
    "after": Key(Parsed(parse_seconds, A_DURATION), "Once, this long after the schedule is created."),
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
    "max_retries": Key(Number(0), "How often a slot that failed is tried again."),
    "retry_delay": Key(DURATION, "The first pause before a retry."),
    "on_exhausted": Key(
        Word(get_args(OnExhausted)),
        "Continue with the next slot when retries are used up, or stop.",
        "continue",
    ),
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
