"""Actions to undo when a test run ends, in reverse order of registration.

This module owns only the list. The session fixture empties it at the end of a run; `atexit` does so when a server was
started outside pytest, or when an interrupt skipped the fixtures.
"""

import atexit
import os
from collections.abc import Callable
from contextlib import ExitStack

_pending = ExitStack()


def at_the_end(action: Callable[[], None]) -> None:
    """Register `action` to be called once, before this process ends or its test session is over."""
    owner_pid = os.getpid()

    def act_if_owner() -> None:
        # A forked child inherits the list, and must not end its parent's servers when it exits.
        if os.getpid() == owner_pid:
            action()

    _pending.callback(act_if_owner)


@atexit.register
def end_everything() -> None:
    """Run the registered actions. A second call is harmless, because finished actions have left the list."""
    _pending.close()
