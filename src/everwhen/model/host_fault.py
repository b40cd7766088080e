"""Faults of the host: why a node could not begin a job. They count neither as a failure nor as an attempt."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Literal

HostFault = Literal["descriptors", "memory", "processes", "threads", "program"]

# Completes "the node cannot begin jobs: …".
MEANINGS: Mapping[HostFault, str] = {
    "descriptors": "no file descriptor is free",
    "memory": "no memory is free",
    "processes": "the system starts no further process",
    "threads": "the system starts no further thread",
    "program": "the Python program that runs everwhen cannot be started",
}
_FAULTS: Mapping[int, HostFault] = {
    errno.EMFILE: "descriptors",
    errno.ENFILE: "descriptors",
    errno.ENOMEM: "memory",
    errno.ENOBUFS: "memory",
    errno.EAGAIN: "processes",
}


class NotBegunError(Exception):
    """The host could not begin a job: nothing of its target has run."""

    def __init__(self, fault: HostFault, error: BaseException) -> None:
        super().__init__(f"{MEANINGS[fault]}: {error}")
        self.fault = fault


def host_fault_of(error: BaseException | None) -> HostFault | None:
    """Return the fault of the host that an error stands for, also where it is the cause of another error.

    >>> host_fault_of(OSError(24, "Too many open files")), host_fault_of(OSError(2, "No such file or directory"))
    ('descriptors', None)
    """
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, NotBegunError):
            return error.fault
        if isinstance(error, MemoryError):
            return "memory"
        if isinstance(error, OSError) and (fault := _FAULTS.get(error.errno or 0)) is not None:
            return fault
        if isinstance(error, RuntimeError) and _is_by_thread_start(error):
            return "threads"
        error = error.__cause__
    return None


def _is_by_thread_start(error: RuntimeError) -> bool:
    """Return whether the error was raised by the start of a thread, which has no error class of its own."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return False
    frame = trace.tb_frame
    return frame.f_code.co_qualname == "Thread.start" and frame.f_globals.get("__name__") == "threading"


@contextmanager
def before_target() -> Iterator[None]:
    """Raise NotBegunError for a fault of the host inside the block, in which nothing of the target runs yet."""
    try:
        yield
    except NotBegunError:
        raise
    except Exception as error:
        fault = host_fault_of(error)
        if fault is None:
            raise
        raise NotBegunError(fault, error) from error
