"""The room files/."""
