"""The calls, one file per noun."""
