"""What jobs leave behind beside their outcome: memories of plugins, messages. Written by the transaction that
settles them, so that a crash neither loses nor doubles anything, and a worker that was given up for dead writes
nothing at all."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from everwhen.model.outcome import NewMessage, PluginUpdate
from everwhen.stores.transaction import Transaction


def leave_behind(tx: Transaction, left: Sequence[PluginUpdate | NewMessage], now: int) -> None:
    """Write what ended jobs asked for, in the order in which they are settled."""
    if not left:
        return
    updates = [one for one in left if isinstance(one, PluginUpdate)]
    messages = [one for one in left if isinstance(one, NewMessage)]
    if updates:
        _remember(tx, updates, now)
    if messages:
        tx.insert_messages(messages, now)


def _remember(tx: Transaction, updates: Sequence[PluginUpdate], now: int) -> None:
    """Merge key by key: two jobs of one plugin that end together both have their say."""
    stored = tx.plugin_states({update.plugin for update in updates})
    states: dict[str, dict[str, Any]] = {plugin: json.loads(state) for plugin, state in stored.items()}
    for update in updates:
        states.setdefault(update.plugin, {}).update(json.loads(update.updates))
    tx.put_plugin_states({plugin: json.dumps(state) for plugin, state in sorted(states.items())}, now)
