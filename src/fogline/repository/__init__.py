"""What does complete history say about a missing value? Rules, lattice, index, cost model, store."""
