"""Loaded by every Python process whose clock libfaketime sets: makes sleeps use `select` there.

`time.sleep` sleeps until an absolute moment of the monotonic clock. libfaketime 0.9.10 handles that wrongly when it
is configured to leave that clock unchanged: the call fails with EINVAL. A clock that is really set has no such
problem.
"""

import select
import time
from typing import SupportsIndex


def sleep(seconds: float | SupportsIndex, /) -> None:
    if float(seconds) < 0:
        raise ValueError("sleep length must be non-negative")
    select.select([], [], [], float(seconds))


time.sleep = sleep
