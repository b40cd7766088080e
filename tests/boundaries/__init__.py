"""Faults at every statement, and nodes interleaved statement by statement.

A tap below the drivers counts the statements that a flow sends, and can make a fault happen before or after any of
them. It knows nothing about the store above it; the flows use operations and the verbs of the store only.
"""
