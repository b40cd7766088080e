"""The names of APScheduler 3 that its users type first, and what each is called here: only for messages."""

from __future__ import annotations

from collections.abc import Iterable

_GUIDE = "docs/how-to/coming-from-apscheduler.md has both side by side"

METHODS = {
    "add_job": "add(id, function, every=…)",
    "scheduled_job": "every(…), cron(…), at(…) and after(…)",
    "get_jobs": "schedules()",
    "print_jobs": "print_schedules()",
    "modify_job": "update(id, …)",
    "reschedule_job": "update(id, every=…)",
    "remove_job": "remove(id)",
    "remove_all_jobs": "remove_all()",
    "pause_job": "pause(id)",
    "resume_job": "resume(id)",
    "add_listener": 'on("job.failed", …)',
    "shutdown": "stop()",
    "running": "is_running()",
    "state": "get_status()",
}
_INTERVAL = "an interval is every=, for example every='90s' or a timedelta"
_CRON = "the fields of cron are one text, for example cron='30 7 * * mon-fri'"
KEYS = {
    "trigger": "a trigger is every=, cron=, at= or after=",
    **dict.fromkeys(("seconds", "minutes", "hours", "days", "weeks"), _INTERVAL),
    **dict.fromkeys(("second", "minute", "hour", "day", "week", "month", "year", "day_of_week"), _CRON),
    "run_date": "use at=",
    "func": "the function is the second argument",
    "function": "the function is the second argument of add; replace_existing=True changes it",
    "max_instances": 'use if_running="allow" with max_concurrent=; one at a time is the default',
    "coalesce": 'use catch_up="run_once" or "run_all"',
    "misfire_grace_time": "use misfire_grace=, for example misfire_grace='60s'",
    "next_run_time": 'use start_at=, or first_run="immediately" or "after_interval"',
    "start_date": "use start_at=",
    "end_date": "use end_at=",
    "jobstore": "there is one database for all schedules",
    "executor": "use queue=",
}


def method_fault(name: str) -> str | None:
    """Return what a method of APScheduler is called here; None for any other name."""
    here = METHODS.get(name)
    return None if here is None else f"a Scheduler has no {name}; use {here} ({_GUIDE})"


def key_fault(keys: Iterable[str]) -> str | None:
    """Return what keys of APScheduler are called here; None where there are none among these."""
    found = [f"{key}: {KEYS[key]}" for key in keys if key in KEYS]
    return "\n".join([*found, _GUIDE]) if found else None
