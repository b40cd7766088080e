"""Faults at every statement, and nodes interleaved statement by statement.

A tap under the drivers counts the statements that a flow sends, and lets a fault happen before or after any of them.
It knows nothing of the store above it; the flows speak to operations and ports alone.
"""
