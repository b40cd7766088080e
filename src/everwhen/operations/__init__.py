"""WHAT A PERSON CAN DO: one function each; every surface calls these."""
