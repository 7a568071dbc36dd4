"""How much is trained, for what starts the programs and for the programs themselves. Pure."""

BATCH = 1024
"""Examples."""
BATCHES = {"train": 1600, "evaluation": 100}
"""Of an epoch."""
EPOCHS = 2
PARTITION_BYTES = 256 << 10
"""Least size of a part of a table."""
