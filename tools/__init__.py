"""What helps to develop: words that are not used, new examples, components for tests."""
