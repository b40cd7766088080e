"""Which further parts the API has: MCP, where the settings ask for it. Only then is the package `mcp` imported."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from everwhen.config.settings import ApiSettings
from everwhen.errors import ConfigError

if TYPE_CHECKING:
    from everwhen.api.app import Mount


def mounts_of(settings: ApiSettings) -> tuple[Mount, ...]:
    """Return the further parts of the API that the settings ask for."""
    if not settings.mcp:
        return ()
    try:
        return (import_module("everwhen.mcp.http").mount_mcp,)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types"):
            raise
        raise ConfigError(
            "api.mcp needs the package mcp; install it with: pip install 'everwhen[mcp]'"
        ) from None
