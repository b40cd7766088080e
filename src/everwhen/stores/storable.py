"""Text that any database can hold: what programs print may be anything, and no run must be lost for it."""

from __future__ import annotations


def storable(text: str) -> str:
    """The same text; NUL, which PostgreSQL refuses, and lone surrogates, which nobody takes, are replaced.

    >>> storable("a\\0b")
    'a\\ufffdb'
    """
    if "\0" in text:
        text = text.replace("\0", "\ufffd")
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
