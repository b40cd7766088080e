"""The stored state of plugins, on any database: read here, written by the settling of their jobs."""

from __future__ import annotations

import json
from typing import Any

from everwhen.stores.transaction import Store


class StoredPluginState:
    """The state of plugins, kept in a store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def state_of(self, plugin: str) -> dict[str, Any]:
        with self._store.read() as tx:
            state = tx.plugin_states([plugin]).get(plugin)
        found: dict[str, Any] = {} if state is None else json.loads(state)
        return found
