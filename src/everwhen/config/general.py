"""A small `everwhen.yaml`: `service` and general `schedules` with `every`, `cron`, `at`, `after` and a command."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from everwhen.errors import ConfigError
from everwhen.model.schedule import Target

_SERVICE_KEYS = ("name", "database", "timezone", "check_interval", "max_workers", "lease", "shutdown_timeout")
_SCHEDULE_KEYS = (
    "id",
    "name",
    "description",
    "owner",
    "enabled",
    "every",
    "cron",
    "at",
    "after",
    "timezone",
    "dst",
    "start_at",
    "end_at",
    "first_run",
    "interval_from",
    "jitter",
    "only_between",
    "not_on",
    "outside_window",
    "misfire_grace",
    "catch_up",
    "catch_up_limit",
    "if_running",
    "queue_limit",
    "max_outstanding",
    "max_concurrent",
    "total_repeats",
    "max_retries",
    "retry_delay",
    "on_lost",
    "timeout",
    "circuit_breaker",
    "queue",
    "payload",
    "run",
)


@dataclass(frozen=True, slots=True)
class DeclaredSchedule:
    """A schedule of the file, in its own words."""

    schedule_id: str
    words: Mapping[str, Any]
    target: Target


@dataclass(frozen=True, slots=True)
class Configuration:
    """What a file says."""

    service: Mapping[str, Any] = field(default_factory=dict)
    schedules: tuple[DeclaredSchedule, ...] = ()


def read_configuration(path: Path) -> Configuration:
    """The configuration in a file, or ConfigError that names the file and every mistake in it."""
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}; name another with --config") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: is no YAML: {error}") from error
    problems: list[str] = []
    configuration = _read(document or {}, problems)
    if problems:
        raise ConfigError("\n".join(f"{path}: {problem}" for problem in problems))
    return configuration


def _read(document: Any, problems: list[str]) -> Configuration:
    if not isinstance(document, dict):
        problems.append("must be a mapping with service and schedules")
        return Configuration()
    _refuse_unknown(document, ("service", "schedules"), "", problems)
    service = document.get("service") or {}
    if not isinstance(service, dict):
        problems.append("service: must be a mapping")
        service = {}
    _refuse_unknown(service, _SERVICE_KEYS, "service.", problems)
    entries = document.get("schedules") or []
    if not isinstance(entries, list):
        problems.append("schedules: must be a list")
        entries = []
    schedules = [_schedule(entry, number, problems) for number, entry in enumerate(entries)]
    found = [schedule for schedule in schedules if schedule is not None]
    _refuse_twice(found, problems)
    return Configuration(service, tuple(found))


def _schedule(entry: Any, number: int, problems: list[str]) -> DeclaredSchedule | None:
    place = f"schedules[{number}]"
    if not isinstance(entry, dict) or not isinstance(entry.get("id"), str):
        problems.append(f"{place}: must be a mapping with an id")
        return None
    _refuse_unknown(entry, _SCHEDULE_KEYS, f"{place}.", problems)
    run: dict[str, Any] = entry["run"] if isinstance(entry.get("run"), dict) else {}
    argv = run.get("command")
    if (
        not isinstance(argv, list)
        or not argv
        or not all(isinstance(word, str | int | float) for word in argv)
    ):
        problems.append(f"{place}.run: must be {{command: [program, argument, …]}}")
        return None
    spec = {"argv": [str(word) for word in argv], "cwd": run.get("cwd"), "env": run.get("env")}
    words = {key: value for key, value in entry.items() if key not in ("id", "run")}
    return DeclaredSchedule(entry["id"], words, Target("command", json.dumps(spec)))


def _refuse_unknown(
    mapping: Mapping[str, Any], known: tuple[str, ...], prefix: str, problems: list[str]
) -> None:
    for key in mapping:
        if key not in known:
            near = difflib.get_close_matches(str(key), known, n=1)
            hint = f', did you mean "{near[0]}"?' if near else ""
            problems.append(f"{prefix}{key}: unknown key{hint}")


def _refuse_twice(schedules: list[DeclaredSchedule], problems: list[str]) -> None:
    seen: set[str] = set()
    for schedule in schedules:
        if schedule.schedule_id in seen:
            problems.append(f'duplicate schedule id "{schedule.schedule_id}"')
        seen.add(schedule.schedule_id)
