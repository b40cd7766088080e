"""WHAT THINGS ARE: schedules, jobs, limits, breakers, events, as frozen values.

From here on an instant is a whole number of microseconds since 1970, UTC: what the databases keep and what a
clock gives. Slots are whole seconds all the same; `calendar` is the one seam to `timetable`, which counts in
seconds. Names of instants end in `_at`, durations in nothing but say so where they stand.
"""
