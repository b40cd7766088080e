"""The engine: the imperative shell. Each part does one unit of work per call and returns whether there is more."""
