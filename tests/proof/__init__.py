"""The proof: real nodes on a real database, a seeded nemesis, and a check of every slot at the end.

`python -m tests.proof` runs it; `docs/proof.md` says what it proves and what it does not.
"""
