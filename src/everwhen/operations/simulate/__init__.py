"""Simulation of a configuration: `decide` on a virtual clock, without a store, a thread or a wait."""

from everwhen.operations.simulate.simulation import Simulation, recorded_runs, simulate

__all__ = ["Simulation", "recorded_runs", "simulate"]
