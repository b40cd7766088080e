"""The proof: real nodes on a real database, a seeded nemesis, and an account of every slot at the end.

`python -m tests.proof` runs it; `docs/proof.md` says what it shows and what it does not.
"""
