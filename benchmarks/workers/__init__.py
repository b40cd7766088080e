"""The code that runs inside the child processes; stdlib only at import, because most environments lack everwhen."""
