"""The data model: schedules, jobs, limits, breakers and events, as frozen values.

Outside `timetable` an instant is a whole number of microseconds since 1970, UTC, as the databases store it and as a
clock returns it. Slots are whole seconds nevertheless; `calendar` is the one interface to `timetable`, which counts in
seconds. Names of instants end in `_at`. Names of durations have no suffix; docstrings and comments say so where needed.
"""
