"""What Fogline answered for about 500 seeded streams when the net was recorded: `python -m tests.net` compares."""
