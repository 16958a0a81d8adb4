"""The paper's own parts that Fogline does without: the index that grows, its cost model, its histograms."""
