"""Does a run keep its promises when things break around it? Seeded faults, each judged: `python -m tests.chaos`."""
