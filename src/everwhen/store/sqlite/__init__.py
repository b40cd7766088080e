"""SQLite: connections, the one writer with its lock, statements, and the maintenance of the file."""
