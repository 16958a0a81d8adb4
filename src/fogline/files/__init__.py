"""How do files become record batches, whatever wrote them? One reader, without an engine, for all engines."""
