"""WHAT TO DO: pure functions; `now` is passed in, a value is returned, and the store commits it."""
