"""The steps inside a transaction, written once for every database: load, decide, write."""
