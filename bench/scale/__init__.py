"""Many jobs at once on a real API server: our operator beside others (`make bench-scale`)."""
