"""WHAT TO DO: pure functions that take `now` as an argument and return a value, which the store commits."""
