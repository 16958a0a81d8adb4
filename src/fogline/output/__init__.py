"""The folder of a run: which files it has, which batches, and what the answer was, now or then."""
