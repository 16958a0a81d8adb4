"""What was measured? One small file per experiment: one knob turned, the rest at default, plain rows out."""
