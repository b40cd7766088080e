"""WHEN: the arithmetic of time. It knows triggers, zones, windows and slots, and no jobs.

Inside this package an instant is a whole number of seconds since 1970 (UTC): integers are what makes it fast,
and slots are whole seconds anyway. A *reading* is what a clock on the wall shows at an instant, as seconds
since 1970-01-01 00:00 on that wall: instant + offset of the zone. Nothing here reads a clock.
"""
