"""The warning of a program that reads the wall clock without having named a zone."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from everwhen.clock import local_zone_name
from everwhen.errors import TimetableError, shown
from everwhen.model.declare import Declared
from everwhen.model.schedule import Definition
from everwhen.telemetry.log_to import SchedulerLogger
from everwhen.timetable.civil_time import zone
from everwhen.timetable.trigger import Cron, EveryMonth, is_naive

_INSTANTS = ("at", "start_at", "end_at")


class ZoneNotice:
    """Warns about the first schedule that is in UTC only because nobody has named a zone."""

    def __init__(self, logger: SchedulerLogger | None) -> None:
        self._logger: SchedulerLogger = logger or logging.getLogger("everwhen")
        self._is_over = False

    def look(self, declared: Declared, fields: Mapping[str, Any]) -> None:
        """Warn, once, if the schedule is about the wall clock and the fields name no zone."""
        if self._is_over or fields.get("timezone") or not _reads_wall_clock(declared.definition, fields):
            return
        self._is_over = True
        if (text := _warning(declared)) is not None:
            self._logger.warning(text)


def _reads_wall_clock(definition: Definition, fields: Mapping[str, Any]) -> bool:
    """Return whether another zone would move the schedule."""
    return (
        isinstance(definition.trigger, Cron | EveryMonth)
        or definition.only_between is not None
        or bool(definition.not_on)
        or any(is_naive(fields[key]) for key in _INSTANTS if fields.get(key) is not None)
    )


def _warning(declared: Declared) -> str | None:
    """Return the text; None where the host's clock shows UTC as well, so that nothing moves."""
    where = declared.definition.zone.name
    try:
        host = local_zone_name()
    except TimetableError:
        host = None
    if host is not None and zone(host).is_utc:
        return None
    machine = "this machine's zone has no IANA name" if host is None else f"this machine is in {host}"
    example = "Europe/Paris" if host is None else host
    return (
        f'schedule "{shown(declared.schedule_id)}" is read in {where}, because no timezone is given, and {machine}: '
        f'write Scheduler(…, timezone="{example}"), or timezone="{where}" to keep {where}'
    )
