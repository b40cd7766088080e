"""The ports: protocols that adapters implement. Each method of a store port is one whole transaction."""
