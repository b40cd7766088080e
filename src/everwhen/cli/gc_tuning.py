"""Tuning of the garbage collector, only in processes of everwhen's own; a program that embeds everwhen decides itself.

Firing a slot creates no reference cycles, and the objects of a batch live until its commit. By default Python scans
the youngest 700 objects each time there are that many, and everything again and again. It scans each batch, and every
plan in memory, some dozen times without finding garbage. That took an eighth of the time of a cycle.
"""

from __future__ import annotations

import gc

YOUNG = 20_000  # objects: a pass over them takes a millisecond


def skip_last_collection() -> None:
    """Exclude everything from collection: the interpreter would scan it all again before it ends."""
    gc.freeze()


def collect_seldom() -> None:
    """Collect less often for the rest of the process, and exclude what is already imported from collection."""
    gc.freeze()
    gc.set_threshold(YOUNG, *gc.get_threshold()[1:])
