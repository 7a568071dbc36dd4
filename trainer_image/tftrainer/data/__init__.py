"""The batches of a training: shared out, counted, and found again after a restart."""
