"""WHAT WE NEED: the protocols that adapters fulfil. Each verb of a store is one whole transaction."""
