"""What runs inside the child processes; stdlib only at import, since most environments lack everwhen."""
