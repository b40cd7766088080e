"""The numbered steps that create each database's schema; `everwhen.stores.migrate` applies them."""
