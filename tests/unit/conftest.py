"""Property tests find the same on every machine, and quickly."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("unit", derandomize=True, deadline=None, max_examples=50)
settings.load_profile("unit")
