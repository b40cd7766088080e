"""The proof: recompute every slot from the record. Nothing here calls `decide`."""
