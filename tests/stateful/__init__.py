"""The store and the decisions as one state machine, driven at random and checked by the ledger checker."""
