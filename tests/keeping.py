"""How a store keeps a new job, for worlds in memory: as the simulation does."""

from everwhen.operations.simulate.world import queued as kept

__all__ = ["kept"]
