"""Scenarios that take minutes: `make chaos` runs them, `make test` does not."""
