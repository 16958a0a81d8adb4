"""The rivals' loops, compiled.

They use Fogline's own compiler, memory layout and factorised dominance. So rivals differ from Fogline in what they do,
not in how well it is written.
"""
