"""The stored state of plugins: read here, written by the settling of their jobs."""

from __future__ import annotations

import json
from typing import Any

from everwhen.stores.transaction import Store


class PluginState:
    """The stored state of plugins; it is only read here."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def state_of(self, plugin: str) -> dict[str, Any]:
        """Return everything that the plugin has stored; empty when it never stored anything."""
        with self._store.read() as tx:
            state = tx.plugin_states([plugin]).get(plugin)
        found: dict[str, Any] = {} if state is None else json.loads(state)
        return found
