"""Blocking calls, each on its own thread: however many hang, no other call waits for them.

The loop's own executor has a few threads that everything shares; third-party code that may block for ever must not
use them. The threads end with the process.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def aside(call: Callable[[], T]) -> Future[T]:
    """Run the call on a thread and return its future. The caller cannot stop it."""
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()
    threading.Thread(target=_work, args=(call, future), name="everwhen-aside", daemon=True).start()
    return future


def _work(call: Callable[[], T], future: Future[T]) -> None:
    try:
        result = call()
    except Exception as error:
        future.set_exception(error)
    except BaseException as error:  # sys.exit ends only this thread; the caller has to see a failure
        future.set_exception(RuntimeError(repr(error)))
    else:
        future.set_result(result)
