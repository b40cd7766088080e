"""The store and the decisions as one machine, driven at random and checked by the ledger checker."""
