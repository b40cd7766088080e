"""Where agents' work comes from: one adapter for each kind of source."""
