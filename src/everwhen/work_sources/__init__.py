"""Work sources of agents: one adapter for each kind of source."""
