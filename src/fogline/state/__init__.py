"""What is kept of groups and sensors between the batches of a run."""
