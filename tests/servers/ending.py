"""What has to be undone when a test run ends, in the reverse order of its doing.

Owns only the list. The session fixture empties it at the end of a run; `atexit` does so where a server was
started outside pytest, or where an interrupt skipped the fixtures.
"""

import atexit
import os
from collections.abc import Callable
from contextlib import ExitStack

_pending = ExitStack()


def at_the_end(action: Callable[[], None]) -> None:
    """Promise to call `action` once, before this process ends or its test session is over."""
    owner_pid = os.getpid()

    def act_if_owner() -> None:
        # A forked child inherits the list, and must not end its parent's servers when it exits.
        if os.getpid() == owner_pid:
            action()

    _pending.callback(act_if_owner)


@atexit.register
def end_everything() -> None:
    """Carry out what was promised. Harmless when repeated: what is done has left the list."""
    _pending.close()
