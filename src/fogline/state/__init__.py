"""What an engine keeps of groups and sensors between batches: where it lies, and how it is framed."""
