"""How fast, and compared with what? Ratios taken in one run, side by side."""
