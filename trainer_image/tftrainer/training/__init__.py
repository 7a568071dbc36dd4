"""What the training loops of all strategies share: epochs, validation, and what is recorded."""
