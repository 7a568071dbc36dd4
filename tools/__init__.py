"""The project's own tooling: clusters, images, suites, lint, helpers of tests and bench."""
