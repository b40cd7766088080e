"""An installation that moves from SQLite to PostgreSQL."""
