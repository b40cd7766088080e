"""Read by every Python process that libfaketime sets the clock of: sleeps by `select` there.

`time.sleep` sleeps until an absolute moment of the monotonic clock, which libfaketime 0.9.10 gets wrong where it is
told to leave that clock alone: the call fails with EINVAL. A clock that is set for real makes no such trouble.
"""

import select
import time
from typing import SupportsIndex


def sleep(seconds: float | SupportsIndex, /) -> None:
    if float(seconds) < 0:
        raise ValueError("sleep length must be non-negative")
    select.select([], [], [], float(seconds))


time.sleep = sleep
