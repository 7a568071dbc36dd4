"""Measurements that a command of this repository reproduces."""
