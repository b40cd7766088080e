"""The ledger proof: it recomputes every slot from the record, and never calls `decide`."""
