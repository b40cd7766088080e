"""What slots run: one adapter for each kind of target."""
