"""Measures everwhen and its peers under the same conditions; no test asserts a goal of this package."""
