"""REST: authentication, bodies and answers. The data is reached through `operations` only."""
