"""Calls that block, each on a thread of its own: however many hang, nobody else waits behind them.

The loop's own executor has a few threads for everybody; what other people's code may keep busy for ever has no
business there. The threads end with the process.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def aside(call: Callable[[], T]) -> Future[T]:
    """What the call comes to. Nobody who waits for it can stop it."""
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()
    threading.Thread(target=_work, args=(call, future), name="everwhen-aside", daemon=True).start()
    return future


def _work(call: Callable[[], T], future: Future[T]) -> None:
    try:
        result = call()
    except Exception as error:
        future.set_exception(error)
    except (
        BaseException
    ) as error:  # sys.exit ends this thread and nothing else; whoever waits is to see it fail
        future.set_exception(RuntimeError(repr(error)))
    else:
        future.set_result(result)
