"""What does complete history know about a missing value? Rules, lattice, index, cost model, sensors, store."""
