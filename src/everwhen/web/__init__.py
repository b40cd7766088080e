"""The dashboard: static pages that are a client of the REST API and its event stream."""
