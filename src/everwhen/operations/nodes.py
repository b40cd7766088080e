"""The nodes: role, version, heartbeat, and the offset of each one's clock from the database's."""

from __future__ import annotations

from everwhen.model.node import Node
from everwhen.runtime import Runtime
from everwhen.stores.opened import store_of


def list_nodes(runtime: Runtime, *, also_gone: bool = False) -> list[Node]:
    """Return the live nodes, the oldest start first; with `also_gone` every recorded node."""
    return [node for node in store_of(runtime).upkeep.nodes() if also_gone or node.is_alive]
