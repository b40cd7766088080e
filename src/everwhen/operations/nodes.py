"""Which nodes there are: role, version, heartbeat, and how far each one's clock is from the database's."""

from __future__ import annotations

from everwhen.model.node import Node
from everwhen.ports.house import House


def list_nodes(house: House, *, also_gone: bool = False) -> list[Node]:
    """Those that live, the oldest start first; with `also_gone` every one that is remembered."""
    return [node for node in house.upkeep.nodes() if also_gone or node.is_alive]


def skewed_nodes(house: House) -> list[Node]:
    """Living nodes whose clock is too far from the database's: somebody should see to their time service."""
    return [node for node in list_nodes(house) if node.is_skewed]
