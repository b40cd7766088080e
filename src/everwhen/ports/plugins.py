"""Installed plugins, and their stored state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from everwhen.model.manifest import Manifest


@dataclass(frozen=True, slots=True)
class Plugin:
    """A plugin that can be run: manifest, folder, its program with links resolved, and warnings for the operator."""

    manifest: Manifest
    folder: str
    entrypoint: str
    warnings: tuple[str, ...] = ()


class Plugins(Protocol):
    """The plugins that are installed."""

    def find(self, name: str) -> Plugin | None:
        """Return the plugin as it is on disk now; None when there is none; ManifestError when it is unusable."""
        ...


class PluginState(Protocol):
    """The stored state of plugins. The settling of their jobs writes it; this port only reads."""

    def state_of(self, plugin: str) -> dict[str, Any]:
        """Return everything that the plugin has stored; empty when it never stored anything."""
        ...
