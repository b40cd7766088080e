"""The settings of the service: the file's `service` section; each key has a variable in the environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import Any, Literal

from everwhen.config.document import Block, Document, DocumentNode
from everwhen.config.problems import Report
from everwhen.config.schema import API, LOG, SERVICE
from everwhen.config.yaml_text import core_value
from everwhen.errors import ConfigError
from everwhen.model.instants import SECOND
from everwhen.model.kinds import Record
from everwhen.model.node import WhenCutOff
from everwhen.model.retention import Retention
from everwhen.model.token import APPROVAL_TTL
from everwhen.model.values import parse_network, parse_size
from everwhen.timetable.interval import parse_seconds

PREFIX = "EVERWHEN_"
API_PREFIX = f"{PREFIX}API_"


@dataclass(frozen=True, slots=True)
class LogSettings:
    """How a node writes its log."""

    format: Literal["text", "json"] = "text"
    level: Literal["debug", "info", "warning", "error"] = "info"


@dataclass(frozen=True, slots=True)
class HeartbeatSettings:
    """The URL that a node calls while it is ready, and how often, in seconds."""

    url: str
    every: float = 60.0


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
    max_workers_per_owner: int | None = None
    shutdown_timeout: float = 30.0
    lease: float = 30.0
    when_cut_off: WhenCutOff = "continue"
    dispatch: str = "local"
    redis: str | None = None
    celery_broker: str | None = None
    approval_ttl: float = APPROVAL_TTL
    retention: Retention = field(default_factory=Retention)
    log: LogSettings = LogSettings()
    heartbeat: HeartbeatSettings | None = None


_DURATIONS = ("check_interval", "catch_up_stagger", "shutdown_timeout", "lease", "approval_ttl")


def service_fields(node: DocumentNode, environ: Mapping[str, str]) -> dict[str, Any]:
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


def _twin(variable: str, text: str, report: Report) -> DocumentNode:
    return DocumentNode(Document(variable, Block(), is_file=False), (), core_value(text), report)


def settings_of(values: Mapping[str, Any], *, local_zone: Callable[[], str]) -> Settings:
    """Return the settings from fields that were checked."""
    chosen = dict(values)
    if chosen.get("timezone") == "local":
        chosen["timezone"] = local_zone()
    chosen |= {key: float(seconds_of(values[key])) for key in _DURATIONS if key in values}
    ages, beat = chosen.pop("retention", None) or {}, chosen.pop("heartbeat", None)
    kept = {age.name: seconds_of(ages[age.name]) * SECOND for age in fields(Retention) if age.name in ages}
    log = LogSettings(**(chosen.pop("log", None) or {}))
    return Settings(**chosen, retention=Retention(**kept), log=log, heartbeat=_heartbeat(beat))


def _heartbeat(fields: Mapping[str, Any] | None) -> HeartbeatSettings | None:
    if not fields or not fields.get("url"):
        return None
    every = fields.get("every")
    return HeartbeatSettings(fields["url"], 60.0 if every is None else float(seconds_of(every)))


def log_settings_of(environ: Mapping[str, str]) -> LogSettings:
    """Return the settings of the log until the file is read; a variable with a mistake is reported then."""
    return LogSettings(**twins(LOG, f"{PREFIX}LOG_", environ, Report()))


def seconds_of(value: str | int) -> int:
    """Return a checked duration in seconds; `0s` and 0 are none."""
    if isinstance(value, int):
        return value
    return 0 if value in ("0", "0s") else parse_seconds(value)


# The settings of the API: the file's `api` section.


Network = IPv4Network | IPv6Network
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class ApiSettings:
    """The address of the API, and what callers may do; sizes in bytes."""

    host: str = "127.0.0.1"
    port: int = 8750
    url: str | None = None  # where people and other machines reach it, without a slash at its end
    allow_code_targets: bool = False
    allow_private_urls: bool = False
    mcp: bool = False
    max_payload: int = 64 << 10
    max_body: int = 1 << 20
    max_timeout: int = 3_600  # seconds
    tls: tuple[str, str] | None = None  # certificate and key
    trusted_proxies: tuple[Network, ...] = ()
    insecure: bool = False
    allowed_hosts: tuple[str, ...] = ()

    @property
    def address(self) -> str | None:
        """Return where programs of this machine reach the API; None where the port is drawn at the start."""
        host = "127.0.0.1" if self.host in ("0.0.0.0", "::") else self.host
        name = f"[{host}]" if ":" in host else host
        return f"{'https' if self.tls else 'http'}://{name}:{self.port}" if self.port else None

    @property
    def is_local(self) -> bool:
        """Return whether only this machine can reach the API."""
        if self.host in LOOPBACK_NAMES:
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False

    def refuse_exposure(self) -> None:
        """Refuse to serve other machines without TLS, a trusted proxy or `insecure`: tokens would be sent in clear."""
        if not (self.is_local or self.tls or self.trusted_proxies or self.insecure):
            raise ConfigError(
                f"api.host {self.host} serves other machines without TLS: set api.tls {{cert, key}}, or "
                "api.trusted_proxies: [NETWORK] where a proxy terminates TLS, or api.insecure: true if that is meant"
            )


def api_settings_of(fields: Mapping[str, Any] | None, environ: Mapping[str, str]) -> ApiSettings:
    """Return the settings from checked fields; variables (EVERWHEN_API_PORT, …) override them."""
    report = Report()
    said = {**(fields or {}), **twins(API, API_PREFIX, environ, report)}
    report.refuse()
    chosen = {key: value for key, value in said.items() if value is not None}
    for key in ("max_payload", "max_body"):
        if key in chosen:
            chosen[key] = parse_size(chosen[key])
    if "max_timeout" in chosen:
        chosen["max_timeout"] = seconds_of(chosen["max_timeout"])
    if "tls" in chosen:
        chosen["tls"] = (chosen["tls"]["cert"], chosen["tls"]["key"])
    if "url" in chosen:
        chosen["url"] = chosen["url"].rstrip("/")
    proxies = chosen.get("trusted_proxies", ())
    named = [proxies] if isinstance(proxies, str) else proxies
    chosen["trusted_proxies"] = tuple(parse_network(network) for network in named)
    chosen["allowed_hosts"] = tuple(chosen.get("allowed_hosts", ()))
    return ApiSettings(**chosen)
