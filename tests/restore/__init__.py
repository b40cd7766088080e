"""Backups, and what a restored one goes on with."""
