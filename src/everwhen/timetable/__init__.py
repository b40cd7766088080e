"""Time arithmetic: triggers, zones, windows and slots. The package does not depend on jobs and never reads a clock.

Inside this package an instant is a whole number of seconds since 1970 (UTC): integers are fast, and slots are whole
seconds anyway. A *reading* is the local wall-clock time at an instant, counted in seconds since 1970-01-01 00:00 local
time: instant + offset of the zone.
"""
