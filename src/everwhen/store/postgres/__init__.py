"""PostgreSQL: connections, retried transactions, locks, the clock, notifications, and the care of the database."""
