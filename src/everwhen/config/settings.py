"""The settings of the service: the file's `service` section; each key has a variable in the environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from everwhen.config.document import Block, Document
from everwhen.config.node import Node
from everwhen.config.problems import Report
from everwhen.config.schema import SERVICE
from everwhen.config.yaml_reader import core_value
from everwhen.model.instants import SECOND
from everwhen.model.kinds import Record
from everwhen.model.node import WhenCutOff
from everwhen.model.retention import Retention
from everwhen.timetable.interval import parse_seconds

PREFIX = "EVERWHEN_"


@dataclass(frozen=True, slots=True)
class Settings:
    """How this service runs; durations in seconds."""

    name: str = "everwhen"
    database: str = "sqlite:///everwhen.db"
    timezone: str = "UTC"
    check_interval: float = 1.0
    misfire_grace: str | int = "auto"
    catch_up_stagger: float = 0.0
    max_workers: int = 8
    shutdown_timeout: float = 30.0
    lease: float = 30.0
    when_cut_off: WhenCutOff = "continue"
    dispatch: str = "local"
    redis: str | None = None
    celery_broker: str | None = None
    retention: Retention = field(default_factory=Retention)


_DURATIONS = ("check_interval", "catch_up_stagger", "shutdown_timeout", "lease")


def service_fields(node: Node, environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of the section, overridden by those of the environment; report problems."""
    values = node.fields()
    for key, value in twins(SERVICE, PREFIX, environ, node.report).items():
        values[key] = {**(values.get(key) or {}), **value} if isinstance(value, dict) else value
    return values


def twins(record: Record, prefix: str, environ: Mapping[str, str], report: Report) -> dict[str, Any]:
    """Return the values that the environment sets for the keys of a section; report problems."""
    found: dict[str, Any] = {}
    for name, key in record.keys.items():
        variable = prefix + name.upper()
        if isinstance(key.kind, Record):
            if inner := twins(key.kind, f"{variable}_", environ, report):
                found[name] = inner
        elif environ.get(variable):
            twin = _twin(variable, environ[variable], report)
            key.kind.check(twin)
            if twin.is_sound:
                found[name] = twin.value
    return found


def _twin(variable: str, text: str, report: Report) -> Node:
    return Node(Document(variable, Block(), is_file=False), (), core_value(text), report)


def settings_of(values: Mapping[str, Any], *, local_zone: Callable[[], str]) -> Settings:
    """Return the settings from fields that were checked."""
    chosen = dict(values)
    if chosen.get("timezone") == "local":
        chosen["timezone"] = local_zone()
    chosen |= {key: float(seconds_of(values[key])) for key in _DURATIONS if key in values}
    ages = chosen.pop("retention", None) or {}
    kept = {age.name: seconds_of(ages[age.name]) * SECOND for age in fields(Retention) if age.name in ages}
    return Settings(**chosen, retention=Retention(**kept))


def seconds_of(value: str | int) -> int:
    """Return a checked duration in seconds; `0s` and 0 are none."""
    if isinstance(value, int):
        return value
    return 0 if value in ("0", "0s") else parse_seconds(value)
