"""The sections that declare schedules: each converts its own keys to the same declarations."""
