"""Upgrades and rollbacks of the operator under jobs that train."""
