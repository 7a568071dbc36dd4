"""The checkpoint directory: who may write there, checkpoints, and the exported model."""
