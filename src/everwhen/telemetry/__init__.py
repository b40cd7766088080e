"""Logs and metrics for operators. Nothing here decides, and no other code waits for it."""
