"""The numbered steps that create each database's schema; `everwhen.store.schema.migrate` applies them."""
