"""The doors through which schedules arrive: each turns its own words into the same declarations."""
