"""Scenarios: what users do on a real cluster, and what must come of it."""
