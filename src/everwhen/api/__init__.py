"""REST: who may call, what they may say, and what they are told. The data is reached through `operations` only."""
