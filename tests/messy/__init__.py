"""A folder as people have it."""
