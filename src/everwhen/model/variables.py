"""The variables of the environment that everwhen reads and sets, each with a line; the reference shows these tables.

The keys of the sections `service` and `api` have a variable each, which is not listed here: `config.settings.twins`
derives them.
"""

from __future__ import annotations

from collections.abc import Mapping

CONFIG = "EVERWHEN_CONFIG"
URL = "EVERWHEN_URL"
TOKEN = "EVERWHEN_TOKEN"
ADMIN_TOKEN = "EVERWHEN_ADMIN_TOKEN"
DATABASE = "EVERWHEN_DATABASE"

READ: Mapping[str, str] = {
    CONFIG: "The configuration file of every command, and of workers of RQ and Celery; without it, `everwhen.yaml` in "
    "the current directory.",
    URL: "The address of a running service: of commands (`--url`), of `everwhen mcp`, and, on a node, the address that "
    "its agents are given.",
    TOKEN: "The token for that service (`--token`).",
    ADMIN_TOKEN: "The first admin token, of 16 characters or more; without it, the first start makes and prints one.",
    "TZ": "The time zone `local`; without it, that of the machine.",
    "NO_COLOR": "No colours on the terminal.",
    "OTEL_SDK_DISABLED": "`true`: no traces, where the extra `otel` is installed.",
}

JOB_ID = "EVERWHEN_JOB_ID"
SCHEDULE_ID = "EVERWHEN_SCHEDULE_ID"
SCHEDULE_NAME = "EVERWHEN_SCHEDULE_NAME"
SLOT_AT = "EVERWHEN_SLOT_AT"
ATTEMPT = "EVERWHEN_ATTEMPT"
ORIGIN = "EVERWHEN_ORIGIN"
IS_CATCH_UP = "EVERWHEN_CATCH_UP"
REPEAT_NUMBER = "EVERWHEN_REPEAT_NUMBER"
PAYLOAD = "EVERWHEN_PAYLOAD"
DEADLINE_AT = "EVERWHEN_DEADLINE_AT"
REPORT = "EVERWHEN_REPORT"
MAX_COST = "EVERWHEN_MAX_COST"
MAX_COST_UNIT = "EVERWHEN_MAX_COST_UNIT"
AGENT = "EVERWHEN_AGENT"
WORK_ITEM = "EVERWHEN_WORK_ITEM"
MCP_CONFIG = "EVERWHEN_MCP_CONFIG"
DELIVERY_ID = "EVERWHEN_DELIVERY_ID"

SET: Mapping[str, str] = {
    JOB_ID: "The id of the job; the same for every attempt that is made after a crash.",
    SCHEDULE_ID: "The id of the schedule.",
    SCHEDULE_NAME: "The name of the schedule.",
    SLOT_AT: "The planned instant, such as `2026-11-16T09:00:00+00:00`.",
    ATTEMPT: "How many times the work of this slot has been started, from 1 on.",
    ORIGIN: "Why the job exists: `schedule`, `catch_up`, `retry`, `manual`, `backfill`, `webhook` or `chat`.",
    IS_CATCH_UP: "`true` where the job catches up missed slots, else `false`.",
    REPEAT_NUMBER: "How many runs succeeded before; 0 for the first.",
    PAYLOAD: "The payload as JSON.",
    DEADLINE_AT: "When the run times out; empty where it may take any time.",
    REPORT: "A file in which the run may report its cost, a summary or a failure as JSON.",
    MAX_COST: "What the run may cost, with a budget that has `cost_per_run`.",
    MAX_COST_UNIT: "The currency of that.",
    AGENT: "Agents: the name of the agent.",
    WORK_ITEM: "Agents: the id of the work item.",
    URL: "Agents with `self_schedule`: the address of the API.",
    TOKEN: "Agents with `self_schedule`: a token that is good while the run lasts.",
    MCP_CONFIG: "Agents with `self_schedule`: the path of a file with the configuration of an MCP client.",
    DELIVERY_ID: "Programs under `notify`: the id of the message.",
}
