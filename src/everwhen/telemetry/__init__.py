"""Observers of what happens: what operators watch. Nothing here decides, and nothing waits for it."""
