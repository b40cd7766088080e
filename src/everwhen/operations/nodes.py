"""Which nodes there are: role, version, heartbeat, and how far each one's clock is from the database's."""

from __future__ import annotations

from everwhen.model.node import Node
from everwhen.ports.runtime import Runtime


def list_nodes(runtime: Runtime, *, also_gone: bool = False) -> list[Node]:
    """Those that live, the oldest start first; with `also_gone` every one that is remembered."""
    return [node for node in runtime.upkeep.nodes() if also_gone or node.is_alive]
