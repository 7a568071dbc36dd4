"""Which examples a training sees, in every strategy and mode."""
