"""The settings of the API: the file's `api` section."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import Any

from everwhen.config.problems import Report
from everwhen.config.schema import API
from everwhen.config.settings import PREFIX, twins
from everwhen.errors import ConfigError
from everwhen.model.values import parse_network, parse_size

Network = IPv4Network | IPv6Network
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class ApiSettings:
    """The address of the API, and what callers may do; sizes in bytes."""

    host: str = "127.0.0.1"
    port: int = 8750
    allow_code_targets: bool = False
    allow_private_urls: bool = False
    max_payload: int = 64 << 10
    max_body: int = 1 << 20
    tls: tuple[str, str] | None = None  # certificate and key
    trusted_proxies: tuple[Network, ...] = ()
    insecure: bool = False
    allowed_hosts: tuple[str, ...] = ()

    @property
    def is_local(self) -> bool:
        """Tell whether only this machine can reach the API."""
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
                "api.trusted_proxies: [NETWORK] where a proxy speaks TLS, or api.insecure: true if that is meant"
            )


def api_settings_of(fields: Mapping[str, Any] | None, environ: Mapping[str, str]) -> ApiSettings:
    """Return the settings from checked fields; variables (EVERWHEN_API_PORT, …) override them."""
    report = Report()
    said = {**(fields or {}), **twins(API, f"{PREFIX}API_", environ, report)}
    report.refuse()
    chosen = {key: value for key, value in said.items() if value is not None}
    for key in ("max_payload", "max_body"):
        if key in chosen:
            chosen[key] = parse_size(chosen[key])
    if "tls" in chosen:
        chosen["tls"] = (chosen["tls"]["cert"], chosen["tls"]["key"])
    proxies = chosen.get("trusted_proxies", ())
    named = [proxies] if isinstance(proxies, str) else proxies
    chosen["trusted_proxies"] = tuple(parse_network(network) for network in named)
    chosen["allowed_hosts"] = tuple(chosen.get("allowed_hosts", ()))
    return ApiSettings(**chosen)
