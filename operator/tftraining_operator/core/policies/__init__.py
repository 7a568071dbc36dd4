"""One family of predicates each, over (job, observed, now)."""
