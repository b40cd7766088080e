"""How often a process that is everwhen's own looks for rings of garbage; a program that hosts it decides for itself.

Nothing on the way of a slot makes rings, and what a batch makes lives until its commit. By default Python goes
through the youngest 700 objects each time there are so many, and through everything again and again: each batch, and
every plan in memory, some dozen times, to find nothing. That took an eighth of the time of a cycle.
"""

from __future__ import annotations

import gc

YOUNG = 20_000  # objects: a pass over them takes a millisecond


def collect_seldom() -> None:
    """For the life of the process; what was imported stays, and is not looked at again."""
    gc.freeze()
    gc.set_threshold(YOUNG, *gc.get_threshold()[1:])
