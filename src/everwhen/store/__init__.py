"""The databases: the only package that contains SQL."""
