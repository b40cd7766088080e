"""Plugins as they are installed now, and what they remember."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from everwhen.model.manifest import Manifest


@dataclass(frozen=True, slots=True)
class Plugin:
    """A plugin that can be run: its manifest, its folder, and its program after links were followed; and what an
    operator should be warned of."""

    manifest: Manifest
    folder: str
    entrypoint: str
    warnings: tuple[str, ...] = ()


class Plugins(Protocol):
    """The plugins that are installed."""

    def find(self, name: str) -> Plugin | None:
        """The plugin as it is on disk now; None when there is none; ManifestError when it cannot be used."""
        ...


class PluginState(Protocol):
    """What plugins asked to be remembered. It is written by the settling of their jobs, never here."""

    def state_of(self, plugin: str) -> dict[str, Any]:
        """Everything that the plugin has stored; empty for one that never stored anything."""
        ...
