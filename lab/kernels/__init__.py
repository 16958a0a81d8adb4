"""How fast can the rivals be?

What the paper's competitors need in a loop, compiled like Fogline's own parts and on the same memory layout, with the
same factorised dominance: they differ from Fogline in what they do, not in how well it is written.
"""
