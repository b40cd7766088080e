"""The schedules of the proof: every kind of trigger, policy and limit, so that faults strike all of them at work.

Those of the file are reloaded and started anew with every scheduler; those of the API are created once and then
belong to the users. Users do not touch `tick-…` and `guarded.…`: they show that time passes and that limits hold.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from everwhen.model.schedule import Target
from tests.proof.receiver import ALERTS, INBOX, PING
from tests.submissions import Submission

LEASE = 3
MOST_RUNNING, MOST_OUTSTANDING = 2, 2  # of the groups `crowded` and `guarded`
LIMITS: Mapping[str, dict[str, Any]] = {
    "crowded": {"max_concurrent": MOST_RUNNING},
    "guarded": {"max_outstanding": MOST_OUTSTANDING, "command": "poll"},
}
NEVER = {"every": "3650d", "interval": "3650d", "cron": "0 0 1 1 *"}
OVER_INTERFACE = ("crowded.", "guarded.", "played-", "made-")
NOBODYS = ("tick-", "guarded.", "watched-")
SPENDERS, MOST_FIRES = "spenders", 25  # an owner whose budget is used up in a minute
PAYERS, MOST_COST, COST = "payers", 3.0, 0.25  # and one that is spent, in USD
SILENT, WAVERING, PINGED = "watched-silent", "watched-wavering", "watched-pinged"


def configuration(
    now: datetime,
    folder: Path,
    seconds: float,
    *,
    service: Mapping[str, Any],
    slower: int,
    outside: str | None = None,
) -> dict[str, Any]:
    """Return the configuration file as it is at the beginning. `slower` multiplies its intervals.

    `outside` is the URL of a receiver; without it there is nothing that an earlier release does not know.
    """
    watched = [] if outside is None else _watched(outside)
    schedules = [*_clockwork(now, seconds), *_troubled(folder), *watched]
    found = {
        "service": {
            "check_interval": "1s",
            "lease": f"{LEASE}s",
            "shutdown_timeout": "15s",
            "max_workers": 8,
            **service,
        },
        "quiet_hours": {
            "soon": {"windows": _windows(now, range(1, 60, 3)), "action": "skip"},
            "later": {"windows": _windows(now, range(2, 60, 4)), "action": "defer"},
        },
        "agents": {"asker": _agent(folder)},
        "budgets": {"asker": {"fires_per_hour": 400, "cost_per_day": "1000 USD", "cost_per_run": "0.25 USD"}},
        "schedules": [stretched(fields, slower) for fields in schedules],
    }
    return found if outside is None else _with_watchers(found, outside)


def _with_watchers(fields: dict[str, Any], outside: str) -> dict[str, Any]:
    """Return the file with an API, budgets that are used up, and those who get alerts and messages."""
    everything = {
        "name": "everything",
        "on": "all",
        "http": {"url": f"{outside}{ALERTS}"},
        "group_wait": "1s",
        "cooldown": "5s",
        "max_per_hour": 1_000_000,
    }
    used_up = {
        f"owner:{SPENDERS}": {"fires_per_hour": MOST_FIRES},
        f"owner:{PAYERS}": {"cost_per_day": f"{MOST_COST} USD", "cost_per_run": f"{COST} USD"},
    }
    return {
        **fields,
        "budgets": {**fields["budgets"], **used_up},
        "api": {"insecure": True, "allow_private_urls": True, "allowed_hosts": ["*"]},
        "notify": [everything],
        "messages": {"subscribers": [{"id": "inbox", "http": {"url": f"{outside}{INBOX}"}}]},
    }


def _windows(now: datetime, minutes: range) -> list[dict[str, str]]:
    """Return windows that are closed for a minute now and then."""
    starts = [now + timedelta(minutes=minute) for minute in minutes]
    return [{"between": f"{at:%H:%M}-{at + timedelta(minutes=1):%H:%M}"} for at in starts]


def _agent(folder: Path) -> dict[str, Any]:
    return {
        **_command(folder, beats=2),
        "max_concurrent": 1,
        "schedules": {
            "look": {"type": "interval", "interval": "4s", "prompt": "Look."},
            "ask": {"type": "cron", "cron": "* * * * *", "prompt": "Ask."},
            "on-push": {"type": "webhook"},
        },
    }


def _clockwork(now: datetime, seconds: float) -> list[dict[str, Any]]:
    """Return every kind of trigger and of catch-up."""
    once = [
        _schedule(f"once-{number}", at=_soon(now, seconds * number / 12), misfire_grace="1s")
        for number in range(1, 12)
    ]
    return [
        *(_schedule(f"tick-{number}", every="1s", if_running="allow") for number in range(1, 5)),
        _schedule("minutely", cron="* * * * *", timezone="Europe/Paris", catch_up="run_once"),
        _schedule("jittered", every="3s", jitter="1s"),
        _schedule("monthly", every="monthly", start_at=_soon(now, 10)),
        _schedule("bounded", every="1s", end_at=_soon(now, seconds / 2)),
        _schedule("five", every="2s", total_repeats=5),
        _schedule("late", after=f"{int(seconds / 3) + 1}s"),
        _schedule("chain", every="1s", interval_from="completion", seconds=0.2),
        _schedule("all", every="2s", catch_up="run_all", catch_up_limit=10),
        _schedule("all-queued", every="3s", catch_up="run_all", if_running="queue", seconds=0.5),
        _schedule("newest", every="2s", catch_up="run_once", misfire_grace="1s"),
        _schedule("nights", every="2s", quiet_hours="soon"),
        _schedule("put-off", every="5s", quiet_hours="later", catch_up="run_once"),
        _schedule("window", every="2s", only_between=_windows(now, range(1))[0]["between"]),
        *once,
    ]


def _troubled(folder: Path) -> list[dict[str, Any]]:
    """Return work that is slow, fails, hangs or must not be repeated."""
    apart = {"runs": str(folder / "runs")}  # a child process inherits no variable
    return [
        _schedule("skips", every="1s", seconds=1.4),
        _schedule("queues", every="2s", if_running="queue", queue_limit=5, seconds=1.0),
        _schedule("cancels", every="3s", if_running="cancel", seconds=4.0),
        _schedule("retries", every="4s", max_retries=3, retry_delay="1s", fails=0.4, if_running="queue"),
        _schedule("dies", every="5s", max_retries=1, retry_delay="1s", on_exhausted="stop", fails=0.6),
        _schedule("breaks", every="1s", circuit_breaker={"threshold": 2, "reset_after": "3s"}, fails=0.5),
        _schedule(
            "breaks-and-retries",
            every="3s",
            circuit_breaker={"threshold": 2, "reset_after": "3s"},
            max_retries=3,
            retry_delay="1s",
            fails=0.4,
        ),
        _schedule("only-once", every="2s", on_lost="fail", if_running="allow", seconds=0.8),
        _schedule("hangs", every="6s", timeout="1s", seconds=5.0),
        _schedule(
            "chain-of-failures",
            every="2s",
            interval_from="completion",
            fails=0.5,
            max_retries=2,
            retry_delay="1s",
        ),
        {"id": "program", "every": "3s", "run": _command(folder, beats=1)},
        {"id": "long-program", "every": "6s", "run": _command(folder, beats=22)},  # longer than a lease
        {"id": "apart", "every": "9s", "payload": apart, "run": {"python": WORK, "isolate": True}},
        {"id": "message", "every": "4s", "run": {"message": {"text": "still here", "thread_id": "proof"}}},
    ]


def _watched(outside: str) -> list[dict[str, Any]]:
    """Return what others wait for: deadlines that are missed, pings, and budgets that are used up."""
    return [
        _schedule(SILENT, every="4s", fails=1.0, expect={"each": "slot", "grace": "1s"}),
        _schedule(WAVERING, every="3s", fails=0.6, expect={"within": "5s", "grace": "1s"}),
        _schedule(PINGED, every="4s", fails=0.2, ping={"url": f"{outside}{PING}"}),
        *(_schedule(f"watched-spends-{n}", every="2s", owner=SPENDERS, if_running="allow") for n in (1, 2)),
        *(_schedule(f"watched-pays-{n}", every="3s", owner=PAYERS, cost=COST) for n in (1, 2)),
    ]


WORK = "tests.proof.work:work"


def _schedule(
    schedule_id: str, *, seconds: float = 0.0, fails: float = 0.0, cost: float = 0.0, **fields: Any
) -> dict[str, Any]:
    payload = {"seconds": seconds, "fails": fails, "cost": cost}
    return {"id": schedule_id, **fields, "payload": payload, "run": {"python": WORK}}


def _command(folder: Path, *, beats: int) -> dict[str, Any]:
    command = ["sh", str(folder / "work.sh"), str(folder / "runs"), str(beats)]
    return {"command": command, "env": {"PROOF_NODE": "${EVERWHEN_PROOF_NODE:-program}"}}


def stretched(fields: dict[str, Any], slower: int) -> dict[str, Any]:
    every = str(fields.get("every", ""))
    return fields | {"every": f"{int(every[:-1]) * slower}s"} if every[:-1].isdecimal() else fields


def _soon(now: datetime, seconds: float) -> str:
    return (now + timedelta(seconds=int(seconds) + 1)).isoformat()


# -- over the API --


def submissions(slower: int) -> list[Submission]:
    """Return groups with limits that several schedules share, and a few schedules for users to change."""
    one, two, three = (f"{seconds * slower}s" for seconds in (1, 2, 3))
    crowded = LIMITS["crowded"] | {"payload": {"seconds": 0.6}}
    guarded = LIMITS["guarded"] | {"payload": {"seconds": 0.4}}
    grouped = [
        *(("crowded", n, two, crowded | {"if_running": "queue"}) for n in (1, 2)),
        *(("crowded", n, two, crowded) for n in (3, 4)),
        *(("guarded", n, one, guarded) for n in (1, 2, 3, 4)),
    ]
    return [
        *(
            submission(f"{group}.{n}", group=group, every=every, **fields)
            for group, n, every, fields in grouped
        ),
        submission("played-2", every=two, if_running="queue"),
        submission("played-3", every=three, if_running="queue"),
    ]


def submission(schedule_id: str, *, group: str | None = None, **fields: Any) -> Submission:
    return Submission(schedule_id, fields, Target("python", json.dumps({"function": WORK})), group=group)


# -- the end --


def hushed_file(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the same file with nothing that fires any more; existing jobs stay as they are."""
    agents = {
        name: agent | {"schedules": _hushed_map(agent["schedules"])}
        for name, agent in fields["agents"].items()
    }
    return fields | {"agents": agents, "schedules": [_hushed(schedule) for schedule in fields["schedules"]]}


def _hushed_map(schedules: dict[str, Any]) -> dict[str, Any]:
    return {name: _hushed(fields) for name, fields in schedules.items()}


def _hushed(fields: dict[str, Any]) -> dict[str, Any]:
    return fields | {key: never for key, never in NEVER.items() if key in fields}


def hushed(schedule_id: str) -> Submission:
    """Return a schedule of the API that does not fire any more."""
    group = schedule_id.partition(".")[0] if "." in schedule_id else None
    limits = LIMITS[group] if group is not None else {}
    return submission(schedule_id, group=group, every=NEVER["every"], if_running="queue", **limits)
