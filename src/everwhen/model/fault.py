"""Descriptions of database faults that any caller may read: they contain no host and no file."""

from __future__ import annotations

from collections.abc import Mapping

from everwhen.errors import QueueError, StoreError, StoreFault

SILENT = "the database does not answer"

_CHOICES: Mapping[StoreFault, str] = {
    "locked": "the database is locked by another program",
    "full": "the disk of the database is full",
    "read_only": "the database is read-only",
    "away": "the database is away",
}


def describe_fault(error: BaseException) -> str:
    """Describe the cause of a failed step, as far as it is known.

    >>> describe_fault(StoreError("postgresql://db.internal/app refused a statement", fault="read_only"))
    'the database is read-only'
    """
    match error:
        case StoreError():
            return _CHOICES[error.fault] if error.fault is not None else SILENT
        case QueueError():
            return "the broker does not answer"
        case _:
            return f"an error in everwhen ({type(error).__name__})"
