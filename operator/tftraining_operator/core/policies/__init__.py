"""One family of rules each, over (job, observed, facts, now). Pure: they return what they want."""
