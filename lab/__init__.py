"""How good is it, beside what, on which data?

Streams with known truth (`case`, `synthetic`, `real`), imputers and skyline maintainers behind one protocol each
(`imputers/`, `maintainers/`), the race between any pair of them and Fogline itself (`race`), and the score of what they
answer (`score`). Experiments are built of these.
"""
