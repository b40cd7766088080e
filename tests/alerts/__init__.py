"""Alerts: when they open, when they are told, and by which channel."""
