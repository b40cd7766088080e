"""The numbered steps that made each database what it is; `everwhen.stores.migrate` applies them."""
