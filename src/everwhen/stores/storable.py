"""Text that any database can store: programs may print anything, and no run may be lost because of it."""

from __future__ import annotations


def storable(text: str) -> str:
    """Return the text with NUL, which PostgreSQL refuses, and lone surrogates, which are not valid UTF-8, replaced.

    >>> storable("a\\0b")
    'a\\ufffdb'
    """
    if "\0" in text:
        text = text.replace("\0", "\ufffd")
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
