"""Real PostgreSQL and Valkey servers for tests, started from wheels on loopback and removed afterwards."""
