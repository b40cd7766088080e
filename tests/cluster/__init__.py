"""Several nodes on one PostgreSQL, at the same moment."""
